"""The forward algorithm along one walk: which field, or free walking; moving or standing.

Hidden states are numbered 0 (free), 1 to K (following field k, moving) and K + 1 to 2 K (following field k, standing).
"""

import math

import numpy as np

from svfm_ros.compiled import kernel
from svfm_ros.forecasting.field_step import predict, student_log_density, update
from svfm_ros.forecasting.floor_grid import corner, interpolate

__all__ = ["FREE_ENDS", "LEAST_MPS", "field_log_densities", "forward", "still_log_densities"]

FREE_ENDS = 0.5  # share of the highest probability of ending among the fields
LEAST_MPS = 0.05
"""Speed below which a field's length is taken as this: directions and relative lengths stay defined."""


@kernel
def still_log_densities(xy, position_var, still_m, out):  # type: ignore[no-untyped-def]
    """Log densities (I,) of moves while standing: a two-dimensional Student-t with four degrees of freedom."""
    for i in range(len(xy) - 1):
        squared = (xy[i + 1, 0] - xy[i, 0]) ** 2 + (xy[i + 1, 1] - xy[i, 1]) ** 2
        scale = still_m * still_m + position_var[i]
        out[i] = -math.log(2.0 * math.pi * scale) - 3.0 * math.log1p(squared / (4.0 * scale))


@kernel
def field_log_densities(  # type: ignore[no-untyped-def]
    xy, position_var, tables, grid, numbers, ramp, steady, dt_s, stand_m, step, log_move, hazards, filters
):
    """Log densities (I, K) of moves between positions (I + 1, 2) under every field, and hazards (I, K, 4) after each.

    ``filters`` (K, 8) are fresh on entry for a walk from its start and hold the state after the last move on return;
    ``step`` is the number of moves made before the first position.
    """
    low_x, low_y, cell_m = grid
    fields, nx, ny, _ = tables.shape
    since = step  # moves since the start of the walk, or since the walker last stood
    for i in range(len(xy) - 1):
        dx, dy = xy[i + 1, 0] - xy[i, 0], xy[i + 1, 1] - xy[i, 1]
        stood = math.sqrt(dx * dx + dy * dy) < stand_m
        rising = since < len(ramp)
        share, calm = (ramp[since], steady[since]) if rising else (1.0, 1.0)
        since = 0 if stood else since + 1
        ix, iy, ax, ay = corner(xy[i, 0], xy[i, 1], low_x, low_y, cell_m, nx, ny)
        jx, jy, bx, by = corner(xy[i + 1, 0], xy[i + 1, 1], low_x, low_y, cell_m, nx, ny)
        for k in range(fields):
            table = tables[k]
            vx, vy = interpolate(table, ix, iy, ax, ay, 0), interpolate(table, ix, iy, ax, ay, 1)
            speed = math.sqrt(vx * vx + vy * vy) + 1e-9
            m = dt_s * max(speed, LEAST_MPS) * share
            found = predict(
                filters[k],
                numbers,
                m,
                calm,
                interpolate(table, ix, iy, ax, ay, 2),
                interpolate(table, ix, iy, ax, ay, 3),
                interpolate(table, ix, iy, ax, ay, 4),
                position_var[i],
            )
            y = (dx * vx + dy * vy) / (speed * m) - 1.0
            z = (dy * vx - dx * vy) / (speed * m)
            c_v, c_u, s_v, s_u, _, _, nu = found
            log_p = student_log_density((y - c_v) / s_v, nu) + student_log_density((z - c_u) / s_u, nu)
            log_move[i, k] = log_p - math.log(s_v * s_u * m * m)
            update(filters[k], numbers, y, z, found, stood)
            for h in range(4):
                hazards[i, k, h] = interpolate(table, jx, jy, bx, by, 5 + h)


@kernel
def forward(state, log_move, log_still, log_free, hazards, stood, switches, gate, ended, log_each, free_each):  # type: ignore[no-untyped-def]
    """Run probabilities ``state`` (1 + 2 K) over all moves, in place; ``log_each`` (I) gets the log density of each
    move, ``free_each`` (I) the probability of free walking after it.

    ``gate`` (I, K) are the shares of the fields among those who take up a habit after each move. With ``ended`` the
    walk ends after the last move. Probabilities are normalised after each step.
    """
    moves, fields = log_move.shape
    leave, join, free_end, free_end_still, slip = switches
    after = np.empty(1 + 2 * fields)
    for i in range(moves):
        high = log_free[i]
        for k in range(fields):
            high = max(high, log_move[i, k])
        high = max(high, log_still[i])
        last = ended and i == moves - 1
        end = free_end_still if stood[i] else free_end
        for k in range(fields):  # who walks freely, too, ends walks where others do
            end = max(end, FREE_ENDS * hazards[i, k, 3 if stood[i] else 2])
        after[0] = state[0] * math.exp(log_free[i] - high) * (end if last else 1.0 - end)
        total = after[0]
        still = math.exp(log_still[i] - high)
        for k in range(fields):
            e_go, e_stand = hazards[i, k, 2], hazards[i, k, 3]
            moved = (1.0 - slip) * math.exp(log_move[i, k] - high) + slip * math.exp(log_free[i] - high)
            after[1 + k] = state[1 + k] * moved * (e_go if last else 1.0 - e_go)
            after[1 + fields + k] = state[1 + fields + k] * still * (e_stand if last else 1.0 - e_stand)
            total += after[1 + k] + after[1 + fields + k]
        log_each[i] = math.log(max(total, 1e-300)) + high
        joined = after[0] / total * join
        state[0] = after[0] / total * (1.0 - join)
        for k in range(fields):
            a, b = after[1 + k] / total, after[1 + fields + k] / total
            stop, go = hazards[i, k, 0], hazards[i, k, 1]
            moving, standing = a * (1.0 - stop) + b * go, a * stop + b * (1.0 - go)
            state[0] += (moving + standing) * leave
            state[1 + k] = moving * (1.0 - leave) + joined * gate[i, k]
            state[1 + fields + k] = standing * (1.0 - leave)
        free_each[i] = state[0]
