"""Ways through a house: middle lines from place to place that keep a body's width from everything.

A way is the cheapest path over a grid, where floor close to things costs more. How much more, and where, is drawn at
random for each of several variants: some cut corners, some keep to the middle, some pass the table on its other side.
The variants belong to the house alone, not to a seed, so all simulated walks come from one population.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from svfm_ros.errors import DataError
from svfm_ros.sim.clearance import ClearanceGrid, clearance_grid
from svfm_ros.sim.house import House

__all__ = ["NODES", "VARIANTS", "RouteBook", "resample"]

Array = NDArray[np.float64]

NODES = 161
"""Points on a middle line."""

VARIANTS = 8
"""Middle lines per pair of places, at most."""

_COMFORT_M = 0.6  # floor farther than this from everything costs nothing extra
_SMOOTHING_M = 0.35
_NEAREST_M = 0.1  # a place may be this far from floor with room for a body
_NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))


@dataclass(frozen=True, slots=True)
class _Variant:
    graph: csr_array
    seed: int


class RouteBook:
    """Middle lines between the places of one house; each is searched once and kept."""

    def __init__(self, house: House, clearance_m: float) -> None:
        """No line comes nearer to anything than ``clearance_m``."""
        self.house = house
        self.clearance_m = clearance_m
        self.grid: ClearanceGrid = clearance_grid(house)
        self._variants = [self._variant(seed) for seed in range(VARIANTS)]
        self._lines: dict[tuple[str, str], Array] = {}

    def lines(self, origin: str, destination: str) -> Array:
        """Variants of the way ``(V, NODES, 2)``, evenly spaced points, both ends included."""
        if (origin, destination) not in self._lines:
            self._search_from(origin)
        return self._lines[origin, destination]

    def line_between(self, start: Array, goal: Array) -> Array:
        """One way ``(NODES, 2)`` between any two free points."""
        line = self._trace(self._variants[0], start, [goal])[0]
        if line is None:
            raise DataError(f"{self.house.name}: expected a way from {start.round(2)} to {goal.round(2)}, got none")
        return line

    def _search_from(self, origin: str) -> None:
        goals = [p for p in self.house.places if p.name != origin]
        start = self.house.place(origin).xy
        found = [self._trace(v, start, [g.xy for g in goals]) for v in self._variants]
        for i, goal in enumerate(goals):
            lines = [line for f in found if (line := f[i]) is not None]
            if not lines:
                raise DataError(
                    f"{self.house.name}: expected a way for a body from {origin!r} to {goal.name!r}, got none"
                )
            self._lines[origin, goal.name] = np.stack(lines)

    def _variant(self, seed: int) -> _Variant:
        """A graph over the free floor with random costs."""
        rng = np.random.default_rng(seed)
        weight = float(np.exp(rng.uniform(np.log(1.0), np.log(8.0))))
        distance = self.grid.distance_m
        rough = gaussian_filter(rng.standard_normal(distance.shape), 8.0)
        narrow = np.clip(1.0 - (distance - self.clearance_m) / (_COMFORT_M - self.clearance_m), 0.0, None)
        cost = (1.0 + weight * narrow**2) * np.exp(0.15 * rough / rough.std())
        return _Variant(_grid_graph(cost, distance >= self.clearance_m), seed)

    def _trace(self, variant: _Variant, start: Array, goals: list[Array]) -> list[Array | None]:
        """The cheapest line to each goal; None where there is no way."""
        first = self._cell(start)
        _, table = dijkstra(variant.graph, directed=False, indices=np.array([first]), return_predecessors=True)
        previous = np.asarray(table)[0]
        return [self._line(previous, first, start, goal) for goal in goals]

    def _line(self, previous: NDArray[np.int64], first: int, start: Array, goal: Array) -> Array | None:
        cells = [self._cell(goal)]
        while cells[-1] != first:
            if previous[cells[-1]] < 0:
                return None
            cells.append(int(previous[cells[-1]]))
        nodes = self.grid.nodes().reshape(-1, 2)[cells[::-1]]
        return self._smooth(resample(np.concatenate([start[None], nodes[1:-1], goal[None]]), NODES))

    def _cell(self, xy: Array) -> int:
        """The nearest cell with room for a body."""
        far = np.hypot(*(self.grid.nodes() - xy).transpose(2, 0, 1))
        far[self.grid.distance_m < self.clearance_m] = np.inf
        cell = int(far.argmin())
        if far.flat[cell] > _NEAREST_M:
            raise DataError(
                f"{self.house.name}: expected room for a body at ({xy[0]:.2f}, {xy[1]:.2f}), "
                f"got none within {_NEAREST_M} m"
            )
        return cell

    def _smooth(self, line: Array) -> Array:
        """Round the corners as far as the walls allow."""
        step_m = float(np.hypot(*np.diff(line, axis=0).T).mean())
        for share in (1.0, 0.7, 0.5, 0.35, 0.2, 0.1):
            smooth = _smooth_between(line, share * _SMOOTHING_M / max(step_m, 1e-6))
            if self.grid.at(smooth).min() >= self.clearance_m:
                return resample(smooth, NODES)
        return line


def _smooth_between(line: Array, width: float) -> Array:
    """Gaussian smoothing that leaves both ends where they are: the line is continued by point reflection."""
    before, after = 2.0 * line[0] - line[:0:-1], 2.0 * line[-1] - line[-2::-1]
    long = np.concatenate([before, line, after])
    return np.asarray(gaussian_filter1d(long, width, axis=0)[len(before) : len(before) + len(line)])


def resample(line: Array, count: int) -> Array:
    """Evenly spaced points ``(count, 2)`` along a polyline."""
    s = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    at = np.linspace(0.0, s[-1], count)
    return np.stack([np.interp(at, s, line[:, 0]), np.interp(at, s, line[:, 1])], axis=1)


def _grid_graph(cost: Array, free: NDArray[np.bool_]) -> csr_array:
    """Edges to the eight neighbours; each weighs its length times the mean cost of its ends."""
    height, width = cost.shape
    index = np.arange(height * width).reshape(height, width)
    heads, tails, weights = [], [], []
    for di, dj in _NEIGHBOURS:
        a = (slice(0, height - di), slice(max(0, -dj), width - max(0, dj)))
        b = (slice(di, height), slice(max(0, dj), width + min(0, dj)))
        both = free[a] & free[b]
        heads.append(index[a][both])
        tails.append(index[b][both])
        weights.append((0.5 * np.hypot(di, dj) * (cost[a] + cost[b]))[both])
    edges = (np.concatenate(weights), (np.concatenate(heads), np.concatenate(tails)))
    return csr_array(edges, shape=(height * width, height * width))
