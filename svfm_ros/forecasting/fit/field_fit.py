"""Fields, spreads and hazards as tables over the floor, each by smoothing from coarse to fine.

A table begins with a default that needs no walks. At each finer width, what the walks nearby say beyond it is added,
shrunk by how many walks there are: ``x += sum(w * residual) / (walks + prior)``. Where many walks pass, the finest
width decides; a metre beside them, the coarser ones; where nobody walked, the default. There is nothing to iterate, so
a model of 40 walks takes seconds, and leaving walks out to measure the model on them costs as little.

Networks trained by gradient descent were used here before: in the simulated home with 40 walks they took 7 to 10 s of
processor time for a held-out density of -4.02 to -4.07 nats per step, and +0.9 with 10 walks (``svfm bench forecast``).
"""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.fit.usual_numbers import HAZARDS, Population, prior_counts
from svfm_ros.forecasting.fit.walk_steps import Moves, WalkRows
from svfm_ros.forecasting.floor_grid import FloorGrid

__all__ = [
    "base_hazards",
    "default_speed",
    "fit_field",
    "fit_hazards",
    "fit_spreads",
    "hazards_off_the_way",
    "pool_fields",
]

Array = NDArray[np.float64]

_WIDTHS_M = (2.4, 1.2, 0.6, 0.3, 0.3, 0.3, 0.2, 0.2, 0.2, 0.2)
"""Smoothing leaves a bias in bends; each pass of the same width halves it (40 walks, left out: 0.03 nats per step)."""
_MIDDLE_M = 0.35  # walks within about this distance have a common middle
_SUPPORT_M = 0.3  # walks that pass within about this distance are what a field rests on
_SHRINK_WALKS = 0.2  # walks that the coarser width counts for; from 0.15 to 0.6 no difference on held-out walks
_ALIKE_M = 0.3  # fields are compared over about this distance
_CHANCE = 8.0  # fields count as different where they differ by much more than chance: walks nearby are alike
_ALONE = 0.2  # walks: fewer than this, and a field has nothing of its own to compare
_ARRIVE_M = 0.5  # without walks, people slow down over the last half metre
_SPREAD_WIDTHS_M = (1.2, 0.6, 0.3)
_SPREAD_SHRINK = 12.0  # moves
_HAZARD_WIDTHS_M = (0.6, 0.3, 0.15)  # people stop and end within a few decimetres of where others did
_HAZARD_SHRINK = 0.3  # moves
_OFF_THE_WAY = 0.1  # share of the usual probability of ending a walk where nobody walked
_STILL_M, _LEAST_STILL_M, _FEW_STOOD = 0.015, 0.003, 10
_STAY_M = 0.5  # people who stood twice within this distance stayed there
_LEAST_HAZARD, _MOST_HAZARD = 1e-4, 0.95


def default_speed(moves: Moves) -> float:
    """Median speed of all moves, m/s."""
    return float(np.median(np.hypot(*moves.velocity.T))) if len(moves.xy) else 1.0


def fit_field(grid: FloorGrid, moves: Moves, use: NDArray[np.bool_], end_xy: Array, speed_mps: float) -> Array:
    """Velocity in m/s, number of walks and the way to their middle in metres (NX, NY, 5) of a field to ``end_xy``.

    From the moves in ``use`` (M,). By default the field leads straight to its destination.
    """
    ahead = end_xy - grid.nodes
    distance = np.linalg.norm(ahead, axis=-1, keepdims=True)
    table = ahead / np.maximum(distance, 1e-6) * speed_mps * np.minimum(1.0, distance / _ARRIVE_M)
    xy, velocity, length = moves.xy[use], moves.velocity[use], moves.length[use, None]
    if not len(xy):
        return np.concatenate([table, np.zeros((grid.nx, grid.ny, 3))], axis=-1)
    walks = np.zeros((grid.nx, grid.ny, 1))
    for width_m in _WIDTHS_M:
        beyond = velocity - grid.look_up(xy, table)
        sums = _per_walk(grid, xy, np.concatenate([beyond, np.ones((len(xy), 1))], axis=1) * length, width_m)
        table = table + sums[..., :2] / (sums[..., 2:] + _SHRINK_WALKS)
        if width_m == _SUPPORT_M:
            walks = sums[..., 2:]
    sums = _per_walk(grid, xy, np.concatenate([xy, np.ones((len(xy), 1))], axis=1) * length, _MIDDLE_M)
    middle = (sums[..., :2] - sums[..., 2:] * grid.nodes) / (sums[..., 2:] + _SHRINK_WALKS)
    return np.concatenate([table, walks, middle], axis=-1)


def _per_walk(grid: FloorGrid, xy: Array, values: Array, width_m: float) -> Array:
    """Sums over moves, weighted by their length and by nearness: a straight walk through the middle counts as one."""
    return np.asarray(grid.smoothed(xy, values, width_m) / (math.sqrt(2.0 * math.pi) * width_m))


def pool_fields(grid: FloorGrid, tables: list[Array], moves: Moves, field_of: NDArray[np.int64]) -> list[Array]:
    """The same fields (NX, NY, 5), each with the walks of the others counted in where the two do not differ.

    On their first metres, walks to different places are often the same. Fields that are learnt apart differ there by
    chance, and a posterior over fields would take that for evidence. Fields are compared by their squared difference
    over what chance would give: the variance of velocity among walks, over the walks that each rests on. ``field_of``
    (M,) is the field of each move, -1 where it does not count.
    """
    from scipy.ndimage import gaussian_filter

    variance = _velocity_variance(grid, tables, moves, field_of)
    sigma = _ALIKE_M / grid.cell_m
    walks = [table[..., 2] for table in tables]
    sums = [table * walk[..., None] for table, walk in zip(tables, walks, strict=True)]
    totals = [walk.copy() for walk in walks]
    pooled = [x.copy() for x in sums]
    for k in range(len(tables)):
        for j in range(k):
            apart = ((tables[k][..., :2] - tables[j][..., :2]) ** 2).sum(-1)
            chance = variance * (1.0 / (walks[k] + _ALONE) + 1.0 / (walks[j] + _ALONE))
            both = walks[k] * walks[j] / (walks[k] + walks[j] + 1e-9)
            excess = gaussian_filter(both * (apart / chance - 1.0), sigma) / (gaussian_filter(both, sigma) + 1e-6)
            alike = np.exp(-0.5 * np.maximum(excess - _CHANCE, 0.0))
            for a, b in ((k, j), (j, k)):
                shared = alike * walks[a] / (walks[a] + _ALONE)  # off its own ways a field does not follow the others
                pooled[a] += shared[..., None] * sums[b]
                totals[a] += shared * walks[b]
    found = []
    for table, total, x in zip(tables, totals, pooled, strict=True):
        mean = x / np.maximum(total, 1e-9)[..., None]
        share = total / (total + _ALONE)  # where nobody passes, the field's own default holds
        new = table + share[..., None] * (mean - table)
        new[..., 2] = total
        found.append(new)
    return found


def _velocity_variance(grid: FloorGrid, tables: list[Array], moves: Moves, field_of: NDArray[np.int64]) -> Array:
    """Variance (NX, NY) of the velocity of a walk around its field's, both components added, m^2/s^2."""
    squares = np.zeros(len(moves.xy))
    for k, table in enumerate(tables):
        mine = field_of == k
        squares[mine] = ((moves.velocity[mine] - grid.look_up(moves.xy[mine], table)[:, :2]) ** 2).sum(1)
    use = field_of >= 0
    everywhere = np.full((grid.nx, grid.ny, 1), squares[use].mean() if use.any() else 0.1)
    found = _coarse_to_fine(grid, moves.xy[use], squares[use, None], everywhere, _SPREAD_WIDTHS_M, _SPREAD_SHRINK)
    return np.asarray(found[..., 0] + 1e-6)


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


def standing_scale(rows: WalkRows, stand_m: float) -> float:
    """Scale of the moves of people who stand, metres: sensors and bodies are never quite still."""
    length = np.concatenate([np.hypot(*np.diff(xy, axis=0).T) for xy in rows.xy])
    stood = length[length < stand_m]
    # median of a two-dimensional Student-t with four degrees of freedom, in units of its scale: 1.287
    return float(np.clip(np.median(stood) / 1.287, _LEAST_STILL_M, 0.02)) if len(stood) >= _FEW_STOOD else _STILL_M


def base_hazards(rows: WalkRows, stand_m: float, population: Population) -> Array:
    """Probabilities per step (4,) over all walks; never zero, never one."""
    _, event, risk = hazard_events(rows, np.ones(len(rows), dtype=bool), stand_m)
    usual = zip(HAZARDS, (0.01, 0.3, 0.05, 0.1), strict=True)
    before = np.array([prior_counts(population, name, share, 2.0) for name, share in usual])
    return np.asarray(((event & risk).sum(0) + before[:, 0]) / (risk.sum(0) + before[:, 1]))


def hazards_off_the_way(rows: WalkRows, stand_m: float, base: Array) -> Array:
    """Probabilities per step (4,) where nobody walked: people pause there as on the way, and hardly end a walk."""
    paused, moved = 1.0, 100.0
    for xy in rows.xy:
        stood = np.hypot(*np.diff(xy, axis=0).T) < stand_m
        on_the_way = len(stood) - int(np.argmin(stood[::-1])) if not stood.all() else 0  # until the last move
        paused += float(np.sum(stood[1:on_the_way] & ~stood[: max(on_the_way - 1, 0)]))
        moved += float(np.sum(~stood[:on_the_way]))
    return np.array([paused / moved, base[1], _OFF_THE_WAY * base[2], _OFF_THE_WAY * base[3]])


def hazard_events(
    rows: WalkRows, use: NDArray[np.bool_], stand_m: float
) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Positions (M, 2) after each move of the rows in ``use``, what happened there and what could have (M, 4 each)."""
    places, events, risks = [np.zeros((0, 2))], [np.zeros((0, 4), dtype=bool)], [np.zeros((0, 4), dtype=bool)]
    for n in np.flatnonzero(use):
        xy = rows.xy[n]
        stood = np.hypot(*np.diff(xy, axis=0).T) < stand_m
        if rows.passers_by:
            stood = _stays(xy, stood)
        stood[0] = False  # who sets off moves, however little
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


def _stays(xy: Array, stood: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which moves (I,) of a track (I + 1, 2) belong to a stay: all between two stands at about the same position.

    People who are tracked from above seem to move while they stand.
    """
    found, index = stood.copy(), np.flatnonzero(stood)
    for before, after in pairwise(index):
        if np.hypot(*(xy[after] - xy[before + 1])) < _STAY_M:
            found[before:after] = True
    return found


def _coarse_to_fine(
    grid: FloorGrid, xy: Array, values: Array, table: Array, widths_m: tuple[float, ...], shrink: float
) -> Array:
    """Local means (NX, NY, C) of values (M, C), each width shrunk towards the coarser one before it."""
    for width_m in widths_m:
        sums = grid.smoothed(xy, np.concatenate([values, np.ones((len(xy), 1))], axis=1), width_m)
        table = (sums[..., :-1] + shrink * table) / (sums[..., -1:] + shrink)
    return np.asarray(table)
