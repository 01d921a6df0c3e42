"""Habits from walks: by origin and hour, by kind of day where the walks show a difference, and since the last change.

Whether habits changed, and when, is a sum over all dates at which they may have changed last (Dirichlet-multinomial
evidence of the walks before and after, the rate of changes weighed by evidence, too). A walk counts with the
probability that nothing has changed since: old routines fade by themselves, and where nothing changes every walk
counts.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.fit.grouping import group_points
from svfm_ros.forecasting.fit.hour_shares import shares_by_hour
from svfm_ros.forecasting.habits import CELLS, DAY_KINDS, Habits, is_weekend

__all__ = ["FittedHabits", "fit_habits", "origins_of"]

Array = NDArray[np.float64]

_MOST_ORIGINS = 24
_BLOCK_H = 4.0  # hours that are compared with each other when changes are looked for
_MOST_BINS = 100  # dates are gathered in so many bins at most
_CHANGES_PER_DAY = (1.0 / 1000.0, 1.0 / 200.0, 1.0 / 50.0)  # weighed by evidence
_WEEKEND_PRIOR = 0.1  # probability that weekends differ, before any walk is seen
_FREE_WALKS = 4.0  # walks that the share of free walking over all origins counts for
_ABOUT_H = 1.5  # walks within about this many hours are what the habits of an hour rest on


@dataclass(frozen=True, slots=True)
class FittedHabits:
    """Habits, and what was found out about their changes."""

    habits: Habits
    change_probability: float  # that habits changed at all between the first walk and the last
    change_day: int  # the likeliest day of the last change, days since 1970-01-01; of no meaning where none is likely
    weekend_probability: float  # that weekends differ
    alive: Array  # (N,), probability for each walk that nothing has changed since


def origins_of(starts: Array, apart_m: float) -> NDArray[np.int64]:
    """The origin of each start (N, 2), numbered from 0."""
    return group_points(starts, apart_m, _MOST_ORIGINS)


def fit_habits(
    starts: Array, hour: Array, day: NDArray[np.int64], choice: Array, free: Array, apart_m: float, near_m: float
) -> FittedHabits:
    """From starts (N, 2), local hours (N,) and days (N,), the field of each walk (N, K) and how free each was (N,)."""
    origin = origins_of(starts, apart_m)
    count = int(origin.max()) + 1
    base = (choice.sum(0) + 1.0 / choice.shape[1]) / (len(choice) + 1.0)
    cell = origin * 64 + np.floor(hour / _BLOCK_H).astype(np.int64)
    weekend = is_weekend(day)
    alike = _since_last_change(cell, day, choice, base)
    split_up = _since_last_change(2 * cell + weekend, day, choice, base)
    differs = _weekend_probability(weekend, split_up.log_evidence - alike.log_evidence)
    alive = differs * split_up.alive + (1.0 - differs) * alike.alive
    kept = choice * alive[:, None]
    changed = differs * split_up.probability + (1.0 - differs) * alike.probability
    change_day = split_up.day if differs > 0.5 else alike.day
    shares = np.empty((count, DAY_KINDS, CELLS, choice.shape[1]))
    support, free_share = np.empty((count, DAY_KINDS, CELLS)), np.empty((count, DAY_KINDS, CELLS))
    free_base = float((free * alive).sum() + 0.05) / float(alive.sum() + 1.0)
    for c in range(count):
        mine = origin == c
        pooled = shares_by_hour(hour[mine], kept[mine], base)
        near = _about(hour[mine]) * alive[mine]  # (CELLS, n)
        for kind in range(DAY_KINDS):
            same = weekend[mine] == bool(kind)
            split = shares_by_hour(hour[mine][same], kept[mine][same], base) if differs > 0.01 else pooled
            shares[c, kind] = differs * split + (1.0 - differs) * pooled
            weight = near * np.where(same, 1.0, 1.0 - differs)
            support[c, kind] = weight.sum(1)
            free_share[c, kind] = (weight @ free[mine] + _FREE_WALKS * free_base) / (weight.sum(1) + _FREE_WALKS)
    habits = Habits(
        origin_xy=np.stack([starts[origin == c].mean(0) for c in range(count)]),
        origin_walks=np.bincount(origin, minlength=count).astype(float),
        shares=shares,
        free=free_share,
        support=support,
        base=shares_by_hour(hour, kept, base),
        base_free=min(0.5, 2.0 * free_base),
        near_m=near_m,
    )
    return FittedHabits(habits, changed, change_day, differs, alive)


def _about(hour: Array) -> Array:
    """How near the hours (n,) are to the middle of each half hour: (CELLS, n), 1 at the same time."""
    middle = (np.arange(CELLS) + 0.5) * 24.0 / CELLS
    apart = np.abs(middle[:, None] - hour)
    return np.exp(-0.5 * (np.minimum(apart, 24.0 - apart) / _ABOUT_H) ** 2)


def _log_evidence(counts: Array, alpha: Array) -> Array:
    """Log probability (...) of choices counted in (..., cells, K), the shares of each cell unknown."""
    from scipy.special import gammaln

    total = counts.sum(-1)
    each = gammaln(alpha.sum()) - gammaln(alpha.sum() + total) + (gammaln(counts + alpha) - gammaln(alpha)).sum(-1)
    return np.asarray(each.sum(-1))


def _counts(cell: NDArray[np.int64], part: NDArray[np.int64], parts: int, choice: Array) -> Array:
    """Choices (parts, cells, K) counted by part and cell."""
    cells, index = np.unique(cell, return_inverse=True)
    out = np.zeros((parts, len(cells), choice.shape[1]))
    np.add.at(out, (part, index.reshape(-1)), choice)
    return out


def _weekend_probability(weekend: NDArray[np.bool_], log_ratio: float) -> float:
    """Probability that weekends have habits of their own, from the log ratio of evidence with and without them.

    Both have changes of routine in them: otherwise every weekend would be taken for a change.
    """
    if weekend.all() or not weekend.any():
        return 0.0
    log_odds = log_ratio + np.log(_WEEKEND_PRIOR / (1.0 - _WEEKEND_PRIOR))
    return float(1.0 / (1.0 + np.exp(-np.clip(log_odds, -50.0, 50.0))))


@dataclass(frozen=True, slots=True)
class _Changes:
    """When habits changed last."""

    alive: Array  # (N,), probability for each walk that nothing has changed since
    probability: float  # that something changed at all
    day: int  # the likeliest day
    log_evidence: float  # of all walks


def _since_last_change(cell: NDArray[np.int64], day: NDArray[np.int64], choice: Array, base: Array) -> _Changes:
    """Sum over all dates of the last change; walks of one cell (N,) have the same habits between changes."""
    first, last = int(day.min()), int(day.max())
    width = max(1, -(-(last - first + 1) // _MOST_BINS))
    part = (day - first) // width
    bins = int(part.max()) + 1
    counts = _counts(cell, part, bins, choice)
    if bins < 2:
        return _Changes(np.ones(len(day)), 0.0, first, float(_log_evidence(counts.sum(0), base)))
    running = np.concatenate([np.zeros((1, *counts.shape[1:])), np.cumsum(counts, axis=0)])
    evidence = np.full((bins + 1, bins + 1), -np.inf)
    for a in range(bins):
        evidence[a, a + 1 :] = _log_evidence(running[a + 1 :] - running[a], base)
    found = [_last_change(evidence, -np.expm1(-rate * width)) for rate in _CHANGES_PER_DAY]
    log_z = np.array([z for _, z in found])
    weight = np.exp(log_z - log_z.max())
    posterior = np.asarray(sum(w * p for w, (p, _) in zip(weight / weight.sum(), found, strict=True)))  # (bins,)
    likeliest = 1 + int(np.argmax(posterior[1:]))
    total = float(np.logaddexp.reduce(log_z)) - np.log(len(log_z))
    return _Changes(np.cumsum(posterior)[part], float(1.0 - posterior[0]), first + likeliest * width, total)


def _last_change(evidence: Array, rate: float) -> tuple[Array, float]:
    """Probability (bins,) that the last change came before each bin (bin 0: none ever), and the log evidence."""
    bins = len(evidence) - 1
    forward = np.full(bins + 1, -np.inf)  # log probability of all before a change at the end of bin t
    forward[0] = 0.0
    stay = np.log1p(-rate)
    for t in range(1, bins):
        s = np.arange(t)
        forward[t] = np.logaddexp.reduce(forward[s] + (t - s - 1) * stay + evidence[s, t]) + np.log(rate)
    s = np.arange(bins)
    whole = forward[s] + (bins - s - 1) * stay + evidence[s, bins]
    log_z = float(np.logaddexp.reduce(whole))
    return np.exp(whole - log_z), log_z
