"""The numbers of the model that hold everywhere, chosen by the density of walks that were left out.

First those of the step density, from each walk under the field of its own destination; then the rates of leaving habits
and coming back, from the whole forward algorithm.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.forecasting.field_step import KEPT, fresh_filter, predict, student_log_density, update
from svfm_ros.forecasting.forward import forward
from svfm_ros.forecasting.walk_model import StepNumbers, SwitchNumbers

__all__ = ["LeftOutMoves", "LeftOutWalk", "SwitchFit", "fit_steps", "fit_switches", "total_log_density"]

Array = NDArray[np.float64]

_FIRST = StepNumbers(0.012**2, 0.1**2, 0.05**2, 0.7, 0.6, 4.0, 2.0, 0.15**2, 0.15**2, 0.5)
_LEAST_NU = 2.5  # below, sampled paths would jump by metres
_PRIOR = 2e-3  # weight of the prior on the numbers, nats per move: it decides only where walks say nothing
_LEAST_LOGIT = np.array([-8.0, -4.0, -5.0, -7.0])  # of leaving, joining, walking freely from the start, slipping
_MOST_LOGIT = np.array([-6.2, -2.0, 0.0, -4.6])  # who leaves a habit is gone for a while; single odd moves are slips
_SWITCH_SPREAD = np.array([0.7, 0.7, 1.0, 1.0])  # of the prior on their logits: few walks hardly move them
_EVALUATIONS = 2500
_FREE_SHARE = 0.03  # of the moves may be the free walker's while the numbers of the fields are chosen


@dataclass(frozen=True, slots=True)
class LeftOutMoves:
    """Moves of walks under a field that was learnt without them; M moves of W walks."""

    along: Array  # (M,), metres
    across: Array  # (M,)
    expected_m: Array  # (M,), the field's speed times dt
    support: Array  # (M,), walks
    var_along: Array  # (M,), of the relative length
    var_across: Array  # (M,)
    position_var: Array  # (M,), m^2
    log_free: Array  # (M,), log density of each move under the free walker
    stood: NDArray[np.bool_]  # (M,)
    begin: NDArray[np.int64]  # (W + 1,), first move of each walk, and M


@kernel
def _total(  # type: ignore[no-untyped-def]
    along, across, expected, support, var_v, var_u, position_var, log_free, stood, begin, ramp, steady, numbers
):
    """Mean log density of the moves of people who do not stand."""
    state = np.empty(KEPT)
    total, count = 0.0, 0
    for w in range(len(begin) - 1):
        fresh_filter(state, numbers)
        since = 0
        for i in range(begin[w], begin[w + 1]):
            rising = since < len(ramp)
            share, calm = (ramp[since], steady[since]) if rising else (1.0, 1.0)
            since = 0 if stood[i] else since + 1
            m = expected[i] * share
            found = predict(state, numbers, m, calm, support[i], var_v[i], var_u[i], position_var[i])
            y, z = along[i] / m - 1.0, across[i] / m
            c_v, c_u, s_v, s_u, _, _, nu = found
            if not stood[i]:
                log_p = student_log_density((y - c_v) / s_v, nu) + student_log_density((z - c_u) / s_u, nu)
                log_p -= math.log(s_v * s_u * m * m)
                high = max(log_p, log_free[i])
                mixed = (1.0 - _FREE_SHARE) * math.exp(log_p - high) + _FREE_SHARE * math.exp(log_free[i] - high)
                total += math.log(mixed) + high
                count += 1
            update(state, numbers, y, z, found, stood[i])
    return total / max(count, 1)


def fit_steps(moves: LeftOutMoves, ramp: Array) -> tuple[StepNumbers, Array]:
    """Step numbers, and the share of the spread in the first steps (R,), that make left-out moves likeliest."""
    from scipy.optimize import minimize

    first = np.concatenate([_raw(_FIRST), np.linspace(-0.8, -0.2, len(ramp))])
    arrays: tuple[NDArray[Any], ...]
    arrays = (moves.along, moves.across, moves.expected_m, moves.support, moves.var_along, moves.var_across)
    arrays += (moves.position_var, moves.log_free, moves.stood, moves.begin, ramp)
    if not len(moves.along):
        return _FIRST, np.exp(first[10:])

    def loss(raw: Array) -> float:
        fit = -_total(*arrays, np.exp(np.minimum(raw[10:], 0.3)), _numbers(raw[:10]).packed)
        return float(fit + _PRIOR * np.sum((raw - first) ** 2))

    best = minimize(
        loss, first, method="Nelder-Mead", options={"maxfev": _EVALUATIONS, "adaptive": True, "fatol": 1e-5}
    )
    return _numbers(best.x[:10]), np.exp(np.minimum(best.x[10:], 0.3))


def _raw(n: StepNumbers) -> Array:
    x = n.packed
    logs = np.log(np.maximum(x, 1e-12))
    logs[3:5] = np.arctanh(x[3:5])
    logs[5] = math.log(x[5] - _LEAST_NU)
    return logs


def _numbers(raw: Array) -> StepNumbers:
    x = np.exp(np.clip(raw, -14.0, 5.0))
    x[3:5] = np.tanh(np.clip(raw[3:5], -0.5, 1.7))
    x[5] += _LEAST_NU
    x[0] = max(x[0], 1e-6)
    return StepNumbers(*(float(v) for v in x))


@dataclass(frozen=True, slots=True)
class LeftOutWalk:
    """One walk under fields learnt without it."""

    log_move: Array  # (I, K), -inf under fields that no other walk supports
    log_still: Array  # (I,)
    log_free: Array  # (I,)
    hazards: Array  # (I, K, 4)
    stood: NDArray[np.bool_]  # (I,)
    gate: Array  # (I, K)
    prior: Array  # (K,), shares of the fields at the start
    ended: bool


@dataclass(frozen=True, slots=True)
class SwitchFit:
    """Rates of leaving and joining habits, and the share of walks that are free from the start."""

    switches: SwitchNumbers
    free_share: float


def total_log_density(walks: list[LeftOutWalk], fit: SwitchFit) -> tuple[Array, Array]:
    """Log density of each walk (N,), and the mean probability (N,) of free walking over its second half."""
    numbers = fit.switches.packed
    total, free = np.empty(len(walks)), np.empty(len(walks))
    for n, w in enumerate(walks):
        state = start_state(w.prior, fit.free_share, w.hazards.shape[1])
        each, free_each = np.empty(len(w.log_move)), np.empty(len(w.log_move))
        forward(
            state, w.log_move, w.log_still, w.log_free, w.hazards, w.stood, numbers, w.gate, w.ended, each, free_each
        )
        total[n], free[n] = each.sum(), free_each[len(each) // 2 :].mean()
    return total, free


def start_state(prior: Array, free_share: float, fields: int) -> Array:
    """Probabilities (1 + 2 K) before the first move: everyone is about to move."""
    state = np.zeros(1 + 2 * fields)
    state[0] = free_share
    state[1 : 1 + fields] = (1.0 - free_share) * prior
    return state


def fit_switches(walks: list[LeftOutWalk], free_end: float, free_end_still: float) -> SwitchFit:
    """Rates and share that make left-out walks likeliest, with priors that keep all of them away from zero."""
    from scipy.optimize import minimize

    def unpack(raw: Array) -> SwitchFit:
        leave, join, share, slip = 1.0 / (1.0 + np.exp(-np.clip(raw, _LEAST_LOGIT, _MOST_LOGIT)))
        return SwitchFit(SwitchNumbers(float(leave), float(join), free_end, free_end_still, float(slip)), float(share))

    first = np.array([-6.5, -3.0, -2.5, -5.0])

    def loss(raw: Array) -> float:
        return float(
            -total_log_density(walks, unpack(raw))[0].sum() + 0.5 * np.sum(((raw - first) / _SWITCH_SPREAD) ** 2)
        )

    return unpack(minimize(loss, first, method="Nelder-Mead", options={"maxfev": 120, "xatol": 0.05, "fatol": 0.05}).x)
