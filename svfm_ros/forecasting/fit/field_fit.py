"""Fields, spreads and hazards as tables over the floor, each by smoothing from coarse to fine.

A table begins with a default that needs no walks. At each finer width, what the walks nearby say beyond it is added,
shrunk by how many walks there are: ``x += sum(w * residual) / (walks + prior)``. Where many walks pass, the finest
width decides; a metre beside them, the coarser ones; where nobody walked, the default. There is nothing to iterate, so
a model of 40 walks takes seconds, and leaving walks out to measure the model on them costs as little.

Networks trained by gradient descent were used here before: in the simulated home with 40 walks they took 7 to 10 s of
processor time for a held-out density of -4.02 to -4.07 nats per step, and +0.9 with 10 walks. This takes 2 s for -3.92
and, with 10 walks, -3.58 (``svfm bench forecast``).
"""

import math

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.fit.walk_steps import Moves, WalkRows
from svfm_ros.forecasting.floor_grid import FloorGrid

__all__ = ["default_speed", "fit_field", "fit_hazards", "fit_spreads"]

Array = NDArray[np.float64]

_WIDTHS_M = (
    2.4,
    1.2,
    0.6,
    0.3,
    0.2,
    0.2,
)  # the last one twice: smoothing leaves a bias in bends that a second pass halves
_SUPPORT_M = 0.3  # walks that pass within about this distance are what a field rests on
_SHRINK_WALKS = 0.2  # walks that the coarser width counts for; from 0.15 to 0.6 no difference on held-out walks
_ARRIVE_M = 0.5  # without walks, people slow down over the last half metre
_SPREAD_WIDTHS_M = (1.2, 0.6, 0.3)
_SPREAD_SHRINK = 4.0  # moves
_HAZARD_WIDTHS_M = (0.6, 0.3, 0.15)  # people stop and end within a few decimetres of where others did
_HAZARD_SHRINK = 0.3  # moves
_LEAST_HAZARD, _MOST_HAZARD = 1e-4, 0.95


def default_speed(moves: Moves) -> float:
    """Median speed of all moves, m/s."""
    return float(np.median(np.hypot(*moves.velocity.T))) if len(moves.xy) else 1.0


def fit_field(grid: FloorGrid, moves: Moves, use: NDArray[np.bool_], end_xy: Array, speed_mps: float) -> Array:
    """Velocity in m/s and number of walks (NX, NY, 3) of a field towards ``end_xy``, from the moves in ``use`` (M,).

    By default it leads straight to its destination.
    """
    ahead = end_xy - grid.nodes
    distance = np.linalg.norm(ahead, axis=-1, keepdims=True)
    table = ahead / np.maximum(distance, 1e-6) * speed_mps * np.minimum(1.0, distance / _ARRIVE_M)
    xy, velocity, length = moves.xy[use], moves.velocity[use], moves.length[use, None]
    walks = np.zeros((grid.nx, grid.ny, 1))
    if not len(xy):
        return np.concatenate([table, walks], axis=-1)
    for width_m in _WIDTHS_M:
        beyond = velocity - grid.look_up(xy, table)
        sums = grid.smoothed(xy, np.concatenate([beyond, np.ones((len(xy), 1))], axis=1) * length, width_m)
        sums /= math.sqrt(2.0 * math.pi) * width_m  # a straight walk through the middle now counts as one
        table = table + sums[..., :2] / (sums[..., 2:] + _SHRINK_WALKS)
        if width_m == _SUPPORT_M:
            walks = sums[..., 2:]
    return np.concatenate([table, walks], axis=-1)


def fit_spreads(grid: FloorGrid, xy: Array, squares: Array, everywhere: Array) -> Array:
    """Variances (NX, NY, 2) along and across from squared relative residuals (M, 2) of moves begun at (M, 2)."""
    table = np.broadcast_to(everywhere, (grid.nx, grid.ny, 2))
    return _coarse_to_fine(grid, xy, squares, table, _SPREAD_WIDTHS_M, _SPREAD_SHRINK)


def fit_hazards(grid: FloorGrid, rows: WalkRows, use: NDArray[np.bool_], stand_m: float, base: Array) -> Array:
    """Probabilities (NX, NY, 4) per step to stop, to go on, to end while moving and to end while standing.

    From the rows in ``use`` (N,); ``base`` (4,) is what to expect where nobody walked.
    """
    xy, event, at_risk = hazard_events(rows, use, stand_m)
    columns = []
    for h in range(4):
        risky = at_risk[:, h]
        table = np.full((grid.nx, grid.ny, 1), base[h])
        if risky.any():
            happened = event[risky, h : h + 1].astype(float)
            table = _coarse_to_fine(grid, xy[risky], happened, table, _HAZARD_WIDTHS_M, _HAZARD_SHRINK)
        columns.append(table)
    return np.asarray(np.clip(np.concatenate(columns, axis=-1), _LEAST_HAZARD, _MOST_HAZARD))


def hazard_events(
    rows: WalkRows, use: NDArray[np.bool_], stand_m: float
) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Positions (M, 2) after each move of the rows in ``use``, what happened there and what could have (M, 4 each)."""
    places, events, risks = [np.zeros((0, 2))], [np.zeros((0, 4), dtype=bool)], [np.zeros((0, 4), dtype=bool)]
    for n in np.flatnonzero(use):
        xy = rows.xy[n]
        stood = np.hypot(*np.diff(xy, axis=0).T) < stand_m
        last = np.arange(len(stood)) == len(stood) - 1
        over = last & rows.ended[n]
        following = np.append(stood[1:], False)
        event, risk = np.zeros((len(stood), 4), dtype=bool), np.zeros((len(stood), 4), dtype=bool)
        event[:, 0], risk[:, 0] = following & ~stood, ~stood & ~last
        event[:, 1], risk[:, 1] = ~following & stood, stood & ~last
        event[:, 2], risk[:, 2] = over & ~stood, ~stood & (~last | over)
        event[:, 3], risk[:, 3] = over & stood, stood & (~last | over)
        places.append(xy[1:])
        events.append(event)
        risks.append(risk)
    return np.concatenate(places), np.concatenate(events), np.concatenate(risks)


def _coarse_to_fine(
    grid: FloorGrid, xy: Array, values: Array, table: Array, widths_m: tuple[float, ...], shrink: float
) -> Array:
    """Local means (NX, NY, C) of values (M, C), each width shrunk towards the coarser one before it."""
    for width_m in widths_m:
        sums = grid.smoothed(xy, np.concatenate([values, np.ones((len(xy), 1))], axis=1), width_m)
        table = (sums[..., :-1] + shrink * table) / (sums[..., -1:] + shrink)
    return np.asarray(table)
