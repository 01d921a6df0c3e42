"""How predictable someone's destinations are within a period, and the days on which their habits changed.

The wandering index of a period is computed from the walks of that period alone, so a person with a strict routine has a
low index before and after the routine changes. Each walk is predicted from the other walks of the period that began at
the same place at a similar hour; the index is the mean of -log p of the real destinations, in nats. 0 means always the
same place from here at this hour; exp(index) is the number of equally likely places with the same uncertainty.

A change of habits is a day that splits the record into two parts whose destinations, by place of departure and part of
the day, differ more than in any of 199 random orders of the days (binary segmentation with a permutation test).
"""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.report.walk_table import NIGHT_ENDS, NIGHT_STARTS, WalkTable

__all__ = ["change_days", "surprises"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_HOUR_WIDTH = 1.0  # hours: walks this far apart in the day count with weight exp(-1/2)
_PRIOR_WALKS = (0.5, 2.0, 8.0, 32.0)  # weight of the overall choice from a place, in walks: the best is taken
_UNIFORM_WALKS = 0.5  # added to the walks to each place within that (Jeffreys prior)
_PARTS_OF_DAY = (NIGHT_ENDS, 12.0, 17.0, NIGHT_STARTS)  # night, morning, afternoon, evening
_ORDERS = 199  # random orders of the days: significance 0.005
_LEAST_DAYS = 5  # with walks, on both sides of a change
_MOST_CHANGES = 6


def surprises(walks: WalkTable, places: int) -> Array:
    """``-log p`` of the destination of each walk ``(N,)`` in nats, given the other walks of the table.

    ``places`` is the number of places; a destination outside all of them counts as one more.
    """
    if not len(walks):
        return np.empty(0)
    kinds = places + int((walks.end < 0).any())
    end = np.where(walks.end < 0, places, walks.end)
    same_origin = (walks.origin[:, None] == walks.origin) & ~np.eye(len(walks), dtype=bool)
    apart = np.abs(walks.hour[:, None] - walks.hour)
    weight = np.exp(-0.5 * (np.minimum(apart, 24.0 - apart) / _HOUR_WIDTH) ** 2) * same_origin  # (N, N)
    same_end = end[:, None] == end
    others, alike = same_origin.sum(1), (same_origin & same_end).sum(1)
    overall = (alike + _UNIFORM_WALKS) / (others + _UNIFORM_WALKS * kinds)
    here, there = (weight * same_end).sum(1), weight.sum(1)
    found = [-np.log((here + prior * overall) / (there + prior)) for prior in _PRIOR_WALKS]
    return np.asarray(min(found, key=np.mean))


def change_days(walks: WalkTable, places: int, seed: int = 0) -> list[int]:
    """First days (ordinals, in order) of new habits; empty where nothing changed."""
    days = walks.days
    counts = _counts_by_day(walks, days, places)
    rng = np.random.default_rng(seed)
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
