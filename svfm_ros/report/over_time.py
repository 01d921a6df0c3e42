"""Walks over weeks and months: how many, at night, how fast, how predictable; beside the person's own baseline."""

from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.forecasting.wandering import EntropyDraws, NextWalks, entropy_draws
from svfm_ros.report.habit_changes import HabitChange, change_days, describe_changes
from svfm_ros.report.walk_table import WalkTable

__all__ = ["Estimate", "OverTime", "Period", "SpeedTrend", "over_time"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_DRAWS, _TAIL = 500, 0.025  # of the bootstrap over days
_DAYS_SHOWN, _WEEKS_SHOWN = 21, 400  # the longest records in days that are shown by day and by week
_ENTROPY_DRAWS = 200
_EPOCH = date(1970, 1, 1).toordinal()
_LEAST_WALKS = 12  # of a period, for its wandering index
_BASELINE_DAYS, _LEAST_BASELINE_DAYS = 28, 5
_MONTH_DAYS = 30.4
_LEAST_DIFFERENCE = {"walks_per_day": 0.5, "night_walks": 0.5, "speed_m_s": 0.05, "index": 0.25, "unfamiliar": 0.1}
"""Differences from the baseline that are too small to be marked, however certain they are."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval, which is None where there are too few days."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Period:
    """One day, week or month, between two changes of habit; dates are ISO texts."""

    first: str
    last: str
    days: int  # with walks
    walks: int
    walks_per_day: Estimate
    night_walks: Estimate  # per night
    speed_m_s: Estimate | None
    index: Estimate | None  # wandering index, nats
    unfamiliar: Estimate | None  # mean probability that a walk followed no recorded habit
    unusual: tuple[str, ...] = ()  # names of measures that differ from the baseline by more than chance


@dataclass(frozen=True, slots=True)
class SpeedTrend:
    """Change of the walking speed in m/s per month, by the median of slopes (Theil and Sen) over days."""

    per_month: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OverTime:
    """All that changes from period to period."""

    unit: str  # day, week or month
    periods: list[Period]
    baseline: Period | None  # the first four weeks, at most a third of the record
    changes: list[str]  # first days of new habits
    described: list[HabitChange]  # what is new from each of these days on
    weekdays: list[Estimate | None]  # walks per day, Monday first
    hours: list[float]  # walks per day that begin in each hour
    speed_trend: SpeedTrend | None


def over_time(walks: WalkTable, places: int, unfamiliar: ArrayLike) -> OverTime:
    """Summarise walks; ``unfamiliar`` holds a probability for each walk ``(N,)``, NaN where there is none."""
    rng = np.random.default_rng(0)
    strange = np.asarray(unfamiliar, dtype=float)
    changes = change_days(walks, places)
    first, last = int(walks.day[0]), int(walks.day[-1])
    unit = "day" if last - first < _DAYS_SHOWN else "week" if last - first < _WEEKS_SHOWN else "month"

    learnt = _learnt(walks, places, _spans(first, last + 1, "month" if unit == "month" else "week", changes))

    def period(begin: int, end: int, baseline: Period | None = None) -> Period:
        inside = (walks.day >= begin) & (walks.day < end)
        found = _period(walks.select(inside), _index(learnt, inside), strange[inside], begin, end, rng)
        return found if baseline is None else replace(found, unusual=_unusual(found, baseline))

    spans = _spans(first, last + 1, unit, changes)
    spans = [(a, b) for a, b in spans if ((walks.day >= a) & (walks.day < b)).any()]
    until = min(first + _BASELINE_DAYS, first + (last + 1 - first) // 3, *changes[:1])
    enough = np.count_nonzero(walks.days < until) >= _LEAST_BASELINE_DAYS
    baseline = period(first, until) if enough else None
    return OverTime(
        unit,
        [period(a, b, baseline) for a, b in spans],
        baseline,
        [date.fromordinal(day).isoformat() for day in changes],
        describe_changes(walks, places, changes),
        _weekdays(walks, rng),
        (np.bincount(walks.hour.astype(int), minlength=24) / len(walks.days)).round(3).tolist(),
        _speed_trend(walks),
    )


def _spans(first: int, end: int, unit: str, changes: list[int]) -> list[tuple[int, int]]:
    """Half-open ranges of days: calendar days, weeks from Monday or months, cut where habits changed."""
    starts = {first, *changes}
    if unit == "day":
        starts |= set(range(first, end))
    elif unit == "week":
        starts |= {d for d in range(first, end) if date.fromordinal(d).weekday() == 0}
    else:
        starts |= {d for d in range(first, end) if date.fromordinal(d).day == 1}
    ordered = sorted(starts)
    return list(zip(ordered, [*ordered[1:], end], strict=True))


def _learnt(walks: WalkTable, places: int, spans: list[tuple[int, int]]) -> Array:
    """Entropy of the next place at the start of each walk, by habits of the same span drawn from their posterior.

    (S, N), NaN where a span has too few walks.
    """
    found = np.full((_ENTROPY_DRAWS, len(walks)), np.nan)
    for begin, end in spans:
        inside = (walks.day >= begin) & (walks.day < end)
        if places > 1 and np.count_nonzero(inside) >= _LEAST_WALKS:
            some = walks.select(inside)
            asked = NextWalks(some.origin, some.end, some.hour, some.day - _EPOCH, places)
            found[:, inside] = entropy_draws(asked, _ENTROPY_DRAWS).each
    return found


def _index(drawn: Array, inside: NDArray[np.bool_]) -> Estimate | None:
    """The wandering index of some walks: mean and 95 % interval over habits drawn from their posterior."""
    known = inside & np.isfinite(drawn[0])
    if not known.any():
        return None
    mean, low, high = EntropyDraws(drawn[:, known]).interval(1.0 - 2.0 * _TAIL)
    return Estimate(round(mean, 4), round(low, 4), round(high, 4))


def _period(
    walks: WalkTable, index: Estimate | None, strange: Array, begin: int, end: int, rng: np.random.Generator
) -> Period:
    days = walks.days
    return Period(
        date.fromordinal(begin).isoformat(),
        (date.fromordinal(end) - timedelta(days=1)).isoformat(),
        len(days),
        len(walks),
        _mean([np.count_nonzero(walks.day == day) for day in days], rng),
        _mean([np.count_nonzero(walks.night == day) for day in days], rng),
        _by_day(walks.speed_m_s, walks.day, rng),
        index,
        _by_day(strange, walks.day, rng),
    )


def _unusual(period: Period, baseline: Period) -> tuple[str, ...]:
    """Measures whose interval does not meet that of the baseline, and that differ enough to matter."""
    found = []
    for name, least in _LEAST_DIFFERENCE.items():
        one, usual = getattr(period, name), getattr(baseline, name)
        if one is None or usual is None or one.low is None or usual.low is None:
            continue
        apart = one.low > usual.high or one.high < usual.low
        if apart and abs(one.value - usual.value) >= least:
            found.append(name)
    return tuple(found)


def _by_day(values: Array, day: Ints, rng: np.random.Generator) -> Estimate | None:
    known = np.isfinite(values)
    return _mean_by_day(values[known], day[known], rng) if known.any() else None


def _mean_by_day(values: Array, day: Ints, rng: np.random.Generator) -> Estimate:
    """Mean over walks; its interval draws whole days, because walks of one day are alike."""
    names, index = np.unique(day, return_inverse=True)
    total, count = np.bincount(index, weights=values), np.bincount(index)
    if len(names) < 2:
        return Estimate(round(float(values.mean()), 4), None, None)
    drawn = rng.integers(len(names), size=(_DRAWS, len(names)))
    low, high = np.quantile(total[drawn].sum(1) / count[drawn].sum(1), [_TAIL, 1.0 - _TAIL]).tolist()
    return Estimate(round(float(values.mean()), 4), round(low, 4), round(high, 4))


def _mean(values: ArrayLike, rng: np.random.Generator) -> Estimate:
    """Mean of one value per day."""
    given = np.asarray(values, dtype=float)
    return _mean_by_day(given, np.arange(len(given)), rng)


def _weekdays(walks: WalkTable, rng: np.random.Generator) -> list[Estimate | None]:
    days = walks.days
    counts = np.array([np.count_nonzero(walks.day == day) for day in days])
    weekday = (days - 1) % 7  # ordinal 1 was a Monday
    return [_mean(counts[weekday == k], rng) if (weekday == k).any() else None for k in range(7)]


def _speed_trend(walks: WalkTable) -> SpeedTrend | None:
    from scipy.stats import theilslopes

    known = np.isfinite(walks.speed_m_s)
    days = np.unique(walks.day[known])
    if len(days) < 2 * _LEAST_BASELINE_DAYS:
        return None
    speeds = np.array([np.median(walks.speed_m_s[known & (walks.day == day)]) for day in days])
    slope, _, low, high = theilslopes(speeds, days.astype(float))
    return SpeedTrend(*(round(float(v) * _MONTH_DAYS, 4) for v in (slope, low, high)))
