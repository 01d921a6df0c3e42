"""Habits from walks: by origin and hour, by kind of day where the walks show a difference, and since the last change.

Whether habits changed, and when, is a sum over all dates at which they may have changed last (Dirichlet-multinomial
evidence of the walks before and after, the rate of changes weighed by evidence, too). A walk counts with the
probability that nothing has changed since. Within what is left, older walks count less where that predicts each day
better from the days before it: the rate of forgetting is learnt, and it is zero where nothing drifts.

Residents of one home are fitted around the home: what is expected of each of them is what the home does at that place
and hour.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.fit.grouping import group_points
from svfm_ros.forecasting.fit.hour_shares import HourPosterior, counts_by_hour, fit_hours
from svfm_ros.forecasting.fit.usual_numbers import Population
from svfm_ros.forecasting.habits import CELLS, DAY_KINDS, Habits, is_weekend

__all__ = ["FittedHabits", "HabitWalks", "NextPlace", "fit_habits", "fit_next_place"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_ORIGINS = 24
_BLOCK_H = 4.0  # hours that are compared with each other when changes are looked for
_MOST_BINS = 100  # dates are gathered in so many bins at most
_CHANGES_PER_DAY = (1.0 / 1000.0, 1.0 / 200.0, 1.0 / 50.0)  # weighed by evidence
_CHANGES_PRIOR = (0.8, 0.15, 0.05)  # where habits are open, a change is hardly seen: then this is what is known
_WEEKEND_PRIOR = 0.1  # probability that weekends differ, before any walk is seen
_FORGET_PER_DAY = np.array([0.0, 1.0 / 200.0, 1.0 / 60.0, 1.0 / 20.0])
_FORGET_PRIOR = np.array([0.97, 0.01, 0.01, 0.01])
_STRENGTHS = np.array([1.0, 8.0, 64.0, 512.0])  # walks that the average of all counts for; weighed by evidence
_FREE_WALKS = 4.0  # walks that the share of free walking over all origins counts for
_ABOUT_H = 1.5  # walks within about this many hours are what the habits of an hour rest on
_HALF_KNOWN = 0.3  # walks of about an hour with which its habits are as much the walks' as the prior's
_HARDLY = 0.01  # weekends that are less likely to differ are not looked at
_KINDS = range(DAY_KINDS)
_RETURNS = 0.5  # walks back to where they began, added to those seen and to those expected by chance


@dataclass(frozen=True, slots=True)
class HabitWalks:
    """What habits are learnt from: N walks from C origins to K destinations."""

    origin: Ints  # (N,), 0 to C - 1
    hour: Array  # (N,), local hour of the start
    day: Ints  # (N,), days since 1970-01-01
    choice: Array  # (N, K), where each walk went; rows add up to one
    person: Ints  # (N,), whose walk it is


@dataclass(frozen=True, slots=True)
class NextPlace:
    """The posterior of where people go next, and what was found out about its changes."""

    change_probability: float  # that habits changed at all between the first walk and the last
    change_day: int  # the likeliest day of the last change, days since 1970-01-01; of no meaning where none is likely
    weekend_probability: float  # that weekends differ
    forget_per_day: float  # mean rate at which older walks count less
    weight: Array  # (N,), how much each walk counts
    expected: Array  # (DAY_KINDS, cells, C, K), before any walk was seen
    same: HourPosterior  # all days alike
    apart: tuple[HourPosterior, ...]  # by kind of day; empty where weekends are hardly likely to differ

    @property
    def mean(self) -> Array:
        """Shares (C, DAY_KINDS, cells, K)."""
        p = self.weekend_probability
        parts = [p * self.apart[k].mean + (1.0 - p) * self.same.mean if self.apart else self.same.mean for k in _KINDS]
        return np.stack(parts, axis=1)

    def draw(self, rng: np.random.Generator) -> Array:
        """Shares (C, DAY_KINDS, cells, K) from the posterior."""
        if self.apart and rng.random() < self.weekend_probability:
            return np.stack([posterior.draw(rng) for posterior in self.apart], axis=1)
        return np.stack([self.same.draw(rng)] * DAY_KINDS, axis=1)


@dataclass(frozen=True, slots=True)
class FittedHabits:
    """Habits as forecasts use them, and the posterior that they are the mean of."""

    habits: Habits
    found: NextPlace


def fit_habits(
    starts: Array,
    walks: HabitWalks,
    free: Array,
    ends_xy: Array,
    apart_m: float,
    near_m: float,
    home: Habits | None = None,
    population: Population | None = None,
) -> FittedHabits:
    """Habits of walks from ``starts`` (N, 2), of which field k ends at ``ends_xy[k]``; ``free`` (N,) followed no field.

    The origins are found here, those of ``walks`` are not looked at. With a ``home``, they are the home's, and so is
    what is expected at each of them. ``population`` is the rhythm of the day in other homes, see ``fit_hours``.
    """
    origin, origin_xy = _origins(starts, apart_m, home)
    own = np.linalg.norm(origin_xy[:, None] - ends_xy, axis=-1) < apart_m  # (C, K), fields that end where they begin
    expected = None if home is None else np.ascontiguousarray(home.shares.transpose(1, 2, 0, 3))
    found = fit_next_place(replace(walks, origin=origin), own, expected, population=population)
    return FittedHabits(_tables(replace(walks, origin=origin), origin_xy, free, found, near_m), found)


def fit_next_place(
    walks: HabitWalks,
    own: NDArray[np.bool_],
    expected: Array | None = None,
    cells: int = CELLS,
    population: Population | None = None,
) -> NextPlace:
    """Where people go next; ``own`` (C, K) are destinations that are the origin itself.

    ``expected`` (DAY_KINDS, cells, C, K) says what to expect without walks; if not given, the shares of all walks.
    """
    weekend, average = is_weekend(walks.day), _average(walks.choice)
    block = np.floor(walks.hour / _BLOCK_H).astype(np.int64)
    expected = _expected(walks, own, block, cells) if expected is None else expected
    cell = (walks.person * len(own) + walks.origin) * 64 + block
    alike = _since_last_change(cell, walks.day, walks.choice, average)
    split_up = _since_last_change(2 * cell + weekend, walks.day, walks.choice, average)
    differs = _weekend_probability(weekend, split_up.log_evidence - alike.log_evidence)
    alive = differs * split_up.alive + (1.0 - differs) * alike.alive
    forget, kept = _forgetting(2 * cell + weekend if differs > 0.5 else cell, walks, alive, average)
    weight = alive * kept
    apart: tuple[HourPosterior, ...] = ()
    if differs > _HARDLY:
        apart = tuple(_by_hour(walks, weight * (weekend == bool(kind)), expected[kind], population) for kind in _KINDS)
    return NextPlace(
        change_probability=differs * split_up.probability + (1.0 - differs) * alike.probability,
        change_day=split_up.day if differs > 0.5 else alike.day,
        weekend_probability=differs,
        forget_per_day=forget,
        weight=weight,
        expected=expected,
        same=_by_hour(walks, weight, expected.mean(0), population),
        apart=apart,
    )


def _origins(starts: Array, apart_m: float, home: Habits | None) -> tuple[Ints, Array]:
    """The origin of each start (N,) and the middle of each origin (C, 2); those of the home where there is one."""
    if home is not None:
        return np.argmin(((starts[:, None] - home.origin_xy) ** 2).sum(-1), axis=1), home.origin_xy
    origin = group_points(starts, apart_m, _MOST_ORIGINS)
    return origin, np.stack([starts[origin == c].mean(0) for c in range(int(origin.max()) + 1)])


def _average(choice: Array) -> Array:
    """Shares (K,) of all walks, none of them zero."""
    return np.asarray((choice.sum(0) + 1.0 / choice.shape[1]) / (choice.sum() + 1.0))


def _expected(walks: HabitWalks, own: NDArray[np.bool_], block: Ints, cells: int) -> Array:
    """Shares (DAY_KINDS, cells, C, K) that are expected without walks from there.

    A destination counts once for every origin and block of hours from which it was reached, not once per walk: the
    walks themselves are counted later, and an expectation that knew them would make habits look surer than they are.
    Going back to where one is counts as often as it was seen.
    """
    tried = _counts(64 * walks.origin + block, np.zeros_like(block), 1, walks.choice)[0] > 0.0
    average = _average(tried.astype(float))
    returned = float((walks.choice * own[walks.origin]).sum())
    by_chance = float((average * own[walks.origin]).sum())
    rate = min(1.0, (returned + _RETURNS) / (by_chance + _RETURNS))
    each = average * np.where(own, rate, 1.0)
    return np.tile(each / each.sum(1, keepdims=True), (DAY_KINDS, cells, 1, 1))


def _by_hour(walks: HabitWalks, weight: Array, expected: Array, population: Population | None = None) -> HourPosterior:
    cells, origins, _ = expected.shape
    counts = counts_by_hour(walks.hour, walks.origin, walks.choice * weight[:, None], origins, cells)
    return fit_hours(counts, expected, population)


def _tables(walks: HabitWalks, origin_xy: Array, free: Array, found: NextPlace, near_m: float) -> Habits:
    """The posterior mean; where few walks began at about an hour, what is expected without them."""
    count, weight = len(origin_xy), found.weight
    weekend, about = is_weekend(walks.day), _about(walks.hour) * weight  # (CELLS, N)
    shares, support = found.mean, np.empty((count, DAY_KINDS, CELLS))
    free_share, free_base = np.empty_like(support), float((free * weight).sum() + 0.05) / float(weight.sum() + 1.0)
    for kind in _KINDS:
        near = about * np.where(weekend == bool(kind), 1.0, 1.0 - found.weekend_probability)
        for c in range(count):
            mine = near[:, walks.origin == c]
            support[c, kind] = mine.sum(1)
            freely = mine @ free[walks.origin == c] + _FREE_WALKS * free_base
            free_share[c, kind] = freely / (support[c, kind] + _FREE_WALKS)
    known = (support / (support + _HALF_KNOWN))[..., None]
    everywhere = replace(walks, origin=np.zeros_like(walks.origin))
    return Habits(
        origin_xy=origin_xy,
        origin_walks=np.bincount(walks.origin, minlength=count).astype(float),
        shares=known * shares + (1.0 - known) * found.expected.transpose(2, 0, 1, 3),
        free=free_share,
        support=support,
        base=_by_hour(everywhere, weight, np.tile(_average(walks.choice), (CELLS, 1, 1))).mean[0],
        base_free=min(0.5, 2.0 * free_base),
        near_m=near_m,
    )


def _about(hour: Array) -> Array:
    """How near the hours (n,) are to the middle of each piece of the day: (CELLS, n), 1 at the same time."""
    middle = (np.arange(CELLS) + 0.5) * 24.0 / CELLS
    apart = np.abs(middle[:, None] - hour)
    return np.exp(-0.5 * (np.minimum(apart, 24.0 - apart) / _ABOUT_H) ** 2)


def _forgetting(cell: Ints, walks: HabitWalks, alive: Array, average: Array) -> tuple[float, Array]:
    """Mean rate of forgetting per day, and how much each walk (N,) still counts by it.

    Each rate is scored by how well the walks before a day, weighed by their age, predict the walks of that day. How
    many walks the average counts for in the prediction is summed over: were it fixed, and too low, forgetting would
    make up for it also where nothing drifts.
    """
    days, part = np.unique(walks.day, return_inverse=True)
    counts = _counts(cell, part.reshape(-1), len(days), walks.choice * alive[:, None])
    expected = np.multiply.outer(_STRENGTHS, average)[:, None]  # (S, 1, K)
    score = np.empty((len(_FORGET_PER_DAY), len(_STRENGTHS)))
    for g, rate in enumerate(_FORGET_PER_DAY):
        score[g] = np.log(_FORGET_PRIOR[g]) + _predictive(counts, np.exp(-rate * np.diff(days)), expected)
    weight = np.exp(score - score.max()).sum(1)
    weight /= weight.sum()
    age = float(days[-1]) - walks.day
    return float(weight @ _FORGET_PER_DAY), np.asarray(np.exp(-np.outer(age, _FORGET_PER_DAY)) @ weight)


def _predictive(counts: Array, keep: Array, expected: Array) -> Array:
    """Log probability (S,) of the choices (days, cells, K) of each day, given those before it.

    Between two days a share ``keep`` (days - 1,) of what was seen stays; ``expected`` (S, 1, K) is added to it.
    """
    seen, total = counts[0].copy(), np.zeros(len(expected))
    for kept, today in zip(keep, counts[1:], strict=True):
        seen *= kept
        some = today.any(1)
        told = seen[some] + expected
        total += (today[some] * np.log(told / told.sum(-1, keepdims=True))).sum((1, 2))
        seen += today
    return total


def _log_evidence(counts: Array, alpha: Array) -> Array:
    """Log probability (...) of choices counted in (..., cells, K), the shares of each cell unknown."""
    from scipy.special import gammaln

    seen = counts > 0.0  # most choices were never made, and logarithms of the gamma function are slow
    prior = np.broadcast_to(alpha, counts.shape)[seen]
    each = np.zeros(counts.shape)
    each[seen] = gammaln(counts[seen] + prior) - gammaln(prior)
    total = gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum(-1))
    return np.asarray((total + each.sum(-1)).sum(-1))


def _counts(cell: Ints, part: Ints, parts: int, choice: Array) -> Array:
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


def _since_last_change(cell: Ints, day: Ints, choice: Array, average: Array) -> _Changes:
    """Sum over all dates of the last change; walks of one cell (N,) have the same habits between changes.

    How strict habits are is summed over, too. Were they all taken to be strict, walks of someone whose habits are open
    would look like new habits every few days.
    """
    first, last = int(day.min()), int(day.max())
    width = max(1, -(-(last - first + 1) // _MOST_BINS))
    part = (day - first) // width
    bins = int(part.max()) + 1
    counts = _counts(cell, part, bins, choice)
    running = np.concatenate([np.zeros((1, *counts.shape[1:])), np.cumsum(counts, axis=0)])
    rates = -np.expm1(-width * np.array(_CHANGES_PER_DAY))
    found = [
        _last_change(evidence, rate, prior)
        for evidence in (_piece_evidence(running, strength * average) for strength in _STRENGTHS)
        for rate, prior in zip(rates, _CHANGES_PRIOR, strict=True)
    ]
    log_z = np.array([z for _, z in found])
    weight = np.exp(log_z - log_z.max())
    posterior = np.asarray(sum(w * p for w, (p, _) in zip(weight / weight.sum(), found, strict=True)))  # (bins,)
    likeliest = 1 + int(np.argmax(posterior[1:])) if bins > 1 else 0
    total = float(np.logaddexp.reduce(log_z)) - np.log(len(_STRENGTHS))
    return _Changes(np.cumsum(posterior)[part], float(1.0 - posterior[0]), first + likeliest * width, total)


def _piece_evidence(running: Array, alpha: Array) -> Array:
    """Log probability (bins + 1, bins + 1) of the choices from one bin to another, of which ``running`` is the sum."""
    bins = len(running) - 1
    evidence = np.full((bins + 1, bins + 1), -np.inf)
    for a in range(bins):
        evidence[a, a + 1 :] = _log_evidence(running[a + 1 :] - running[a], alpha)
    return evidence


def _last_change(evidence: Array, rate: float, prior: float) -> tuple[Array, float]:
    """Probability (bins,) that the last change came before each bin (bin 0: none ever), and the log evidence.

    The evidence is that of the walks and of the rate, whose probability is ``prior``.
    """
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
    return np.exp(whole - log_z), log_z + float(np.log(prior))
