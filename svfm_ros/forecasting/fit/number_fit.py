"""The numbers of the model that hold everywhere, chosen by the density of walks that were left out.

First those of the step density, from each walk under the field of its own destination; then the rates of leaving habits
and coming back, from the whole forward algorithm.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.forecasting.field_step import (
    KEPT,
    StepNumbers,
    predict,
    step_gains,
    student_log_density,
    update,
)
from svfm_ros.forecasting.fit.walk_steps import WalkRows
from svfm_ros.forecasting.forward import ENDED, GOES_ON, forward
from svfm_ros.forecasting.walk_model import SwitchNumbers

__all__ = [
    "NUMBER_NAMES",
    "LeftOutMoves",
    "LeftOutWalk",
    "SwitchFit",
    "fit_steps",
    "fit_switches",
    "free_shares",
    "new_destination",
    "parting_rate",
    "raw_by_name",
    "total_log_density",
]

Array = NDArray[np.float64]

_FIRST = StepNumbers(
    pace_var=0.1**2,
    drift_var=0.12**2,
    keep_pace=0.8,
    back_pace=0.05,
    direction_var=0.16**2,
    keep_direction=0.85,
    back_direction=0.2,
    restore=0.25,
    body_var=0.02**2,
    sway_var=0.02**2,
    sensor_var=0.007**2,
    prior_walks=1.5,
    prior_along=1.0,
    prior_across=1.8,
    nu=5.0,
    nu_per_walk=0.3,
)
NUMBER_NAMES = tuple(f.name for f in fields(StepNumbers))
"""Numbers that homes share a prior over."""
_LEAST_NU = 2.5  # below, sampled paths would jump by metres
_PRIOR = 2e-3  # weight of the prior on the numbers, nats per move: it decides only where walks say nothing
_LEAST_LOGIT = np.array([-9.0, -7.0, -5.0, -7.0])  # of leaving, joining, walking freely from the start, slipping
_MOST_LOGIT = np.array([-8.2, -2.0, 0.0, -3.9])  # who leaves a habit is gone for a while; single odd moves are slips
_FIRST_LOGIT = np.array([-7.5, -3.0, -2.5, -5.0])  # where the search for them starts
_LEAVE_SCENE, _MOST_LEAVE_SCENE = -4.0, -3.9
"""Usual and highest logit of leaving in a scene of passers-by: fields are ways of other people there, and what the
first moves say about them is not sure for long."""
_SWITCH_SPREAD = np.array([0.7, 0.7, 2.0, 1.0])  # of the prior on their logits: few walks hardly move them
_CONCENTRATION = 0.5  # of the process that new destinations come from: one in 81 walks after 40
_ITERATIONS = 40
_FREE_SHARE = 0.03  # of the moves may be the free walker's while the numbers of the fields are chosen


@dataclass(frozen=True, slots=True)
class LeftOutMoves:
    """Moves of walks under a field that was learnt without them; M moves of W walks."""

    along: Array  # (M,), metres
    across: Array  # (M,)
    expected_m: Array  # (M,), the field's speed times dt
    support: Array  # (M,), walks
    spread_along: Array  # (M,), variance relative to the usual one
    spread_across: Array  # (M,)
    offset: Array  # (M,), metres to the left of the middle of the walks
    position_var: Array  # (M,), m^2
    log_free: Array  # (M,), log density of each move under the free walker
    stood: NDArray[np.bool_]  # (M,)
    begin: NDArray[np.int64]  # (W + 1,), first move of each walk, and M


@kernel
def _total(  # type: ignore[no-untyped-def]
    along, across, expected, support, spread_v, spread_u, offset, position_var, log_free, stood, begin,
    ramp, steady, numbers, gains,
):  # fmt: skip
    """Mean log density of the moves of people who do not stand."""
    state = np.empty(KEPT)
    total, count = 0.0, 0
    for w in range(len(begin) - 1):
        state[:] = 0.0
        since = 0
        for i in range(begin[w], begin[w + 1]):
            share, calm = (ramp[since], steady[since]) if since < len(ramp) else (1.0, 1.0)
            since = 0 if stood[i] else since + 1
            m = expected[i] * share
            here = support[i], spread_v[i], spread_u[i], offset[i]
            found = predict(state, numbers, gains, m, calm, here, position_var[i])
            y, z = along[i] / m - 1.0, across[i] / m
            c_v, c_u, s_v, s_u, nu = found
            if not stood[i]:
                log_p = student_log_density((y - c_v) / s_v, nu) + student_log_density((z - c_u) / s_u, nu)
                log_p -= math.log(s_v * s_u * m * m)
                high = max(log_p, log_free[i])
                mixed = (1.0 - _FREE_SHARE) * math.exp(log_p - high) + _FREE_SHARE * math.exp(log_free[i] - high)
                total += math.log(mixed) + high
                count += 1
            update(state, gains, y, z, found, stood[i])
    return total / max(count, 1)


def fit_steps(
    moves: LeftOutMoves, ramp: Array, population: Mapping[str, Array] | None = None
) -> tuple[StepNumbers, Array]:
    """Step numbers, and the share of the spread in the first steps (R,), that make left-out moves likeliest.

    ``population`` gives mean and precision (2,) of raw numbers by name; others start from the numbers of this file.
    """
    from scipy.optimize import minimize

    first = np.concatenate([raw_numbers(_FIRST), np.linspace(-1.3, -0.2, len(ramp))])
    own = len(first) - len(ramp)
    names = (*NUMBER_NAMES, *(f"steady{i}" for i in range(len(ramp))))
    first, weight = _with_population(first, names, population or {}, len(moves.along))
    arrays: tuple[NDArray[Any], ...]
    arrays = (moves.along, moves.across, moves.expected_m, moves.support, moves.spread_along, moves.spread_across)
    arrays += (moves.offset, moves.position_var, moves.log_free, moves.stood, moves.begin, ramp)
    if not len(moves.along):
        return step_numbers(first[:own]), np.exp(first[own:])

    def loss(raw: Array) -> float:
        numbers = step_numbers(raw[:own])
        fit = -_total(*arrays, np.exp(np.minimum(raw[own:], 0.3)), numbers.packed, step_gains(numbers).parts)
        return float(fit + np.sum(weight * (raw - first) ** 2))

    best = minimize(loss, first, method="L-BFGS-B", options={"maxiter": _ITERATIONS, "ftol": 1e-7, "eps": 1e-4})
    return step_numbers(best.x[:own]), np.exp(np.minimum(best.x[own:], 0.3))


def _with_population(
    first: Array, names: Sequence[str], population: Mapping[str, Array], moves: int
) -> tuple[Array, Array]:
    """Where each raw number starts, and the weight of the prior around it in nats per move."""
    first, weight = first.copy(), np.full(len(first), _PRIOR)
    for i, name in enumerate(names):
        if name in population:
            first[i], precision = population[name]
            weight[i] = 0.5 * precision / max(moves, 1)
    return first, weight


_KEEP, _BACK = [2, 5], [3, 6]  # AR(2) coefficients among the numbers
_NU = 14


def raw_numbers(numbers: StepNumbers) -> Array:
    """The numbers (16,) as any real numbers: logarithms, and what keeps an AR(2) stationary."""
    x = numbers.packed
    raw = np.log(np.maximum(x, 1e-12))
    raw[_KEEP] = np.arctanh(x[_KEEP] / (1.0 + x[_BACK]))
    raw[_BACK] = np.arctanh(x[_BACK])
    raw[_NU] = math.log(x[_NU] - _LEAST_NU)
    return raw


def raw_by_name(numbers: StepNumbers) -> dict[str, float]:
    """The numbers as any real numbers, by name: what the population prior is made of."""
    return dict(zip(NUMBER_NAMES, raw_numbers(numbers).tolist(), strict=True))


def step_numbers(raw: Array) -> StepNumbers:
    """The reverse of ``raw_numbers``, within bounds."""
    x = np.exp(np.clip(raw, -14.0, 5.0))
    x[_BACK] = np.tanh(np.clip(raw[_BACK], -0.5, 1.5))
    x[_KEEP] = np.tanh(np.clip(raw[_KEEP], -0.5, 2.0)) * (1.0 + x[_BACK])
    x[_NU] += _LEAST_NU
    return StepNumbers(*(float(v) for v in x))


@dataclass(frozen=True, slots=True)
class LeftOutWalk:
    """One walk under fields learnt without it."""

    log_move: Array  # (I, K), -inf under fields that no other walk supports
    log_still: Array  # (I,)
    free: Array  # (I, FREE_COLUMNS)
    set_off: float  # probability per step that a free walker who stands sets off
    hazards: Array  # (I, K, 4)
    stood: NDArray[np.bool_]  # (I,)
    gate: Array  # (I, K), see ``forward``
    prior: Array  # (K,), probabilities of the fields at the start of someone who has habits; the rest walks freely
    ended: bool


@dataclass(frozen=True, slots=True)
class SwitchFit:
    """Rates of leaving and joining habits, and the share of walks that are free from the start."""

    switches: SwitchNumbers
    free_share: float


def total_log_density(walks: list[LeftOutWalk], fit: SwitchFit) -> tuple[Array, Array]:
    """Log density of each walk (N,), and the probability (N,) that it began as a free one."""
    total, free = np.empty(len(walks)), np.empty(len(walks))
    for n, w in enumerate(walks):
        begin = start_state(w.prior, fit.free_share, w.hazards.shape[1])
        freely = np.zeros_like(begin)
        freely[0] = 1.0
        total[n] = _log_density(w, begin, fit.switches)
        free[n] = min(1.0, begin[0] * math.exp(min(50.0, _log_density(w, freely, fit.switches) - total[n])))
    return total, free


def _log_density(w: LeftOutWalk, begin: Array, switches: SwitchNumbers) -> float:
    """Log density of a walk from probabilities (2 + 2 K) before its first move."""
    each, free_each = np.empty(len(w.log_move)), np.empty(len(w.log_move))
    forward(
        begin.copy(),
        w.log_move,
        w.log_still,
        w.free,
        w.set_off,
        w.hazards,
        w.stood,
        switches.packed,
        w.gate,
        ENDED if w.ended else GOES_ON,
        each,
        free_each,
    )
    return float(each.sum())


def start_state(prior: Array, free_share: float, fields: int) -> Array:
    """Probabilities (2 + 2 K) before the first move: everyone is about to move."""
    state = np.zeros(2 + 2 * fields)
    state[1 : 1 + fields] = (1.0 - free_share) * prior
    state[0] = 1.0 - state.sum()
    return state


def fit_switches(
    walks: list[LeftOutWalk], free_end: float, free_end_still: float, passers_by: bool = False
) -> SwitchFit:
    """Rates and share that make left-out walks likeliest, with priors that keep all of them away from zero."""
    from scipy.optimize import minimize

    first, most = _FIRST_LOGIT.copy(), _MOST_LOGIT.copy()
    if passers_by:
        first[0], most[0] = _LEAVE_SCENE, _MOST_LEAVE_SCENE

    def unpack(raw: Array) -> SwitchFit:
        leave, join, share, slip = 1.0 / (1.0 + np.exp(-np.clip(raw, _LEAST_LOGIT, most)))
        return SwitchFit(SwitchNumbers(float(leave), float(join), free_end, free_end_still, float(slip)), float(share))

    def loss(raw: Array) -> float:
        fit = unpack(raw)
        total = sum(
            _log_density(w, start_state(w.prior, fit.free_share, w.hazards.shape[1]), fit.switches) for w in walks
        )
        return float(-total + 0.5 * np.sum(((raw - first) / _SWITCH_SPREAD) ** 2))

    return unpack(minimize(loss, first, method="Nelder-Mead", options={"maxfev": 120, "xatol": 0.05, "fatol": 0.05}).x)


def new_destination(rows: int) -> float:
    """Probability that the next walk leads to a destination nobody went to yet: a Chinese restaurant process."""
    return _CONCENTRATION / (rows + _CONCENTRATION)


def free_shares(rows: WalkRows, index: NDArray[np.int64], familiar: NDArray[np.bool_], free_part: Array) -> Array:
    """How far each row (N,) walked freely from its start.

    ``free_part`` is how freely the rows ``index`` began under fields learnt without them; a resident's walk that ends
    where others end has a destination, however it led there, and is not free. Rows whose destination no
    other walk has are not ``familiar`` and count as the others do on average. A passer-by with a new destination walks
    freely from the start.
    """
    usual = float(free_part[familiar].mean()) if familiar.any() else 0.0
    free = np.full(len(rows), usual)
    free[index[familiar]] = free_part[familiar]
    new = new_destination(len(rows)) if rows.passers_by else 0.0
    return np.asarray(new + (1.0 - new) * free)


def parting_rate(rows: WalkRows) -> float:
    """Probability per step that a resident's walk to a new destination parts from the ways of known walks.

    In a home such a walk begins like the others, and parts from them anywhere on the way.
    """
    if rows.passers_by:
        return 0.0
    moves = np.mean([len(xy) - 1 for xy in rows.xy])
    return float(new_destination(len(rows)) / moves)
