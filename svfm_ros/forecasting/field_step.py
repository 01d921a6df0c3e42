"""One step of a walk under one field: the predictive density of the move, and what the move teaches about the walker.

A move from x is seen along and across the field's direction there, relative to the expected length
``M = dt * speed(x) * ramp``: ``y = along / M - 1`` and ``z = across / M``. The model of ``y`` (``z`` is alike) is

    y_i = p + sqrt(R_i) e_i,   e_i = keep * e_{i-1} + sqrt(1 - keep^2) w_i,   p ~ N(0, pace_variance)

``p`` is drawn once per walk (the paper's frozen noise): a fast walker stays fast, one who walks beside the others stays
there. ``R_i`` combines the spread of the field's own walks with a prior spread and with the uncertainty of the field's
mean (both fade as walks add up) and the noise of the positions. ``p`` is integrated out: the predictive of the next
move is a Student-t whose centre and scale follow from the moves so far, and whose degrees of freedom grow with the
number of walks that the field rests on there. Density, filter and sampler all use this one function.
"""

import math

from svfm_ros.compiled import kernel

__all__ = ["CLIP", "KEPT", "fresh_filter", "predict", "student_log_density", "update"]

CLIP = 4.0
"""The noise of one step enters the next with at most this many standard deviations."""

KEPT = 8
"""Numbers a filter keeps per walker and field: precision and weighted sum of p along and across (4), the standardised
noise of the last move (2), its scales (2); scales of zero before the first move."""


@kernel
def student_log_density(z, nu):  # type: ignore[no-untyped-def]
    """Log density of a standard Student-t."""
    norm = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
    return norm - 0.5 * (nu + 1.0) * math.log1p(z * z / nu)


@kernel
def fresh_filter(state, numbers):  # type: ignore[no-untyped-def]
    """Write the filter of someone about whom nothing is known into ``state`` (8,)."""
    state[0], state[1] = 1.0 / numbers[1], 0.0
    state[2], state[3] = 1.0 / numbers[2], 0.0
    state[4:] = 0.0


@kernel
def predict(state, numbers, expected_m, steady, support, spread_v, spread_u, position_var):  # type: ignore[no-untyped-def]
    """Centre and scale of y and z of the next move, the roots of R along and across, and the degrees of freedom.

    ``numbers`` are those of ``StepNumbers.packed``, ``expected_m`` is M, ``steady`` the share of the spread in the
    first steps, ``support`` the walks that the field rests on here, ``spread_*`` variances of y and z among these
    walks, and ``position_var`` the variance of a move that comes from uncertain positions, m^2.
    """
    prior_walks = numbers[6]
    walks = prior_walks + support
    mean_too = 1.0 + 1.0 / walks
    noise = (numbers[0] + position_var) / (expected_m * expected_m)
    r_v = ((prior_walks * numbers[7] + support * spread_v) / walks * mean_too + noise) * steady * steady
    r_u = ((prior_walks * numbers[8] + support * spread_u) / walks * mean_too + noise) * steady * steady
    nu = numbers[5] + numbers[9] * support
    s_v, s_u = math.sqrt(r_v), math.sqrt(r_u)
    if state[6] == 0.0:
        load_v, load_u, rest_v, rest_u = 1.0 / s_v, 1.0 / s_u, 1.0, 1.0
    else:
        load_v, load_u = 1.0 / s_v - numbers[3] / state[6], 1.0 / s_u - numbers[4] / state[7]
        rest_v, rest_u = 1.0 - numbers[3] ** 2, 1.0 - numbers[4] ** 2
    centre_v = s_v * (load_v * state[1] / state[0] + numbers[3] * state[4])
    centre_u = s_u * (load_u * state[3] / state[2] + numbers[4] * state[5])
    scale_v = s_v * math.sqrt(rest_v + load_v * load_v / state[0])
    scale_u = s_u * math.sqrt(rest_u + load_u * load_u / state[2])
    return centre_v, centre_u, scale_v, scale_u, s_v, s_u, nu


@kernel
def update(state, numbers, y, z, predicted, stood):  # type: ignore[no-untyped-def]
    """Take one observed or sampled move (y, z) into the filter; ``predicted`` is what ``predict`` returned.

    The weight of a move falls with its distance from the centre, as the Student-t implies. Moves of someone who stands
    (``stood``) say nothing about the pace, and the noise begins anew after them.
    """
    centre_v, centre_u, scale_v, scale_u, s_v, s_u, nu = predicted
    first = state[6] == 0.0
    if not stood:
        load_v = 1.0 / s_v if first else 1.0 / s_v - numbers[3] / state[6]
        load_u = 1.0 / s_u if first else 1.0 / s_u - numbers[4] / state[7]
        rest_v = 1.0 if first else 1.0 - numbers[3] ** 2
        rest_u = 1.0 if first else 1.0 - numbers[4] ** 2
        weight_v = (nu + 1.0) / (nu + ((y - centre_v) / scale_v) ** 2) / rest_v
        weight_u = (nu + 1.0) / (nu + ((z - centre_u) / scale_u) ** 2) / rest_u
        state[1] += weight_v * load_v * (y / s_v - numbers[3] * state[4])
        state[0] += weight_v * load_v * load_v
        state[3] += weight_u * load_u * (z / s_u - numbers[4] * state[5])
        state[2] += weight_u * load_u * load_u
        state[4] = min(max(y / s_v, -CLIP), CLIP)
        state[5] = min(max(z / s_u, -CLIP), CLIP)
    else:
        state[4], state[5] = 0.0, 0.0
    state[6], state[7] = s_v, s_u
