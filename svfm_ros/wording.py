"""How names, probabilities and unknown forecasts are worded, on every page, picture and marker."""

__all__ = ["counted", "percent", "readable", "unknown", "with_share"]


def readable(name: str) -> str:
    """``front_door`` as a person writes it."""
    return name.replace("_", " ")


def counted(number: int, noun: str) -> str:
    """``1 walk``, ``2 walks``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """``25 %`` from 0.25."""
    return f"{100.0 * share:.0f} %"


def with_share(name: str, share: float) -> str:
    """``kitchen 25 %``; with a colon after a name that ends with a number: ``place 3: 25 %``."""
    said = readable(name)
    return f"{said}{':' if said[-1:].isdigit() else ''} {percent(share)}"


def unknown(reason: str) -> str:
    """That a forecast is unknown, and why; an empty reason means that no walk came near."""
    return f"unknown: {reason or 'no recorded walk came near here at about this hour'}"
