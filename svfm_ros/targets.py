"""A figure held against its bar: what experiments find, commands print and benchmarks exit by."""

from dataclasses import dataclass

__all__ = ["Check", "at_least", "at_most", "within"]


@dataclass(frozen=True, slots=True)
class Check:
    """One figure and the bar it is held against."""

    name: str
    value: float
    bar: str  # as a person would write it: "<= 0.05", ">= 50"
    ok: bool


def at_most(name: str, value: float, bar: float) -> Check:
    """Holds if the value is no larger than the bar; NaN never does."""
    return Check(name, float(value), f"<= {bar:g}", bool(value <= bar))


def at_least(name: str, value: float, bar: float) -> Check:
    """Holds if the value is no smaller than the bar; NaN never does."""
    return Check(name, float(value), f">= {bar:g}", bool(value >= bar))


def within(name: str, value: float, target: float, tolerance: float) -> Check:
    """Holds if the value lies within the tolerance of the target; NaN never does."""
    return Check(name, float(value), f"{target:g} ± {tolerance:g}", bool(abs(value - target) <= tolerance))
