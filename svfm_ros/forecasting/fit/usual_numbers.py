"""What homes share beside the step density: how people set off, pause, end a walk and stay, and the rhythm of a day.

Each is a number that may be any real one (``raw``): a logarithm, or the logit of a probability. A population gives mean
and precision of it over homes. The home's own walks move it from there.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["HAZARDS", "RHYTHM", "Population", "logit", "prior_counts", "shrunk_log", "shrunk_median"]

Array = NDArray[np.float64]
Population = Mapping[str, Array]
"""Mean and precision (2,) of raw numbers over homes, by name."""

HAZARDS = ("pauses", "goes_on", "ends", "ends_standing")
"""Probabilities per step, in the order of a field's hazards."""

RHYTHM = ("day_changes", "habit_strength")
"""How often habits change in a day, and for how many walks what is expected counts."""

_MOST_STEPS = 1000.0  # that a population's hazard counts for: homes do differ
_MEDIAN_ERROR = 1.25  # standard error of a median of normal values over that of their mean


def logit(share: float) -> float:
    """Log odds of a probability, which is kept off zero and one."""
    p = min(max(share, 1e-6), 1.0 - 1e-6)
    return math.log(p / (1.0 - p))


def prior_counts(population: Population, name: str, share: float, count: float) -> tuple[float, float]:
    """How often an event was seen, and could have been, before any walk of this home; else ``share`` of ``count``."""
    if name not in population:
        return share * count, count
    mean, precision = population[name].tolist()
    p = 1.0 / (1.0 + math.exp(-mean))
    steps = min(precision / (p * (1.0 - p)), _MOST_STEPS)
    return p * steps, steps


def shrunk_median(values: Sequence[float], population: Population, name: str) -> float:
    """Median of positive values, drawn to the population's by how sure it is; one where there are neither."""
    median = float(np.median(values)) if values else float("nan")
    if name not in population:
        return median if values else 1.0
    if not median > 0.0:
        return math.exp(population[name][0])
    spread = float(np.median(np.abs(np.asarray(values) - median))) * 1.48 / median
    error = _MEDIAN_ERROR * max(spread, 0.05) / math.sqrt(len(values))
    return math.exp(_between(math.log(median), error, population[name]))


def shrunk_log(values: Sequence[float], population: Population, name: str) -> float | None:
    """Log of the mean of positive values, drawn to the population's; None where there are neither."""
    if not values:
        return float(population[name][0]) if name in population else None
    mean = math.log(float(np.mean(values)))
    if name not in population:
        return mean
    return _between(mean, 1.0 / math.sqrt(len(values)), population[name])  # stays are about exponential


def _between(own: float, error: float, prior: Array) -> float:
    """The mean of a value with its standard error and of the prior's, weighed by their precisions."""
    mean, precision = prior.tolist()
    weight = 1.0 / error**2
    return float((weight * own + precision * mean) / (weight + precision))
