"""CLiFF-LHMP (Zhu et al., IROS 2023), written anew: constant velocity, pulled towards a map of directions and speeds.

The map (CLiFF-map, Kucner et al. 2017) holds for every cell of a grid a semi-wrapped Gaussian mixture of direction and
speed: mean shift finds the number of its components, expectation maximisation fits them. A path goes on as before; at
each step a velocity is drawn from the most observed cell within reach, and the direction moves towards it by a
share ``exp(-beta difference^2)``. Where no cell is within reach the path goes straight on. Speeds stay as they were.
``beta`` and the reach are chosen on the latest third of the training tracks, with a map of the others.

Checked beside the authors' program (test-bai-cpu/CLiFF-LHMP) with its map of THÖR-1 and its options, 20 paths,
35 people, 4.8 s: mean and final distance 0.745 and 1.484 m there, 0.697 and 1.460 m here (standard errors 0.06 and
0.14 m). The program takes speeds and directions from the file and one position earlier; here they come from positions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchlib.forecasts.forecast_scores import energy_score
from benchlib.forecasts.questions import Question, QuestionSet, ask_along, ask_from_within
from benchlib.forecasts.track_pieces import fixed_length, split_by_time
from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

__all__ = ["CliffForecaster", "CliffMap", "learn_cliff_map"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_CELL_M = 0.5
_FEWEST, _MOST = 3, 400  # observations of a cell that is fitted; more are thinned out
_TURN_RAD = 0.4  # bandwidth of the mean shift in direction
_SHIFTS, _EM_STEPS = 30, 25
_SAME_RAD, _SAME_MPS = 0.5, 0.3  # modes nearer than this are one
_LEAST_SHARE = 0.05  # of a component
_LEAST_RAD, _LEAST_MPS = 0.1, 0.05  # least standard deviations of a component
_LOOK_UP_M = 0.1
_SMOOTH_STEPS = 1.5  # standard deviation of the weights on the last velocities, in time steps
_TWO_PI = 2.0 * np.pi


def _wrapped(angle: Array) -> Array:
    return np.asarray((angle + np.pi) % _TWO_PI - np.pi)


@dataclass(frozen=True, slots=True)
class CliffMap:
    """Components of all cells, one row each; rows of one cell follow each other."""

    xy: Array  # (C, 2), centre of the cell, m
    mean: Array  # (C, 2), direction in rad and speed in m/s
    cov: Array  # (C, 2, 2)
    weight: Array  # (C,), within the cell
    observed: Array  # (C,), share of the observations, the same for all rows of a cell

    @classmethod
    def from_table(cls, table: Array) -> "CliffMap":
        """From rows of x, y, direction, speed, four of the covariance, weight, motion ratio, observation ratio."""
        order = np.lexsort((table[:, 1], table[:, 0]))
        rows = table[order]
        return cls(rows[:, :2], rows[:, 2:4], rows[:, 4:8].reshape(-1, 2, 2), rows[:, 8], rows[:, 10])


def learn_cliff_map(xy: Array, velocity: Array) -> CliffMap:
    """The map of observed positions ``(M, 2)`` and velocities ``(M, 2)``, m and m/s."""
    cell = np.floor(xy / _CELL_M).astype(np.int64)
    cells, which, counts = np.unique(cell, axis=0, return_inverse=True, return_counts=True)
    polar = np.stack([np.arctan2(velocity[:, 1], velocity[:, 0]), np.linalg.norm(velocity, axis=1)], axis=1)
    parts: list[tuple[Array, ...]] = []
    for c in np.flatnonzero(counts >= _FEWEST):
        mine = np.flatnonzero(which.reshape(-1) == c)
        mean, cov, weight = _fit_cell(polar[mine[:: max(1, len(mine) // _MOST)]])
        size = len(weight)
        centre = np.tile((cells[c] + 0.5) * _CELL_M, (size, 1))
        parts.append((centre, mean, cov, weight, np.full(size, counts[c] / counts.max())))
    if not parts:
        raise DataError(f"expected cells with {_FEWEST} observations or more, got none")
    return CliffMap(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _fit_cell(polar: Array) -> tuple[Array, Array, Array]:
    """Means ``(J, 2)``, covariances and weights of a semi-wrapped Gaussian mixture of directions and speeds."""
    mean = _modes(polar)
    cov = np.tile(np.diag([_TURN_RAD**2, max(float(polar[:, 1].var()), _LEAST_MPS**2)]), (len(mean), 1, 1))
    weight = np.full(len(mean), 1.0 / len(mean))
    turns = _TWO_PI * np.array([-1.0, 0.0, 1.0])
    unwound = np.stack([polar + np.array([turn, 0.0]) for turn in turns], axis=1)  # (M, 3, 2)
    for _ in range(_EM_STEPS):
        off = unwound[:, None] - mean[:, None]  # (M, J, 3, 2)
        squared = np.einsum("mjwa,jab,mjwb->mjw", off, np.linalg.inv(cov), off)
        log_p = np.log(weight)[:, None] - 0.5 * np.log(np.linalg.det(cov))[:, None] - 0.5 * squared
        share = np.exp(log_p - log_p.max(axis=(1, 2), keepdims=True))
        share /= share.sum(axis=(1, 2), keepdims=True)
        total = share.sum(axis=(0, 2)) + 1e-9
        mean = np.einsum("mjw,mwa->ja", share, unwound) / total[:, None]
        off = unwound[:, None] - mean[:, None]
        cov = np.einsum("mjw,mjwa,mjwb->jab", share, off, off) / total[:, None, None]
        cov += np.diag([_LEAST_RAD**2, _LEAST_MPS**2])
        mean[:, 0] = _wrapped(mean[:, 0])
        weight = total / total.sum()
        keep = weight >= min(_LEAST_SHARE, float(weight.max()))
        mean, cov, weight = mean[keep], cov[keep], weight[keep] / weight[keep].sum()
    return mean, cov, weight


def _modes(polar: Array) -> Array:
    """Modes ``(J, 2)`` of direction and speed, by mean shift."""
    speed_mps = max(float(polar[:, 1].std()) * len(polar) ** (-1.0 / 6.0), _LEAST_MPS)
    at = polar.copy()
    for _ in range(_SHIFTS):
        turn = _wrapped(polar[None, :, 0] - at[:, None, 0])
        weight = np.exp(-0.5 * (turn / _TURN_RAD) ** 2 - 0.5 * ((polar[None, :, 1] - at[:, None, 1]) / speed_mps) ** 2)
        weight /= weight.sum(1, keepdims=True)
        at = np.stack([_wrapped(at[:, 0] + (weight * turn).sum(1)), weight @ polar[:, 1]], axis=1)
    modes: list[Array] = []
    for one in at:
        if all(abs(_wrapped(one[0] - m[0])) > _SAME_RAD or abs(one[1] - m[1]) > _SAME_MPS for m in modes):
            modes.append(one)
    return np.array(modes)


class _LookUp:
    """Rows of the most observed cell within reach of any position."""

    def __init__(self, cliff: CliffMap, reach_m: float) -> None:
        cells, first, count = np.unique(cliff.xy, axis=0, return_index=True, return_counts=True)
        self._first, self._count, self._cliff = first, count, cliff
        parts = zip(first, count, strict=True)  # cells come in the order of their rows
        self._cumulative = np.concatenate([np.cumsum(cliff.weight[a : a + n]) for a, n in parts])
        values, axes = np.linalg.eigh(cliff.cov)  # published maps have rounded, not quite positive covariances
        self._root = axes * np.sqrt(values.clip(min=0.0))[:, None]
        self._low = cells.min(0) - reach_m
        size = np.ceil((cells.max(0) + reach_m - self._low) / _LOOK_UP_M).astype(int) + 1
        grid = self._low + _LOOK_UP_M * np.stack(np.meshgrid(*(np.arange(n) for n in size), indexing="ij"), axis=-1)
        best, ratio = np.full(size, -1), np.full(size, -np.inf)
        for c, cell in enumerate(cells):
            near = ((grid - cell) ** 2).sum(-1) < reach_m**2
            better = near & (cliff.observed[first[c]] > ratio)
            best[better], ratio[better] = c, cliff.observed[first[c]]
        self._best = best

    def draw(self, xy: Array, rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
        """A direction and a speed ``(S, 2)`` for each position, and where there is a cell within reach."""
        index = np.rint((xy - self._low) / _LOOK_UP_M).astype(int)
        inside = ((index >= 0) & (index < self._best.shape)).all(1)
        index = np.where(inside[:, None], index, 0)
        cell = np.where(inside, self._best[index[:, 0], index[:, 1]], -1)
        known = cell >= 0
        cell = np.maximum(cell, 0)
        first, count = self._first[cell], self._count[cell]
        row, u = first.copy(), rng.random(len(xy))
        for j in range(int(count.max())):
            row += (
                (j < count - 1)
                & (row == first + j)
                & (u > self._cumulative[np.minimum(first + j, len(self._root) - 1)])
            )
        normal = rng.standard_normal((len(xy), 2))
        return self._cliff.mean[row] + np.einsum("sab,sb->sa", self._root[row], normal), known


@dataclass(slots=True)
class CliffForecaster:
    """Forecasts by a CLiFF-map that is learnt from the training walks."""

    ticks: int
    past: int = 1
    name: str = "CLiFF-LHMP"
    beta: float = 1.0
    reach_m: float = 0.7
    _map: CliffMap | None = None
    _look_up: _LookUp | None = None

    def fit(self, walks: WalkWindows) -> None:
        """Choose ``beta`` and the reach on the latest third of the tracks, then learn the map of all."""
        if len(set(walks.walk_ids)) >= 6:
            self._tune(walks)
        self.use(_map_of(walks))

    def use(self, cliff: CliffMap) -> None:
        """Forecast by this map."""
        self._map, self._look_up = cliff, _LookUp(cliff, self.reach_m)

    def _tune(self, walks: WalkWindows) -> None:
        split = split_by_time(walks, 1.0 / 3.0)
        asked = _questions(split.held_out, self.past, self.ticks)
        if asked is None:
            return
        cliff, found = _map_of(split.train), []
        for self.reach_m in (0.5, 0.7, 1.0):
            self.use(cliff)
            for self.beta in (0.25, 0.5, 1.0, 2.0, 5.0):
                each = zip(asked.questions, asked.truth, strict=True)
                loss = float(np.mean([energy_score(self.sample(q)[:, 1:], t[1:]) for q, t in each]))
                found.append((loss, self.reach_m, self.beta))
        _, self.reach_m, self.beta = min(found)

    def sample(self, question: Question) -> Array:
        """Paths ``(S, ticks + 1, 2)``."""
        if self._look_up is None:
            raise DataError("expected fit before sample")
        rng = np.random.default_rng(question.seed)
        xy = np.tile(question.seen[-1], (question.samples, 1))
        direction, step_m = self._begin(question, xy, rng)
        paths = np.empty((question.samples, question.ticks + 1, 2))
        paths[:, 0] = xy
        for k in range(1, question.ticks + 1):
            drawn, known = self._look_up.draw(paths[:, k - 1], rng)
            turn = _wrapped(drawn[:, 0] - direction)
            share = np.where(known, np.exp(-self.beta * turn**2), 0.0)
            mixed_y = share * np.sin(drawn[:, 0]) + (1.0 - share) * np.sin(direction)
            mixed_x = share * np.cos(drawn[:, 0]) + (1.0 - share) * np.cos(direction)
            direction = np.arctan2(mixed_y, mixed_x)
            paths[:, k] = paths[:, k - 1] + step_m[:, None] * np.stack([np.cos(direction), np.sin(direction)], axis=1)
        return paths

    def _begin(self, question: Question, xy: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Directions and step lengths ``(S,)``: of the last velocities, or from the map where a walk has just begun."""
        if len(question.seen) < 2:
            if self._look_up is None:
                raise DataError("expected fit before sample")
            drawn, known = self._look_up.draw(xy, rng)
            any_way = rng.uniform(-np.pi, np.pi, len(xy))
            return np.where(known, drawn[:, 0], any_way), np.maximum(drawn[:, 1], 0.0) * question.dt_s
        moves = np.diff(question.seen[-9:], axis=0)
        weight = np.exp(-0.5 * (np.arange(len(moves), 0, -1) / _SMOOTH_STEPS) ** 2)
        weight /= weight.sum()
        angles = np.arctan2(moves[:, 1], moves[:, 0])
        direction = np.arctan2(weight @ np.sin(angles), weight @ np.cos(angles))
        step_m = weight @ np.linalg.norm(moves, axis=1)
        return np.full(len(xy), direction), np.full(len(xy), step_m)


def _questions(walks: WalkWindows, past: int, ticks: int) -> QuestionSet | None:
    if past < 2:
        return ask_along(walks, 0.3, ticks, 200).at_most(40)
    pieces = fixed_length(walks, past + ticks, 5)
    return ask_from_within(pieces, past, 200).at_most(40) if len(pieces) else None


def _map_of(walks: WalkWindows) -> CliffMap:
    step = np.diff(walks.xy, axis=1)
    use = walks.valid[:, 1:] & (np.linalg.norm(step, axis=-1) > 1e-6)
    return learn_cliff_map(walks.xy[:, 1:][use], step[use] / walks.dt_s)
