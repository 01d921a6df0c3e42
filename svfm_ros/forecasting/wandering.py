"""How open is it where someone goes? The entropy of the forecast, by hour and by day.

Each walk is forecast from its own start at its own time; the entropy of its shares says how much the model left open.
People with a routine leave little open, people who wander leave much, at hours and on days that can be told apart.
Means come with a confidence interval: days are drawn anew for the whole, walks for an hour or a day. What the model
itself does not know is in the shares, and so in the entropy.

    report = wandering_index(Forecaster("model.pt", places), walks)
    report.mean, report.low, report.high      # nats, over all walks
    report.hours                              # one HourEntropy for each hour that has walks
    report.days                               # one DayEntropy for each day that has walks
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.clock import NS_PER_S, hours_of_day, zone
from svfm_ros.errors import DataError
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.types import Walk

__all__ = ["DayEntropy", "HourEntropy", "WanderingReport", "auc", "summarise", "wandering_index"]

Array = NDArray[np.float64]

_DRAWS = 1000  # of the bootstrap
_TAIL = 0.025  # left out at each end of an interval


@dataclass(frozen=True, slots=True)
class HourEntropy:
    """Mean entropy of the walks that start in one hour of the day; the interval is None where one walk says nothing."""

    hour: int  # 0 to 23, local
    mean: float  # nats
    low: float | None
    high: float | None
    walks: int


@dataclass(frozen=True, slots=True)
class DayEntropy:
    """The same for one day."""

    day: date  # local
    mean: float
    low: float | None
    high: float | None
    walks: int


@dataclass(frozen=True, slots=True)
class WanderingReport:
    """All that the walks say; ``most`` is the entropy of someone who goes to every place equally often."""

    mean: float  # nats, over all walks that start where something is known
    low: float | None
    high: float | None
    most: float
    hours: tuple[HourEntropy, ...]  # in order, only those with walks
    days: tuple[DayEntropy, ...]  # in order, only those with walks
    walks: int
    unknown: int  # walks that start far from all the model knows: left out


def wandering_index(
    forecaster: Forecaster, walks: Iterable[Walk], samples: int = 200, seed: int = 0
) -> WanderingReport:
    """Forecast every walk from its start, and sum up how much was left open."""
    stamps, entropies, unknown = [], [], 0
    for n, walk in enumerate(walks):
        begun = int(walk.stamps_ns[0])
        found = forecaster.forecast(walk.xy[0], begun, horizon_s=1.0, samples=samples, seed=seed + n)
        unknown += found.entropy is None
        if found.entropy is not None:
            stamps.append(begun)
            entropies.append(found.entropy)
    if not stamps:
        raise DataError(f"expected walks that start where the model knows something, got none ({unknown} elsewhere)")
    most = float(np.log(max(len(forecaster.places), 1)))
    return summarise(stamps, entropies, forecaster.file.time_zone, most, unknown, seed)


def summarise(
    stamps_ns: Sequence[int],
    entropies: Sequence[float],
    time_zone: str,
    most: float,
    unknown: int = 0,
    seed: int = 0,
) -> WanderingReport:
    """Means and intervals of entropies (N,) of walks that start at Unix times (N,)."""
    values = np.asarray(entropies, dtype=float)
    rng = np.random.default_rng(seed)
    hour = np.floor(hours_of_day(np.asarray(stamps_ns, dtype=np.int64), time_zone)).astype(int)
    local = zone(time_zone)
    days = [datetime.fromtimestamp(t / NS_PER_S, local).date() for t in stamps_ns]
    ordinal = np.array([day.toordinal() for day in days])
    hours = [HourEntropy(int(h), *_mean(values[hour == h], rng)) for h in np.unique(hour)]
    per_day = [DayEntropy(date.fromordinal(int(d)), *_mean(values[ordinal == d], rng)) for d in np.unique(ordinal)]
    low, high = _interval_by_day(values, ordinal, rng)
    return WanderingReport(float(values.mean()), low, high, most, tuple(hours), tuple(per_day), len(values), unknown)


def _mean(values: Array, rng: np.random.Generator) -> tuple[float, float | None, float | None, int]:
    """Mean, its interval and how many."""
    if len(values) < 2:
        return float(values.mean()), None, None, len(values)
    means = values[rng.integers(len(values), size=(_DRAWS, len(values)))].mean(1)
    low, high = np.quantile(means, [_TAIL, 1.0 - _TAIL])
    return float(values.mean()), float(low), float(high), len(values)


def _interval_by_day(
    values: Array, day: NDArray[np.int64], rng: np.random.Generator
) -> tuple[float | None, float | None]:
    """Whole days are drawn: the walks of a day are not independent of each other. With one day, walks are."""
    names, index = np.unique(day, return_inverse=True)
    if len(names) < 2:
        return _mean(values, rng)[1:3]
    total, count = np.bincount(index, weights=values), np.bincount(index)
    drawn = rng.integers(len(names), size=(_DRAWS, len(names)))
    means = total[drawn].sum(1) / count[drawn].sum(1)
    low, high = np.quantile(means, [_TAIL, 1.0 - _TAIL])
    return float(low), float(high)


def auc(lower: ArrayLike, higher: ArrayLike) -> float:
    """How often a score of the second kind is above one of the first, ties half: 0.5 is chance, 1 tells all apart."""
    a, b = np.asarray(lower, dtype=float).ravel(), np.asarray(higher, dtype=float).ravel()
    if not a.size or not b.size:
        raise DataError(f"expected scores of both kinds, got {a.size} and {b.size}")
    difference = b[:, None] - a[None, :]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())
