"""The days on which someone's habits changed, and what they do since.

A change of habits is a day that splits the record into two parts whose destinations, by place of departure and part of
the day, differ more than in any of 199 random orders of the days (binary segmentation with a permutation test).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from svfm_ros.report.walk_table import NIGHT_ENDS, NIGHT_STARTS, WalkTable
from svfm_ros.wording import percent, readable

__all__ = ["HabitChange", "change_days", "describe_changes"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_PARTS_OF_DAY = (NIGHT_ENDS, 12.0, 17.0, NIGHT_STARTS)  # night, morning, afternoon, evening
_ORDERS = 199  # random orders of the days: significance 0.005
_LEAST_DAYS = 5  # with walks, on both sides of a change
_MOST_CHANGES = 6


@dataclass(frozen=True, slots=True)
class HabitChange:
    """What someone does from one day on that they did less before: walks to a place at about an hour."""

    day: str  # ISO date
    place: int  # index of the place, -1: elsewhere
    hour: int  # local
    before: float  # share of the walks at about this hour that went there
    since: float

    def text(self, names: Sequence[str], elsewhere: str = "elsewhere") -> str:
        """Such as *since 3 November, 90 % of the walks at about 16:00 lead to the study (before: 5 %)*."""
        day = date.fromisoformat(self.day)
        where = f"to the {readable(names[self.place])}" if self.place >= 0 else elsewhere
        walks = f"{percent(self.since)} of the walks at about {self.hour:02d}:00 lead {where}"
        return f"since {day.day} {day:%B}, {walks} (before: {percent(self.before)})"


def describe_changes(walks: WalkTable, places: int, days: Sequence[int]) -> list[HabitChange]:
    """For each day of a change (ordinals): the place and hour whose share of the walks rose most beyond chance."""
    borders = [int(walks.day[0]), *days, int(walks.day[-1]) + 1]
    found = []
    for n, day in enumerate(days):
        before = walks.select((walks.day >= borders[n]) & (walks.day < day))
        since = walks.select((walks.day >= day) & (walks.day < borders[n + 2]))
        found.append(_largest_rise(before, since, places, day))
    return found


def _largest_rise(before: WalkTable, since: WalkTable, places: int, day: int) -> HabitChange:
    counts = [_by_hour_and_end(w, places) for w in (before, since)]  # (24, places + 1) each
    totals = [c.sum(1, keepdims=True) for c in counts]
    a, b = (c / np.maximum(t, 1.0) for c, t in zip(counts, totals, strict=True))
    pooled = (counts[0] + counts[1] + 0.5) / (totals[0] + totals[1] + 1.0)
    error = np.sqrt(pooled * (1.0 - pooled) * (1.0 / np.maximum(totals[0], 0.5) + 1.0 / np.maximum(totals[1], 0.5)))
    hour, end = np.unravel_index(int(np.argmax((b - a) / error)), a.shape)
    place = -1 if end == places else int(end)
    return HabitChange(date.fromordinal(day).isoformat(), place, int(hour), float(a[hour, end]), float(b[hour, end]))


def _by_hour_and_end(walks: WalkTable, places: int) -> Array:
    """Walks (24, places + 1) that began within an hour of each full hour, by where they ended; elsewhere last."""
    apart = np.abs(np.arange(24.0)[:, None] - walks.hour)
    near = np.minimum(apart, 24.0 - apart) <= 1.0
    end = np.where(walks.end < 0, places, walks.end)
    return near.astype(float) @ np.eye(places + 1)[end]


def change_days(walks: WalkTable, places: int) -> list[int]:
    """First days (ordinals, in order) of new habits; empty where nothing changed."""
    days = walks.days
    counts = _counts_by_day(walks, days, places)
    rng = np.random.default_rng(0)
    found: list[int] = []
    parts = [(0, len(days))]
    while parts and len(found) < _MOST_CHANGES:
        first, last = parts.pop(0)
        at = _split(counts[first:last], rng)
        if at is not None:
            found.append(int(days[first + at]))
            parts += [(first, first + at), (first + at, last)]
    return sorted(found)


def _counts_by_day(walks: WalkTable, days: Ints, places: int) -> Array:
    """Walks ``(D, C, K)`` by day, by context (origin and part of the day) and by destination."""
    part = np.searchsorted(_PARTS_OF_DAY, walks.hour, side="right") % len(_PARTS_OF_DAY)
    context = np.where(walks.origin < 0, places, walks.origin) * len(_PARTS_OF_DAY) + part
    end = np.where(walks.end < 0, places, walks.end)
    counts = np.zeros((len(days), (places + 1) * len(_PARTS_OF_DAY), places + 1))
    np.add.at(counts, (np.searchsorted(days, walks.day), context, end), 1.0)
    return counts[:, counts.sum((0, 2)) > 0]


def _split(counts: Array, rng: np.random.Generator) -> int | None:
    """Index of the day that splits the days best, or None where a random order of the days splits as well."""
    if len(counts) < 2 * _LEAST_DAYS:
        return None
    gain = _gains(counts)
    best = gain.max()
    if any(_gains(counts[rng.permutation(len(counts))]).max() >= best for _ in range(_ORDERS)):
        return None
    return int(np.argmax(gain)) + _LEAST_DAYS


def _gains(counts: Array) -> Array:
    """Log likelihood gained by two sets of shares instead of one, for each day on which the second may begin."""
    before = np.cumsum(counts, axis=0)[_LEAST_DAYS - 1 : len(counts) - _LEAST_DAYS]
    whole = counts.sum(0)
    return _log_likelihood(before) + _log_likelihood(whole - before) - _log_likelihood(whole)


def _log_likelihood(counts: Array) -> Array:
    """Of counts ``(..., C, K)`` under their own shares in each context."""
    total = counts.sum(-1)
    return np.asarray(_times_log(counts).sum((-2, -1)) - _times_log(total).sum(-1))


def _times_log(n: Array) -> Array:
    return np.asarray(n * np.log(np.maximum(n, 1.0)))
