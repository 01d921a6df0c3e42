"""One step of a walk under one field: the predictive density of the move, and the filters of pace and direction.

A move from x is seen along and across the field's direction there, relative to the expected length
``M = dt * speed(x) * ramp``: ``y = along / M - 1`` and ``z = across / M``.

    y_i = p + q_i + white        p    ~ N(0, pace_var), drawn once per walk (the paper's frozen noise): who is fast
                                      stays fast
                                 q_i  AR(2): pace changes slowly on the way
    z_i = r_i + white            r_i  AR(2) that is pushed back towards the middle of the walks beside the walker,
                                      ``- restore * offset * M``: who walks beside the others comes back in a bend

All of these are integrated out by Kalman filters. Their gains depend on the number of moves alone, so they are computed
once per model. What is left is the density of the next move given the moves so far: a Student-t along and across, with
the local spread of the walks there, the uncertainty of the field's mean (both fade as walks add up) and the noise of
the positions in its scale. Density, filter and sampler all use these functions.
"""

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

__all__ = [
    "CLIP",
    "KEPT",
    "LEAST_MPS",
    "USUAL_M",
    "StepGains",
    "StepNumbers",
    "predict",
    "relative_move",
    "step_gains",
    "student_log_density",
    "update",
]

Array = NDArray[np.float64]

KEPT = 6
"""Numbers a filter keeps per walker and field: p, q and the q before, r and the r before, moves so far."""
LEAST_MPS = 0.05
"""Speed below which a field's length is taken as this: directions and relative lengths stay defined."""
CLIP = 3.0
"""Deviations from the prediction are clipped to so many scales before they update the filters."""
_GAINS = 24  # moves after which the gains no longer change
USUAL_M = 0.4
"""Length of a move for which gains are computed."""


@dataclass(frozen=True, slots=True)
class StepNumbers:
    """Numbers of the step density that hold everywhere in a home."""

    pace_var: float  # of p
    drift_var: float  # of q
    keep_pace: float  # AR(2) of q: first coefficient ...
    back_pace: float  # ... and minus the second
    direction_var: float  # of r, rad^2
    keep_direction: float
    back_direction: float
    restore: float  # change of direction per step and metre beside the middle, rad / m, for a move of 0.4 m
    body_var: float  # white noise of y
    sway_var: float  # white noise of z
    sensor_var: float  # variance of a move from the noise of two positions, m^2
    prior_walks: float  # walks that the prior spreads count for
    prior_along: float  # spread where nobody walked, relative to the usual one
    prior_across: float
    nu: float  # degrees of freedom where a field rests on no walk
    nu_per_walk: float

    @property
    def packed(self) -> Array:
        """As compiled code takes them (16,)."""
        return np.array([getattr(self, f.name) for f in fields(self)])

    @property
    def gains(self) -> "StepGains":
        """Gains and variances of the filters, move by move."""
        return _kept_gains(self)


@dataclass(frozen=True, slots=True)
class StepGains:
    """Kalman gains and predictive variances after 0, 1, ... moves; the last ones hold from then on."""

    along: Array  # (G, 3), of p, q and the q before
    along_var: Array  # (G,), relative to the expected length, without the noise of positions
    across: Array  # (G, 2), of r and the r before
    across_var: Array  # (G,)

    @property
    def parts(self) -> tuple[Array, ...]:
        """As compiled code takes them."""
        return self.along, self.along_var, self.across, self.across_var


def step_gains(n: StepNumbers) -> StepGains:
    """Gains of the filters of these numbers."""
    sensor = n.sensor_var / USUAL_M**2
    drift, drift_step = _second_order(n.drift_var, n.keep_pace, n.back_pace)
    start, step = np.zeros((3, 3)), np.zeros((3, 3))
    start[0, 0], start[1:, 1:] = n.pace_var, drift
    step[0, 0], step[1:, 1:] = 1.0, drift_step
    along, along_var = _riccati(start, step, np.array([1.0, 1.0, 0.0]), n.body_var + sensor)
    start, step = _second_order(n.direction_var, n.keep_direction, n.back_direction)
    across, across_var = _riccati(start, step, np.array([1.0, 0.0]), n.sway_var + sensor)
    return StepGains(along, along_var - sensor, across, across_var - sensor)


_kept_gains = lru_cache(maxsize=8)(step_gains)


def _second_order(variance: float, keep: float, back: float) -> tuple[Array, Array]:
    """Stationary covariance (2, 2) of an AR(2) and its previous value, and the transition (2, 2)."""
    shared = variance * keep / (1.0 + back)
    return np.array([[variance, shared], [shared, variance]]), np.array([[keep, -back], [1.0, 0.0]])


def _riccati(start: Array, step: Array, seen: Array, white_var: float) -> tuple[Array, Array]:
    """Gains (G, D) and predictive variances (G,) for a stationary state of which ``seen @ state`` is observed."""
    noise = start - step @ start @ step.T
    covariance = start
    gains, variances = np.empty((_GAINS, len(start))), np.empty(_GAINS)
    for i in range(_GAINS):
        if i:
            covariance = step @ covariance @ step.T + noise
        variances[i] = seen @ covariance @ seen + white_var
        gains[i] = covariance @ seen / variances[i]
        covariance = covariance - np.outer(gains[i], seen @ covariance)
    return gains, variances


@kernel
def student_log_density(z, nu):  # type: ignore[no-untyped-def]
    """Log density of a standard Student-t."""
    norm = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
    return norm - 0.5 * (nu + 1.0) * math.log1p(z * z / nu)


@kernel
def predict(state, numbers, gains, expected_m, steady, field, position_var):  # type: ignore[no-untyped-def]
    """Centre and scale of y and z of the next move, and its degrees of freedom.

    ``state`` (KEPT,) is zero before the first move. ``numbers`` and ``gains`` are those of ``StepNumbers``,
    ``expected_m`` is M, ``steady`` the share of the spread in the first steps. ``field`` tells what the table holds
    here: walks, spreads along and across relative to the usual ones, and the walker's offset from the middle of the
    walks, metres, left positive. ``position_var`` is the variance of a move that comes from uncertain positions, m^2.
    """
    support, spread_v, spread_u, offset = field
    index = min(int(state[5]), len(gains[1]) - 1)
    prior_walks = numbers[11]
    walks = prior_walks + support
    mean_too = (1.0 + 1.0 / walks) * steady * steady
    noise = (numbers[10] + position_var) / (expected_m * expected_m)
    r_v = (prior_walks * numbers[12] + support * spread_v) / walks * mean_too * gains[1][index] + noise
    r_u = (prior_walks * numbers[13] + support * spread_u) / walks * mean_too * gains[3][index] + noise
    centre_v = state[0] + numbers[2] * state[1] - numbers[3] * state[2]
    centre_u = numbers[5] * state[3] - numbers[6] * state[4] - numbers[7] * offset * (expected_m / USUAL_M)
    return centre_v, centre_u, math.sqrt(r_v), math.sqrt(r_u), numbers[14] + numbers[15] * support


@kernel
def update(state, gains, y, z, predicted, stood):  # type: ignore[no-untyped-def]
    """Take one observed or sampled move (y, z) into the filter; ``predicted`` is what ``predict`` returned.

    Moves of someone who stands (``stood``) say nothing about the pace, and the noise begins anew after them.
    """
    if stood:
        state[1:5] = 0.0
        return
    centre_v, centre_u, scale_v, scale_u, _ = predicted
    index = min(int(state[5]), len(gains[1]) - 1)
    taught_v = min(max(y - centre_v, -CLIP * scale_v), CLIP * scale_v)
    taught_u = min(max(z - centre_u, -CLIP * scale_u), CLIP * scale_u)
    g, h = gains[0][index], gains[2][index]
    before_v, before_u = state[1], state[3]
    state[1] = centre_v - state[0] + g[1] * taught_v
    state[2] = before_v + g[2] * taught_v
    state[0] += g[0] * taught_v
    state[3] = centre_u + h[0] * taught_u
    state[4] = before_u + h[1] * taught_u
    state[5] += 1.0


@kernel
def relative_move(dx, dy, ux, uy, expected_m):  # type: ignore[no-untyped-def]
    """The move (dx, dy) as y and z along and across the direction (ux, uy)."""
    return (dx * ux + dy * uy) / expected_m - 1.0, (dy * ux - dx * uy) / expected_m
