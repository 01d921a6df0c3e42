"""Sampled paths: all walkers step together, compiled, from the same predictive densities as the likelihood.

A path follows a field or walks freely, stands and goes on, may leave a habit or take one up, ends where walks end,
stays there, and may set off again. What happens in one step is drawn in the order of the forward algorithm.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.forecasting.field_step import KEPT, predict, relative_move, update
from svfm_ros.forecasting.floor_grid import corner, interpolate
from svfm_ros.forecasting.forward import FREE_ENDS, HAZARDS, field_here, odd_move, taken_up
from svfm_ros.forecasting.free_walker import FEATURES, GOING, HIDDEN, MEMORY, OUTPUTS, PARTS, TICK_S, free_predict
from svfm_ros.forecasting.habits import FAR_M
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = [
    "ARRIVED",
    "MOST_MPS",
    "MOST_SCALES",
    "MOVING",
    "STANDING",
    "SampledWalks",
    "Walkers",
    "draw_evenly",
    "fresh_walkers",
    "sample_walks",
]

Array = NDArray[np.float64]

MOVING, STANDING, ARRIVED = 0, 1, 2
MOST_MPS = 4.0
"""Nobody is faster at home; the tails of the density beyond are cut in samples."""
MOST_SCALES = 12.0
"""Draws of a Student-t beyond so many scales, one in some thousand, are cut to that."""


@dataclass(slots=True)
class Walkers:
    """S walkers on their way; changed in place as they walk."""

    xy: Array  # (S, 2), relative to the model's origin
    component: NDArray[np.int64]  # (S,), 0 walks freely, 1 to K follows that field
    mode: NDArray[np.int64]  # (S,), MOVING, STANDING or ARRIVED
    step: NDArray[np.int64]  # (S,), moves made since the start of the walk, or since they last stood
    filters: Array  # (S, KEPT)
    moves: Array  # (S, MEMORY, 2), the last moves, newest first, metres per tick of the free walker
    known: NDArray[np.int64]  # (S,), how many of them are known

    def some(self, rows: NDArray[np.int64]) -> "Walkers":
        """Copies of some of them."""
        return Walkers(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class SampledWalks:
    """S paths at every tick from now on; who has arrived stays, or sets off again."""

    xy: Array  # (S, T + 1, 2), relative to the model's origin
    component: NDArray[np.int64]  # (S,), what each path followed when it first ended, or was given up; 0 free
    ended: NDArray[np.bool_]  # (S,), whether it came to an end at all
    end_xy: Array  # (S, 2), where it first ended, or was when it was given up

    def some(self, rows: slice) -> "SampledWalks":
        """Some of them."""
        return SampledWalks(self.xy[rows], self.component[rows], self.ended[rows], self.end_xy[rows])


def draw_evenly(probabilities: Array, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices (rows,) in random order, drawn so that each comes as often as its probability says, give or take one.

    With 200 paths drawn one by one, the share of a place whose probability is a quarter is 3 % off.
    """
    reached = np.cumsum(probabilities / probabilities.sum())
    index = np.searchsorted(reached, (np.arange(rows) + rng.random()) / rows, side="right")
    return rng.permutation(np.minimum(index, len(reached) - 1))


def fresh_walkers(xy: Array, probabilities: Array, rng: np.random.Generator) -> Walkers:
    """Walkers who set off from positions (S, 2) now; what each follows has probabilities (1 + K), free first."""
    rows = len(xy)
    component = draw_evenly(probabilities, rows, rng)
    filters = np.zeros((rows, KEPT))
    zeros = np.zeros(rows, dtype=np.int64)
    return Walkers(
        np.array(xy), component, zeros.copy(), zeros.copy(), filters, np.zeros((rows, MEMORY, 2)), zeros.copy()
    )


@kernel
def _student(rng, nu):  # type: ignore[no-untyped-def]
    """One draw of a standard Student-t, cut to MOST_SCALES."""
    z = rng.standard_normal() / math.sqrt(2.0 * rng.standard_gamma(0.5 * nu) / nu)
    return min(max(z, -MOST_SCALES), MOST_SCALES)


@kernel
def _free_move(rng, moves, known, weights, ticks, mode, set_off, scratch):  # type: ignore[no-untyped-def]
    """One move (dx, dy) of a free walker, metres, and whether they stand or move now.

    ``mode`` is what they did before, ``set_off`` the probability that who stands sets off, ``scratch`` what
    ``free_predict`` needs.
    """
    features, hidden, raw, parts = scratch
    if mode == STANDING and rng.random() < set_off:
        first_m, first_nu = weights[7]
        return first_m * _student(rng, first_nu) * ticks, first_m * _student(rng, first_nu) * ticks, MOVING
    ux, uy, nu_v, nu_u = free_predict(moves, known, weights, features, hidden, raw, parts)
    if mode == STANDING or rng.random() < parts[GOING, 0]:
        g, mode = GOING, STANDING
    else:
        g, left = 0, rng.random() * (1.0 - parts[GOING, 0]) - parts[0, 0]
        while left >= 0.0 and g < GOING - 1:
            g += 1
            left -= parts[g, 0]
    along = (parts[g, 1] + parts[g, 3] * _student(rng, nu_v)) * ticks
    across = (parts[g, 2] + parts[g, 4] * _student(rng, nu_u)) * ticks
    return along * ux - across * uy, along * uy + across * ux, mode


@kernel
def _choose(rng, x, y, origin_xy, near_m, shares, free, allow_free):  # type: ignore[no-untyped-def]
    """A component for someone who sets off, or takes up a habit, at (x, y): 0 free, 1 to K."""
    origins, fields = shares.shape[0] - 1, shares.shape[1]
    nearest = np.inf
    for c in range(origins):
        nearest = min(nearest, (x - origin_xy[c, 0]) ** 2 + (y - origin_xy[c, 1]) ** 2)
    total, pick = 0.0, origins
    local = math.exp(-math.log(2.0) * nearest / FAR_M**2)
    if rng.random() < local:
        for c in range(origins):  # reservoir: the origin is kept with its share of the weight so far
            squared = (x - origin_xy[c, 0]) ** 2 + (y - origin_xy[c, 1]) ** 2
            weight = math.exp(-0.5 * (squared - nearest) / near_m**2)
            total += weight
            if rng.random() * total < weight:
                pick = c
    if allow_free and rng.random() < free[pick]:
        return 0
    left = rng.random()
    for k in range(fields):
        left -= shares[pick, k]
        if left < 0.0:
            return k + 1
    return fields


@kernel
def _takes_up(rng, component, tables, grid, x, y):  # type: ignore[no-untyped-def]
    """The component, or 0 (free) where its field is not taken up at (x, y) for want of walks."""
    if component == 0:
        return 0
    table = tables[component - 1]
    ix, iy, ax, ay = corner(x, y, grid[0], grid[1], grid[2], table.shape[0], table.shape[1])
    return component if rng.random() < taken_up(interpolate(table, ix, iy, ax, ay, 2)) else 0


@kernel
def _odd_here(table, grid, x, y, slip, known):  # type: ignore[no-untyped-def]
    """Probability that the next move of someone at (x, y) who follows a field is an odd one."""
    if known == 0:
        return slip
    ix, iy, ax, ay = corner(x, y, grid[0], grid[1], grid[2], table.shape[0], table.shape[1])
    stop, end = interpolate(table, ix, iy, ax, ay, HAZARDS), interpolate(table, ix, iy, ax, ay, HAZARDS + 2)
    return odd_move(slip, stop, end)


@kernel
def _walk(  # type: ignore[no-untyped-def]
    rng, tables, grid, numbers, gains, ramp, steady, dt_s, still_m, stand_m, switches, set_off, free_sets_off, weights,
    origin_xy, near_m, shares, free, until_end,
    xy, component, mode, step, filters, moves, known, ended, end_xy, end_component, path,
):  # fmt: skip
    """Fill ``path`` (T, S, 2); with ``until_end`` walkers are followed only until they arrive."""
    low_x, low_y, cell_m = grid
    _, nx, ny, _ = tables.shape
    leave, join, free_end, free_end_still, slip = switches
    scratch = np.zeros(FEATURES), np.zeros((2, HIDDEN)), np.zeros(OUTPUTS), np.zeros((PARTS, 5))
    ticks, usual_rate = dt_s / TICK_S, set_off.mean()
    for t in range(len(path)):
        going = 0
        for s in range(len(xy)):
            if mode[s] == ARRIVED:
                rate = set_off[component[s] - 1] if component[s] > 0 else usual_rate
                if not until_end and rng.random() < rate:
                    chosen = _choose(rng, xy[s, 0], xy[s, 1], origin_xy, near_m, shares, free, True)
                    component[s] = _takes_up(rng, chosen, tables, grid, xy[s, 0], xy[s, 1])
                    filters[s] = 0.0
                    mode[s], step[s], known[s] = MOVING, 0, 0
                path[t, s, 0], path[t, s, 1] = xy[s, 0], xy[s, 1]
                going += not until_end
                continue
            going += 1
            k = component[s] - 1
            x, y = xy[s, 0], xy[s, 1]
            if k < 0:
                dx, dy, mode[s] = _free_move(rng, moves[s], known[s], weights, ticks, mode[s], free_sets_off, scratch)
            else:
                ux, uy, speed, here = field_here(tables[k], grid, x, y)
                share, calm = (ramp[step[s]], steady[step[s]]) if step[s] < len(ramp) else (1.0, 1.0)
                m = dt_s * speed * share
                found = predict(filters[s], numbers, gains, m, calm, here, 0.0)
                if mode[s] == STANDING:
                    scale = still_m / math.sqrt(2.0 * rng.standard_gamma(2.0) / 4.0)
                    dx, dy = scale * rng.standard_normal(), scale * rng.standard_normal()
                elif rng.random() < _odd_here(tables[k], grid, x, y, slip, known[s]):
                    dx, dy, _ = _free_move(rng, moves[s], known[s], weights, ticks, MOVING, 0.0, scratch)
                else:
                    along = m * (1.0 + found[0] + found[2] * _student(rng, found[4]))
                    across = m * (found[1] + found[3] * _student(rng, found[4]))
                    dx, dy = along * ux - across * uy, along * uy + across * ux
                rel_v, rel_u = relative_move(dx, dy, ux, uy, m)
                stood = known[s] > 0 and math.sqrt(dx * dx + dy * dy) < stand_m  # who sets off moves, however little
                update(filters[s], gains, rel_v, rel_u, found, stood)
            length = math.sqrt(dx * dx + dy * dy)
            if length > MOST_MPS * dt_s:
                dx, dy = dx * MOST_MPS * dt_s / length, dy * MOST_MPS * dt_s / length
            x, y = x + dx, y + dy
            xy[s, 0], xy[s, 1] = x, y
            for j in range(MEMORY - 1, 0, -1):
                moves[s, j, 0], moves[s, j, 1] = moves[s, j - 1, 0], moves[s, j - 1, 1]
            moves[s, 0, 0], moves[s, 0, 1] = dx / ticks, dy / ticks
            stood = known[s] > 0 and math.sqrt(dx * dx + dy * dy) < stand_m
            known[s] = min(known[s] + 1, MEMORY)
            path[t, s, 0], path[t, s, 1] = x, y
            step[s] = 0 if stood else step[s] + 1
            ix, iy, ax, ay = corner(x, y, low_x, low_y, cell_m, nx, ny)
            if k < 0:
                end = free_end_still if stood else free_end
                for other in range(len(tables)):
                    end = max(
                        end,
                        FREE_ENDS * interpolate(tables[other], ix, iy, ax, ay, HAZARDS + 3 if stood else HAZARDS + 2),
                    )
            else:
                end = interpolate(tables[k], ix, iy, ax, ay, HAZARDS + 3 if mode[s] == STANDING else HAZARDS + 2)
            if rng.random() < end:
                mode[s] = ARRIVED
                if not ended[s]:
                    ended[s], end_component[s] = True, component[s]
                    end_xy[s, 0], end_xy[s, 1] = x, y
            elif k < 0:
                if mode[s] == MOVING and rng.random() < join:
                    chosen = _choose(rng, x, y, origin_xy, near_m, shares, free, False)
                    component[s] = _takes_up(rng, chosen, tables, grid, x, y)
                    filters[s] = 0.0
            else:
                if mode[s] == STANDING:
                    mode[s] = MOVING if rng.random() < interpolate(tables[k], ix, iy, ax, ay, HAZARDS + 1) else STANDING
                else:
                    mode[s] = STANDING if rng.random() < interpolate(tables[k], ix, iy, ax, ay, HAZARDS) else MOVING
                if rng.random() < leave:
                    component[s] = 0
        if going == 0:
            for rest in range(t + 1, len(path)):
                path[rest] = path[t]
            return


def sample_walks(
    model: WalkModel, walkers: Walkers, hour: float, day: int, ticks: int, more_ticks: int, rng: np.random.Generator
) -> SampledWalks:
    """Paths of ``ticks`` steps; who has not arrived by then is followed for ``more_ticks`` to see where they end."""
    rows = len(walkers.xy)
    path = np.empty((ticks + 1, rows, 2))
    path[0] = walkers.xy
    ended, end_xy, end_component = np.zeros(rows, dtype=np.bool_), np.zeros((rows, 2)), np.zeros(rows, dtype=np.int64)
    _run(model, walkers, hour, day, False, ended, end_xy, end_component, path[1:], rng)
    late = np.flatnonzero(~ended)
    if len(late) and more_ticks:
        rest = walkers.some(late)
        parts = ended[late], end_xy[late], end_component[late]
        _run(model, rest, hour, day, True, *parts, np.empty((more_ticks, len(late), 2)), rng)
        ended[late], end_xy[late], end_component[late] = parts
        still = ~parts[0]
        end_xy[late[still]], end_component[late[still]] = rest.xy[still], rest.component[still]
    elif len(late):
        end_xy[late], end_component[late] = walkers.xy[late], walkers.component[late]
    return SampledWalks(path.transpose(1, 0, 2), end_component, ended, end_xy)


def _run(
    model: WalkModel,
    w: Walkers,
    hour: float,
    day: int,
    until_end: bool,
    ended: NDArray[np.bool_],
    end_xy: Array,
    end_component: NDArray[np.int64],
    path: Array,
    rng: np.random.Generator,
) -> None:
    g, s = model.grid, model.switches
    shares, free = model.habits.by_origin(hour, day)
    _walk(
        rng,
        model.tables,
        (g.low_x, g.low_y, g.cell_m),
        model.steps.packed,
        model.steps.gains.parts,
        model.ramp,
        model.steady,
        model.dt_s,
        model.still_m,
        model.stand_m,
        s.packed,
        model.set_off,
        model.free.sets_off(model.dt_s),
        model.free.parts,
        model.habits.origin_xy,
        model.habits.near_m,
        shares,
        free,
        until_end,
        w.xy,
        w.component,
        w.mode,
        w.step,
        w.filters,
        w.moves,
        w.known,
        ended,
        end_xy,
        end_component,
        path,
    )
