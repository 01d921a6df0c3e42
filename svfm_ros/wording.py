"""How names, probabilities and unknown forecasts are worded, on every page, picture and marker."""

__all__ = ["percent", "readable", "unknown"]


def readable(name: str) -> str:
    """``front_door`` as a person writes it."""
    return name.replace("_", " ")


def percent(share: float) -> str:
    """``25 %`` from 0.25."""
    return f"{100.0 * share:.0f} %"


def unknown(reason: str) -> str:
    """That a forecast is unknown, and why; an empty reason means that no walk came near."""
    return f"unknown: {reason or 'no recorded walk came near here at about this hour'}"
