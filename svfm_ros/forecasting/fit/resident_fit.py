"""Habits, pace and spread of each resident of a home, around those of the home.

Residents either have the habits of the home or habits of their own, for which the home's are the prior. How likely each
is comes from the walks: do the others' walks predict a resident's as well as more walks of the same person would? The
answer is shared by the residents, so someone with few walks in a home of people who live alike is taken to live as they
do. The forecast averages over both.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.forecasting.fit.habit_fit import HabitWalks, fit_habits
from svfm_ros.forecasting.fit.walk_steps import WalkRows
from svfm_ros.forecasting.habits import Habits
from svfm_ros.forecasting.residents import Residents
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = ["fit_residents", "share_habits"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_BETWEEN = 0.15  # standard deviation of the log pace between people: residents with few walks stay near the home's
_SPREAD_WALKS = 10.0  # walks that the home's spread of the pace counts for
_BLOCK_H = 4.0  # hours of the day within which walks of residents are compared
_CONCENTRATIONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # walks that the others' habits count for where they are not shared
_ROUNDS = 50  # of expectation maximisation; it converges within ten


@dataclass(frozen=True, slots=True)
class _Walked:
    """What the habits of N walks are learnt from."""

    starts: Array  # (N, 2)
    hour: Array  # (N,)
    day: Ints  # (N,)
    choice: Array  # (N, K), one in the column of the field that was followed
    free: Array  # (N,)


def fit_residents(rows: WalkRows, model: WalkModel, group: Ints, free: Array, config: WalkModelConfig) -> Residents:
    """Fit each resident to their own rows; ``group`` and ``free`` (N,) are the field and the freedom of each row."""
    names, person = np.unique(np.array(rows.resident), return_inverse=True)
    person = person.reshape(-1)
    if len(names) == 1:
        return Residents.of(tuple(names.tolist()), [model.habits], np.zeros(1), np.ones(1))
    walked = _Walked(rows.starts, rows.hour, rows.day, np.eye(model.components)[group], free)
    origin = np.argmin(((walked.starts[:, None] - model.habits.origin_xy) ** 2).sum(-1), axis=1)
    cell = origin * 64 + np.floor(walked.hour / _BLOCK_H).astype(np.int64)
    alike = share_habits(cell, walked.choice, person)
    habits = [
        _averaged(model.habits, _own_habits(walked, person == r, model, config), float(alike[r]))
        for r in range(len(names))
    ]
    log_pace, ratio = _paces(_log_paces(rows, model, group, config.ramp_steps), person, len(names))
    return Residents.of(tuple(names.tolist()), habits, log_pace, ratio)


def share_habits(cell: Ints, choice: Array, person: Ints) -> Array:
    """Probability (R,) that each resident has the habits of the others.

    Walks (N,) of one ``cell`` (place and time of day) are compared by the Dirichlet-multinomial evidence of a
    resident's choices (N, K): with every walk of the others counted like one more of their own, against the others'
    shares as a prior that counts for few walks. The share of residents who live alike is estimated with them.
    """
    residents = int(person.max()) + 1
    cells, index = np.unique(cell, return_inverse=True)
    counts = np.zeros((residents, len(cells), choice.shape[1]))
    np.add.at(counts, (person, index.reshape(-1)), choice)
    base = (choice.sum(0) + 1.0 / choice.shape[1]) / (choice.sum() + 1.0)
    others = counts.sum(0) - counts + base
    shares = others / others.sum(-1, keepdims=True)
    own = np.logaddexp.reduce([_log_evidence(counts, s * shares) for s in _CONCENTRATIONS], axis=0)
    log_odds = _log_evidence(counts, others) - (own - np.log(len(_CONCENTRATIONS)))  # (R,)
    prior, alike = 0.5, np.full(residents, 0.5)
    for _ in range(_ROUNDS):
        alike = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -500.0, 500.0)) * (1.0 - prior) / prior)
        prior = (float(alike.sum()) + 0.5) / (residents + 1.0)
    return alike


def _log_evidence(counts: Array, alpha: Array) -> Array:
    """Log probability (R,) of choices counted in (R, cells, K), whose shares are Dirichlet (R, cells, K)."""
    from scipy.special import gammaln

    total, strength = counts.sum(-1), alpha.sum(-1)
    each = gammaln(strength) - gammaln(strength + total) + (gammaln(counts + alpha) - gammaln(alpha)).sum(-1)
    return np.asarray(each.sum(-1))


def _own_habits(walked: _Walked, mine: NDArray[np.bool_], model: WalkModel, config: WalkModelConfig) -> Habits:
    """Habits of one resident's walks, with the home's as the prior."""
    nobody = np.zeros(int(mine.sum()), dtype=np.int64)
    walks = HabitWalks(nobody, walked.hour[mine], walked.day[mine], walked.choice[mine], nobody)
    starts, free = walked.starts[mine], walked.free[mine]
    return fit_habits(starts, walks, free, model.ends_xy, config.group_m, config.near_m, model.habits).habits


def _averaged(home: Habits, own: Habits, alike: float) -> Habits:
    """The mean of the home's habits and a resident's own, weighed by the probability that they are the home's."""

    def mean(of_home: Array, of_own: Array) -> Array:
        return np.asarray(alike * of_home + (1.0 - alike) * of_own)

    return replace(
        own,
        shares=mean(home.shares, own.shares),
        free=mean(home.free, own.free),
        support=mean(home.support, own.support),
        base=mean(home.base, own.base),
        base_free=alike * home.base_free + (1.0 - alike) * own.base_free,
    )


def _log_paces(rows: WalkRows, model: WalkModel, group: Ints, skip: int) -> Array:
    """Log of the pace of each row (N,) relative to its field; NaN where it hardly moves."""
    found = np.full(len(rows), np.nan)
    for n, xy in enumerate(rows.xy):
        move, field = np.diff(xy, axis=0), model.grid.look_up(xy[:-1], model.tables[group[n]][..., :2])
        speed = np.hypot(field[:, 0], field[:, 1]) + 1e-9
        along = (move * field).sum(1) / speed
        going = np.hypot(move[:, 0], move[:, 1]) >= model.stand_m
        going[:skip] = False
        if along[going].sum() > 0.0:
            found[n] = np.log(along[going].sum() / (rows.dt_s * speed[going].sum()))
    return found


def _paces(log_pace: Array, person: Ints, residents: int) -> tuple[Array, Array]:
    """Log pace (R,) of each resident, drawn to the home's, and the variance around it over that of the home (R,)."""
    known = np.isfinite(log_pace)
    everyone = log_pace[known]
    if len(everyone) < 2:
        return np.zeros(residents), np.ones(residents)
    centre, home_var = float(np.median(everyone)), max(float(np.var(everyone)), 1e-6)
    own = [log_pace[known & (person == r)] - centre for r in range(residents)]
    within = float(np.mean([np.var(y) for y in own if len(y) > 1] or [home_var]))
    mean = np.array([y.sum() / (len(y) + within / _BETWEEN**2) for y in own])
    squares = np.array([((y - m) ** 2).sum() for y, m in zip(own, mean, strict=True)])
    count = np.array([len(y) for y in own])
    return mean, np.clip((squares + _SPREAD_WALKS * within) / (count + _SPREAD_WALKS) / home_var, 0.05, 5.0)
