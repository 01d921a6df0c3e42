"""Learn a walk model from walks.

1. Group walks by where they end; each group gets a field.
2. Leave a fifth of the walks out at a time: fields, spreads and hazards from the others, and what they say about the
   ones left out. Every number of the model that is not a table is chosen by the density of these left-out walks.
3. Fit all tables once more, from all walks, and the habits on top of them.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.forecast_config import WalkModelConfig, WalkTrainConfig
from svfm_ros.forecasting.field_step import KEPT, LEAST_MPS, StepNumbers
from svfm_ros.forecasting.fit.field_fit import (
    base_hazards,
    default_speed,
    fit_field,
    fit_hazards,
    fit_spreads,
    hazards_off_the_way,
    pool_fields,
    standing_scale,
)
from svfm_ros.forecasting.fit.grouping import group_points
from svfm_ros.forecasting.fit.habit_fit import FittedHabits, HabitWalks, fit_habits
from svfm_ros.forecasting.fit.number_fit import (
    LeftOutMoves,
    LeftOutWalk,
    fit_steps,
    fit_switches,
    free_shares,
    parting_rate,
    total_log_density,
)
from svfm_ros.forecasting.fit.usual_numbers import Population, shrunk_log, shrunk_median
from svfm_ros.forecasting.fit.walk_steps import Moves, WalkRows, first_shares, overlapping_moves, stays_s
from svfm_ros.forecasting.floor_grid import FloorGrid
from svfm_ros.forecasting.forward import field_log_densities, still_log_densities, taken_up
from svfm_ros.forecasting.free_walker import FREE_ANY, FREE_COLUMNS, TICK_S, FreeWalker, free_log_densities
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = ["TrainedModel", "train_model"]

Array = NDArray[np.float64]
FreeFit = Callable[[list[Array], int], FreeWalker]

_MARGIN_M = 1.5  # of the tables around the walks
_CLIPPED = 1.0  # relative residuals beyond this count as this, for spreads
_LEAST_SET_OFF = 1e-5


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model and what its making has shown."""

    model: WalkModel
    habits: FittedHabits
    left_out_nll: float  # of walks under fields learnt without them, nats per step
    free: Array = field(repr=False)  # (N,), how far each row walked freely, from the model learnt without it
    group: NDArray[np.int64] = field(repr=False)  # (N,), the field of each row's destination
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Task:
    """What all stages share."""

    rows: WalkRows
    config: WalkModelConfig
    group: NDArray[np.int64]  # (N,)
    ends: Array  # (K, 2)
    grid: FloorGrid
    moves: Moves
    fold: NDArray[np.int64]  # (N,)
    hyper: NDArray[np.int64]  # rows whose left-out moves choose the numbers

    @property
    def fields(self) -> int:
        return len(self.ends)


def train_model(
    rows: WalkRows,
    fit_free: FreeFit,
    config: WalkModelConfig | None = None,
    train: WalkTrainConfig | None = None,
    progress: Callable[[int, int], None] | None = None,
    population: Population | None = None,
) -> TrainedModel:
    """Fit a model; ``fit_free(tracks, seed)`` gives the free walker adapted to those tracks (T, 2).

    ``population`` is the prior over numbers that homes share, see ``fit_steps`` and ``usual_numbers.py``.
    """
    config, train = config or WalkModelConfig(), train or WalkTrainConfig()
    began = time.monotonic()
    task = _prepare(rows, config, train)
    tell = progress or (lambda _done, _of: None)
    folds = int(task.fold.max()) + 1
    total = 2 * folds + 4
    # Fields without each fold, and the residuals of that fold under them.
    velocity = []
    for f in range(folds):
        velocity.append(_velocities(task, task.fold != f if folds > 1 else np.ones(len(rows), dtype=bool)))
        tell(f + 1, total)
    population = population or {}
    ramp, residuals = _residuals(task, velocity, population)
    spreads = [
        _spreads(task, residuals, task.fold != f if folds > 1 else np.ones(len(rows), dtype=bool)) for f in range(folds)
    ]
    base, still_m = base_hazards(rows, config.stand_m, population), standing_scale(rows, config.stand_m)
    off = hazards_off_the_way(rows, config.stand_m, base)
    free_walkers = _free_halves(task, fit_free, train.seed)
    free_moves = _free_moves(task, free_walkers)
    steps, steady = fit_steps(_left_out_moves(task, velocity, spreads, free_moves), ramp, population)
    tell(folds + 1, total)
    walks, index, familiar = [], [], []
    for f in range(folds):
        others = task.fold != f if folds > 1 else np.ones(len(rows), dtype=bool)
        tables = _tables(task, velocity[f], spreads[f], others, off)
        supported = np.array([(others & (task.group == k)).any() for k in range(task.fields)])
        for n in task.hyper[task.fold[task.hyper] == f]:
            numbers = (steps, ramp, steady, still_m)
            free_part = (free_moves[int(n)], free_walkers[n % 2].sets_off(rows.dt_s))
            walks.append(_left_out(task, int(n), tables, supported, numbers, free_part, others))
            index.append(n)
            familiar.append(bool(supported[task.group[n]]))
        tell(folds + 2 + f, total)
    known = [w for w, own in zip(walks, familiar, strict=True) if own]
    switch = fit_switches(known, 0.3 * float(base[2]), float(base[3]), rows.passers_by)
    density, begun_free = total_log_density(walks, switch)
    nll = -float(density.sum()) / sum(len(w.log_move) for w in walks)
    arrived = np.array(familiar) & (not rows.passers_by)
    free = free_shares(rows, np.array(index), np.array(familiar), np.where(arrived, 0.0, begun_free))
    switches = replace(switch.switches, leave=switch.switches.leave + parting_rate(rows))
    tell(total - 1, total)
    everyone = np.ones(len(rows), dtype=bool)
    tables = _tables(task, _velocities(task, everyone), _spreads(task, residuals, everyone), everyone, off)
    person = np.unique(rows.resident, return_inverse=True)[1].reshape(-1)
    walked = HabitWalks(np.zeros_like(person), rows.hour, rows.day, np.eye(task.fields)[task.group], person)
    habits = fit_habits(rows.starts, walked, free, task.ends, config.group_m, config.near_m, None, population)
    model = WalkModel(
        dt_s=rows.dt_s,
        origin=rows.origin,
        grid=task.grid,
        tables=tables,
        ends_xy=task.ends,
        ramp=ramp,
        steady=steady,
        still_m=still_m,
        stand_m=config.stand_m,
        steps=steps,
        switches=switches,
        habits=habits.habits,
        free=fit_free(_tracks(rows), train.seed),
        set_off=_set_off(task, population),
    )
    tell(total, total)
    return TrainedModel(model, habits, nll, free, task.group, time.monotonic() - began)


def _prepare(rows: WalkRows, config: WalkModelConfig, train: WalkTrainConfig) -> _Task:
    rng = np.random.default_rng(train.seed)
    group = group_points(rows.ends, config.group_m, config.most_components, train.seed)
    ends = np.stack([rows.ends[group == k].mean(0) for k in range(int(group.max()) + 1)])
    grid = FloorGrid.around(np.concatenate(rows.xy), _MARGIN_M)
    moves = overlapping_moves(rows, first_shares(rows, config.ramp_steps, config.stand_m), config.stand_m)
    fold = _folds(rows, group, train.folds, rng)
    hyper = np.sort(rng.permutation(len(rows))[: train.most_left_out])
    return _Task(rows, config, group, ends, grid, moves, fold, hyper)


def _folds(rows: WalkRows, group: NDArray[np.int64], folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A fold for every row; rows of one walk are in one fold, and each destination is spread over all folds."""
    walks = np.unique(rows.walk)
    of_walk = np.zeros(int(walks.max()) + 1, dtype=np.int64)
    destination = np.zeros_like(of_walk)
    destination[rows.walk] = group
    order = walks[np.lexsort((rng.random(len(walks)), destination[walks]))]
    of_walk[order] = np.arange(len(order)) % min(folds, len(order))
    return of_walk[rows.walk]


def _velocities(task: _Task, use: NDArray[np.bool_]) -> list[Array]:
    """Velocity, support and middle (NX, NY, 5) of every field from the rows in ``use`` (N,)."""
    mine = use[task.moves.row]
    speed = default_speed(task.moves)
    of = task.group[task.moves.row]
    each = [fit_field(task.grid, task.moves, mine & (of == k), task.ends[k], speed) for k in range(task.fields)]
    return pool_fields(task.grid, each, task.moves, np.where(mine, of, -1))


@dataclass(frozen=True, slots=True)
class _Residuals:
    """Left-out residuals of all moves after the first few, of people who do not stand."""

    xy: Array  # (M, 2)
    squares: Array  # (M, 2), relative, along and across
    row: NDArray[np.int64]  # (M,)


@dataclass(frozen=True, slots=True)
class _Relative:
    """The moves (I,) of a row as a field's table sees them."""

    along: Array  # metres
    across: Array
    expected: Array  # metres
    support: Array  # walks
    offset: Array  # metres to the left of the middle of the walks


def _relative(task: _Task, n: int, table: Array) -> _Relative:
    xy = task.rows.xy[n]
    move, found = np.diff(xy, axis=0), task.grid.look_up(xy[:-1], table)
    speed = np.hypot(found[:, 0], found[:, 1]) + 1e-9
    unit = found[:, :2] / speed[:, None]
    return _Relative(
        along=(move * unit).sum(1),
        across=move[:, 1] * unit[:, 0] - move[:, 0] * unit[:, 1],
        expected=task.rows.dt_s * np.maximum(speed, LEAST_MPS),
        support=found[:, 2],
        offset=unit[:, 1] * found[:, 3] - unit[:, 0] * found[:, 4],
    )


def _residuals(task: _Task, velocity: list[list[Array]], population: Population) -> tuple[Array, _Residuals]:
    """How fast people set off (R,), and the left-out residuals."""
    skip = task.config.ramp_steps
    first: list[list[float]] = [[] for _ in range(skip)]
    xy, squares, row = [], [], []
    for n in range(len(task.rows)):
        seen = _relative(task, n, velocity[task.fold[n]][task.group[n]])
        y, z = seen.along / seen.expected - 1.0, seen.across / seen.expected
        for i in range(min(skip, len(y))):
            first[i].append(1.0 + y[i])
        moving = np.hypot(seen.along, seen.across) >= task.config.stand_m
        moving[:skip] = False
        y, z = y[moving], z[moving]
        xy.append(task.rows.xy[n][:-1][moving])
        squares.append(np.clip(np.column_stack([y, z]), -_CLIPPED, _CLIPPED) ** 2)
        row.append(np.full(int(moving.sum()), n))
    ramp = np.array([shrunk_median(r, population, f"ramp{i}") for i, r in enumerate(first)]).clip(0.05, 1.2)
    return ramp, _Residuals(np.concatenate(xy), np.concatenate(squares), np.concatenate(row))


def _spreads(task: _Task, residuals: _Residuals, use: NDArray[np.bool_]) -> list[Array]:
    """Variances (NX, NY, 2) of every field over those of all moves; where a field has few, all fields nearby count."""
    mine = use[residuals.row]
    everywhere = residuals.squares[mine].mean(0) if mine.any() else np.full(2, 0.04)
    pooled = fit_spreads(task.grid, residuals.xy[mine], residuals.squares[mine], everywhere)
    found = []
    for k in range(task.fields):
        of = mine & (task.group[residuals.row] == k)
        found.append(fit_spreads(task.grid, residuals.xy[of], residuals.squares[of], pooled) if of.any() else pooled)
    return [spread / everywhere for spread in found]


def _tables(
    task: _Task, velocity: list[Array], spreads: list[Array], use: NDArray[np.bool_], base: Array
) -> NDArray[np.float32]:
    """All channels of all fields (K, NX, NY, 11)."""
    hazards = [
        fit_hazards(task.grid, task.rows, use & (task.group == k), task.config.stand_m, base)
        for k in range(task.fields)
    ]
    parts = [
        np.concatenate([v[..., :3], s, v[..., 3:], h], axis=-1)
        for v, s, h in zip(velocity, spreads, hazards, strict=True)
    ]
    return np.ascontiguousarray(np.stack(parts), dtype=np.float32)


def _left_out_moves(
    task: _Task, velocity: list[list[Array]], spreads: list[list[Array]], free_moves: dict[int, Array]
) -> LeftOutMoves:
    """Each walk under the field of its own destination, learnt without it; walks without such a field are left out."""
    columns: list[list[Array]] = [[] for _ in range(10)]
    begin = [0]
    for n in task.hyper:
        f, k = task.fold[n], task.group[n]
        if not ((task.fold != f) & (task.group == k)).any():
            continue
        seen = _relative(task, int(n), velocity[f][k])
        variance = task.grid.look_up(task.rows.xy[n][:-1], spreads[f][k])
        stood = np.hypot(*np.diff(task.rows.xy[n], axis=0).T) < task.config.stand_m
        stood[0] = False
        values = (seen.along, seen.across, seen.expected, seen.support, variance[:, 0], variance[:, 1], seen.offset)
        values += (task.rows.variance[n], free_moves[int(n)][:, FREE_ANY], stood)  # type: ignore[assignment]
        for column, value in zip(columns, values, strict=True):
            column.append(np.ascontiguousarray(value))
        begin.append(begin[-1] + len(stood))
    empty = np.zeros(0)
    a, c, m, s, v, u, o, p, free, still = (np.concatenate(x) if x else empty for x in columns)
    return LeftOutMoves(a, c, m, s, v, u, o, p, free, still.astype(np.bool_), np.array(begin))


def _tracks(rows: WalkRows) -> list[Array]:
    """Positions (T, 2) per row, scaled so that each move is that of one tick of the free walker."""
    return [xy * (TICK_S / rows.dt_s) for xy in rows.xy]


def _free_halves(task: _Task, fit_free: FreeFit, seed: int) -> tuple[FreeWalker, FreeWalker]:
    """Two free walkers: the first never saw rows of even number, the second never those of odd number."""
    rows = _tracks(task.rows)
    if len(rows) < 4:
        return fit_free([], seed), fit_free([], seed)
    return fit_free(rows[1::2], seed), fit_free(rows[::2], seed)


def _free_moves(task: _Task, halves: tuple[FreeWalker, FreeWalker]) -> dict[int, Array]:
    """What a free walker learnt without them says of the moves of the rows in ``task.hyper``: (I, FREE_COLUMNS)."""
    found = {}
    for n in task.hyper.tolist():
        found[n] = np.empty((len(task.rows.xy[n]) - 1, FREE_COLUMNS))
        free_log_densities(
            task.rows.xy[n], task.rows.variance[n], halves[n % 2].parts, task.rows.dt_s / TICK_S, found[n]
        )
    return found


def _left_out(
    task: _Task,
    n: int,
    tables: NDArray[np.float32],
    supported: NDArray[np.bool_],
    numbers: tuple[StepNumbers, Array, Array, float],
    free: tuple[Array, float],
    others: NDArray[np.bool_],
) -> LeftOutWalk:
    rows, config, grid = task.rows, task.config, task.grid
    steps, ramp, steady, still_m = numbers
    xy, variance = rows.xy[n], rows.variance[n]
    count, k = len(xy) - 1, task.fields
    log_move, hazards, filters = np.empty((count, k)), np.empty((count, k, 4)), np.zeros((k, KEPT))
    support = np.empty((count + 1, k))
    corner = (grid.low_x, grid.low_y, grid.cell_m)
    field_log_densities(
        xy,
        variance,
        tables,
        corner,
        steps.packed,
        steps.gains.parts,
        ramp,
        steady,
        rows.dt_s,
        config.stand_m,
        log_move,
        hazards,
        support,
        filters,
    )
    log_move[:, ~supported] = -np.inf
    move = np.diff(xy, axis=0)
    log_still = np.empty(count)
    still_log_densities(xy, variance, still_m, log_still)
    near = np.exp(-0.5 * ((rows.starts[others] - xy[0]) ** 2).sum(1) / config.near_m**2)
    chosen = np.bincount(task.group[others], weights=near + 1e-3, minlength=k) + 0.5 / k
    prior = np.where(supported, chosen, 0.0)
    prior = prior / prior.sum() if prior.sum() > 0.0 else np.full(k, 1.0 / k)
    stood = np.hypot(move[:, 0], move[:, 1]) < config.stand_m
    stood[0] = False
    gate = prior * taken_up(support)
    return LeftOutWalk(log_move, log_still, *free, hazards, stood, gate[1:], gate[0], bool(rows.ended[n]))


def _set_off(task: _Task, population: Population) -> Array:
    """Probability per step (K,) that someone who arrived sets off again, from the time until their next walk."""
    stays = stays_s(task.rows, task.group, task.fields, task.config.group_m)
    log_mean = shrunk_log([s for each in stays for s in each], population, "stays")
    if log_mean is None:
        return np.full(task.fields, _LEAST_SET_OFF)
    usual = math.exp(log_mean)
    return np.array([task.rows.dt_s * (len(s) + 1.0) / (sum(s) + usual) for s in stays]).clip(_LEAST_SET_OFF, 0.5)
