"""Posterior after the walk so far: which field, or free walking; moving or standing; pace and side."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.forecasting.field_step import KEPT
from svfm_ros.forecasting.forward import (
    ENDED,
    GOES_ON,
    OPEN,
    field_log_densities,
    forward,
    still_log_densities,
    taken_up,
)
from svfm_ros.forecasting.free_walker import FREE_COLUMNS, MEMORY, TICK_S, free_log_densities
from svfm_ros.forecasting.sampler import MOVING, STANDING, Walkers, draw_evenly
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.types import Walk

__all__ = ["Posterior", "filter_walk", "on_ticks", "start_probabilities", "walk_log_density"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Posterior:
    """Probabilities of what is hidden after the positions seen, right before the next move."""

    state: Array  # (2 + 2 K): as in ``forward``
    filters: Array  # (K, KEPT)
    moves: Array  # (MEMORY, 2), the last moves, newest first, metres per tick of the free walker
    known: int  # how many of them are known
    steps: int  # moves seen since the start, or since the walker last stood
    log_each: Array  # (I,), log density of each move seen

    @property
    def unfamiliar(self) -> float:
        """Probability that the walker is off their habits, 0 to 1."""
        return float(self.state[0] + self.state[-1])

    @property
    def fields(self) -> Array:
        """Probability of each field (K,); with ``unfamiliar`` they add up to one."""
        k = len(self.filters)
        return np.asarray(self.state[1 : 1 + k] + self.state[1 + k : -1])

    def draw(self, xy: Array, rng: np.random.Generator) -> Walkers:
        """Walkers at positions (S, 2) with what is hidden drawn from the posterior."""
        rows, k = len(xy), len(self.filters)
        index = draw_evenly(self.state, rows, rng)
        component = np.where(index > k, index - k, index) % (k + 1)
        return Walkers(
            np.array(xy),
            component,
            np.where(index > k, STANDING, MOVING),
            np.full(rows, self.steps),
            self.filters[np.maximum(component - 1, 0)],
            np.tile(self.moves, (rows, 1, 1)),
            np.full(rows, self.known),
        )


def on_ticks(walk: Walk, dt_s: float) -> tuple[Array, Array]:
    """Positions (T, 2) every ``dt_s`` from the start of the walk, and the variance of each (T,), m^2.

    Training sees walks from their start, too. What was walked after the last whole tick does not count yet: ticks that
    end now would begin in the middle of the first step, which is then faster than people set off.
    """
    if not len(walk.stamps_ns) or np.any(np.diff(walk.stamps_ns) <= 0):
        raise DataError("walk so far: expected positions with stamps that increase")
    if not np.isfinite(walk.xy).all():
        raise DataError("walk so far: expected finite positions, got NaN or infinity")
    times = walk.times_s
    ticks: Array = dt_s * np.arange(np.floor(times[-1] / dt_s + 1e-6) + 1.0, dtype=np.float64)
    xy = walk.xy_at(ticks)
    if walk.covariance is None:
        return xy, np.zeros(len(xy))
    each = 0.5 * (walk.covariance[:, 0, 0] + walk.covariance[:, 1, 1])
    if not (np.isfinite(each).all() and (each >= 0.0).all()):
        raise DataError("walk so far: expected finite covariances without negative variances")
    return xy, np.interp(ticks, times, each)


def filter_walk(
    model: WalkModel, xy: Array, variance: Array, hour: float, day: int, ended: bool | None = None
) -> Posterior:
    """Run the forward algorithm over positions (T, 2), T at least 2, of a walk that began at that hour of that day.

    ``variance`` (T,) is that of the positions, m^2. ``ended`` says whether the walk ends at its last position; None
    where that is not known yet: then people who may have arrived are not taken for free walkers who go on.
    """
    if xy.ndim != 2 or xy.shape[1] != 2 or len(xy) < 2 or not np.isfinite(xy).all():
        raise DataError(f"walk so far: expected at least two finite positions (T, 2), got shape {xy.shape}")
    here = np.ascontiguousarray(xy - model.origin)
    moved_var = np.ascontiguousarray(variance[1:] + variance[:-1])
    count, k = len(here) - 1, model.components
    filters, support = np.zeros((k, KEPT)), np.empty((count + 1, k))
    log_move, hazards, free_moves, log_still = (
        np.empty((count, k)),
        np.empty((count, k, 4)),
        np.empty((count, FREE_COLUMNS)),
        np.empty(count),
    )
    g = model.grid
    field_log_densities(
        here,
        moved_var,
        model.tables,
        (g.low_x, g.low_y, g.cell_m),
        model.steps.packed,
        model.steps.gains.parts,
        model.ramp,
        model.steady,
        model.dt_s,
        model.stand_m,
        log_move,
        hazards,
        support,
        filters,
    )
    free_log_densities(here, moved_var, model.free.parts, model.dt_s / TICK_S, free_moves)
    still_log_densities(here, moved_var, model.still_m, log_still)
    move = np.diff(here, axis=0)
    stood = np.hypot(move[:, 0], move[:, 1]) < model.stand_m
    stood[0] = False  # who sets off moves, however little
    shares, free = model.habits.at(here, hour, day)
    state = np.zeros(2 + 2 * k)
    gate = shares * taken_up(support)
    state[: 1 + k] = _setting_off(gate[0], float(free[0]))
    log_each, free_each = np.empty(count), np.empty(count)
    forward(
        state,
        log_move,
        log_still,
        free_moves,
        model.free.sets_off(model.dt_s),
        hazards,
        stood,
        model.switches.packed,
        gate[1:],
        OPEN if ended is None else ENDED if ended else GOES_ON,
        log_each,
        free_each,
    )
    last = np.zeros((MEMORY, 2))
    known = min(count, MEMORY)
    last[:known] = move[::-1][:known] / (model.dt_s / TICK_S)
    since = count if not stood.any() else int(np.argmax(stood[::-1]))
    return Posterior(state, filters, last, known, since, log_each)


def start_probabilities(model: WalkModel, xy: Array, hour: float, day: int) -> Array:
    """Probabilities (1 + K) of free walking and of each field for someone who sets off at (2,) in the model's frame."""
    here = (np.asarray(xy, dtype=float) - model.origin)[None]
    shares, free = model.habits.at(here, hour, day)
    support = np.stack([model.grid.look_up(here, table[..., 2:3])[0, 0] for table in model.tables])
    return _setting_off(shares[0] * taken_up(support), float(free[0]))


def _setting_off(gate: Array, free: float) -> Array:
    """Probabilities (1 + K); who has habits, but none that leads from here, walks freely, too."""
    follows = (1.0 - free) * gate
    return np.append(max(0.0, 1.0 - follows.sum()), follows)


def walk_log_density(model: WalkModel, xy: Array, variance: Array, hour: float, day: int, ended: bool) -> float:
    """Log density of a whole walk (T, 2), given where it starts and that it ends, or was cut, at its last position."""
    return float(filter_walk(model, xy, variance, hour, day, ended).log_each.sum())
