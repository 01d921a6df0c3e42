"""Figures with the targets set for them before the measurement: what commands print and benchmarks exit by."""

from dataclasses import dataclass

__all__ = ["Check", "at_least", "at_most", "within"]


@dataclass(frozen=True, slots=True)
class Check:
    """One measured figure, the target set for it, and whether the figure meets it."""

    name: str
    value: float
    target: str  # as a person would write it: "<= 0.05", ">= 50"
    ok: bool
    error: float | None = None  # standard error of the value, where it is a mean over questions, walks or people


def at_most(name: str, value: float, target: float, error: float | None = None) -> Check:
    """The check that holds if the value is no larger than the target; NaN never is."""
    return Check(name, float(value), f"<= {target:g}", bool(value <= target), error)


def at_least(name: str, value: float, target: float, error: float | None = None) -> Check:
    """The check that holds if the value is no smaller than the target; NaN never is."""
    return Check(name, float(value), f">= {target:g}", bool(value >= target), error)


def within(name: str, value: float, target: float, tolerance: float, error: float | None = None) -> Check:
    """The check that holds if the value lies within the tolerance of the target; NaN never does."""
    return Check(name, float(value), f"{target:g} ± {tolerance:g}", bool(abs(value - target) <= tolerance), error)
