"""Routes from place to place, and random paths around them.

A middle line is the cheapest path over a grid on which floor near obstacles costs more. Several variants with random
costs differ in how they cut corners and pass furniture; they depend on the house alone, not on a seed, so all walks of
a house come from one population. A path lies between two variants, with its own end points and smooth lateral
deviations. A path too near to an obstacle is drawn again with smaller deviations.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from svfm_ros.errors import DataError
from svfm_ros.sim.house import ClearanceGrid, House, clearance_grid
from svfm_ros.types import Place

__all__ = ["NODES", "STOP_SPREAD", "VARIANTS", "RouteBook", "draw_paths", "draw_stops", "resample"]

Array = NDArray[np.float64]

NODES = 161
"""Points on a middle line."""

VARIANTS = 8
"""Middle lines per pair of places, at most."""

STOP_SPREAD = 0.3
"""Standard deviation of where people stop, as a share of the place's radius."""

_MODES = 6  # waves of the lateral deviation; the longest is twice the route
_BLEND_M = 1.6  # a path joins the bundle, and leaves it, over this length
_ROOM_M = 0.4  # free floor beside the line that allows the full deviation
_STOP_REACH = 0.6  # people stop well within a place, at most this share of its radius from the middle
_ROUNDS = 24
_COMFORT_M = 0.6  # floor farther than this from everything costs nothing extra
_SMOOTHING_M = 0.35
_NEAREST_M = 0.1  # a place may be this far from floor with room for a body
_NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))


class RouteBook:
    """Middle lines between the places of one house, searched on first use."""

    def __init__(self, house: House, clearance_m: float) -> None:
        """No line comes nearer to anything than ``clearance_m``."""
        self.house = house
        self.clearance_m = clearance_m
        self.grid: ClearanceGrid = clearance_grid(house)
        self._nodes = self.grid.nodes()
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

    def _variant(self, seed: int) -> csr_array:
        """A graph over the free floor with random costs."""
        rng = np.random.default_rng(seed)
        weight = float(np.exp(rng.uniform(np.log(1.0), np.log(8.0))))
        distance = self.grid.distance_m
        rough = gaussian_filter(rng.standard_normal(distance.shape), 8.0)
        narrow = np.clip(1.0 - (distance - self.clearance_m) / (_COMFORT_M - self.clearance_m), 0.0, None)
        cost = (1.0 + weight * narrow**2) * np.exp(0.15 * rough / rough.std())
        return _grid_graph(cost, distance >= self.clearance_m)

    def _trace(self, variant: csr_array, start: Array, goals: list[Array]) -> list[Array | None]:
        """The cheapest line to each goal; None where there is no way."""
        first = self._cell(start)
        _, table = dijkstra(variant, directed=False, indices=np.array([first]), return_predecessors=True)
        previous = np.asarray(table)[0]
        return [self._line(previous, first, start, goal) for goal in goals]

    def _line(self, previous: NDArray[np.int64], first: int, start: Array, goal: Array) -> Array | None:
        cells = [self._cell(goal)]
        while cells[-1] != first:
            if previous[cells[-1]] < 0:
                return None
            cells.append(int(previous[cells[-1]]))
        nodes = self._nodes.reshape(-1, 2)[cells[::-1]]
        return self._smooth(resample(np.concatenate([start[None], nodes[1:-1], goal[None]]), NODES))

    def _cell(self, xy: Array) -> int:
        """The nearest cell with room for a body, within ``_NEAREST_M``."""
        grid, reach = self.grid, int(np.ceil(_NEAREST_M / self.grid.resolution_m)) + 1
        column, row = np.rint((xy - [grid.x0, grid.y0]) / grid.resolution_m).astype(np.int64).tolist()
        rows = slice(max(row - reach, 0), max(row + reach + 1, 0))
        columns = slice(max(column - reach, 0), max(column + reach + 1, 0))
        far = np.hypot(*(self._nodes[rows, columns] - xy).transpose(2, 0, 1))
        far[grid.distance_m[rows, columns] < self.clearance_m] = np.inf
        if far.min(initial=np.inf) > _NEAREST_M:
            raise DataError(
                f"{self.house.name}: expected room for a body at ({xy[0]:.2f}, {xy[1]:.2f}), "
                f"got none within {_NEAREST_M} m"
            )
        i, j = np.unravel_index(int(far.argmin()), far.shape)
        return int((rows.start + i) * grid.distance_m.shape[1] + columns.start + j)

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


def draw_stops(
    book: RouteBook, place: Place, count: int, rng: np.random.Generator, spread: float = STOP_SPREAD
) -> Array:
    """End points of ``count`` walks at a place ``(count, 2)``, clear of obstacles.

    ``spread`` is the standard deviation as a share of the place's radius.
    """
    stops = np.tile(place.xy, (count, 1))
    open_ = np.arange(count)
    for _ in range(_ROUNDS):
        offset = rng.normal(scale=spread * place.radius_m, size=(len(open_), 2))
        ok = np.hypot(*offset.T) <= _STOP_REACH * place.radius_m
        ok &= book.grid.at(place.xy + offset) >= book.clearance_m
        stops[open_[ok]] = place.xy + offset[ok]
        open_ = open_[~ok]
        if len(open_) == 0:
            break
    return stops


def draw_paths(
    book: RouteBook,
    origin: str,
    destination: str,
    starts: Array,
    stops: Array,
    spread_m: float,
    rng: np.random.Generator,
    side_m: float = 0.0,
    route_weights: Sequence[float] = (),
) -> Array:
    """Paths ``(B, NODES, 2)`` from ``starts`` to ``stops`` (both ``(B, 2)``), all of them clear of obstacles.

    ``side_m`` shifts them to the left where there is room; ``route_weights`` are the shares of the variants of a way,
    all alike without them.
    """
    lines = book.lines(origin, destination)
    paths = np.empty((len(starts), NODES, 2))
    open_ = np.arange(len(starts))
    for round_ in range(_ROUNDS):
        scale = min(1.0, 1.5 * (1.0 - round_ / _ROUNDS))
        pick = _pick_lines(len(lines), len(open_), route_weights, rng)
        drawn = _draw(book, lines, pick, starts[open_], stops[open_], scale * spread_m, scale * side_m, rng)
        ok = book.grid.at(drawn).min(axis=1) >= book.clearance_m
        paths[open_[ok]] = drawn[ok]
        open_ = open_[~ok]
        if len(open_) == 0:
            return paths
    for i in open_:  # an end point in a narrow corner: search a route for this path alone
        paths[i] = book.line_between(starts[i], stops[i])
    return paths


def _pick_lines(variants: int, count: int, weights: Sequence[float], rng: np.random.Generator) -> NDArray[np.int64]:
    """Two middle lines for each path ``(2, count)``; the path lies between them."""
    if not weights:
        return rng.integers(variants, size=(2, count))
    shares = np.asarray(weights[:variants]) + 1e-9
    return rng.choice(variants, size=(2, count), p=shares / shares.sum())


def _draw(
    book: RouteBook,
    lines: Array,
    pick: NDArray[np.int64],
    starts: Array,
    stops: Array,
    spread_m: float,
    side_m: float,
    rng: np.random.Generator,
) -> Array:
    count = len(starts)
    blend = rng.uniform(size=(count, 1, 1))
    path: Array = lines[pick[0]] * (1.0 - blend) + lines[pick[1]] * blend  # (B, NODES, 2)
    path = path + _sideways(book, path, spread_m, side_m, rng)
    u = np.linspace(0.0, 1.0, NODES)
    length = np.hypot(*np.diff(path, axis=1).transpose(2, 0, 1)).sum(axis=1)  # (B,)
    reach = np.clip(_BLEND_M / length, 0.1, 0.5)[:, None]
    at_start, at_stop = _fade(u / reach), _fade((1.0 - u) / reach)  # (B, NODES)
    path += at_start[..., None] * (starts - path[:, 0])[:, None]
    path += at_stop[..., None] * (stops - path[:, -1])[:, None]
    return path


def _sideways(book: RouteBook, path: Array, spread_m: float, side_m: float, rng: np.random.Generator) -> Array:
    """Smooth lateral displacements ``(B, NODES, 2)``, smaller where the route is narrow."""
    tangent = np.gradient(path, axis=1)
    tangent = gaussian_filter1d(tangent, 4.0, axis=1, mode="nearest")
    tangent /= np.maximum(np.linalg.norm(tangent, axis=2, keepdims=True), 1e-9)
    normal = np.stack([-tangent[..., 1], tangent[..., 0]], axis=-1)
    waves = np.arange(1, _MODES + 1)
    basis = np.sin(np.pi * waves[:, None] * np.linspace(0.0, 1.0, NODES))  # (modes, NODES)
    size = 1.0 / waves
    size *= spread_m / np.sqrt(0.5 * np.sum(size**2))
    offset = (rng.standard_normal((len(path), _MODES)) * size) @ basis + side_m  # (B, NODES)
    room = np.clip((book.grid.at(path) - book.clearance_m) / _ROOM_M, 0.1, 1.0)
    room = gaussian_filter1d(room, 8.0, axis=1, mode="nearest")
    return np.asarray((offset * room)[..., None] * normal)


def _fade(u: Array) -> Array:
    """From one to zero over the unit interval, smoothly."""
    v = np.clip(u, 0.0, 1.0)
    return np.asarray(1.0 - v * v * (3.0 - 2.0 * v))
