"""Where does a set of points fit best onto another? An exhaustive search that skips what cannot win.

The target is drawn into a grid of scores; coarser levels hold the maximum over blocks of 2, 4, 8 … cells, so a level's
score bounds all poses of its block from above. Branch and bound (Hess et al. 2016) then finds the same best pose as
trying every cell and every angle would. Shared by scan matching, loop closure, localisation and the placing of walks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.datatypes import OccupancyGrid, Pose2

__all__ = ["Fit", "Pyramid", "Window", "pyramid_from_grid", "pyramid_from_points", "search"]

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]

_OCCUPIED = 0.65
_SPREAD = (255.0, 180.0, 64.0, 12.0)  # score of a cell by its distance, in cells, from one that holds a point


@dataclass(frozen=True, slots=True)
class Pyramid:
    """Scores of a target at several resolutions; ``levels[h, r, c]`` is the best of a block of 2^h cells."""

    levels: Bytes  # (L, H, W)
    resolution_m: float
    origin: Array  # (2,), lower left corner of cell (0, 0), in the target's frame


@dataclass(frozen=True, slots=True)
class Window:
    """What to search: around ``centre``, to ``reach_m`` in x and y and ``turn_rad`` to either side.

    Penalties make the search prefer the centre among equals: score lost per square metre and per square radian.
    """

    centre: Pose2
    reach_m: float
    turn_rad: float = np.pi
    penalty_per_m2: float = 0.0
    penalty_per_rad2: float = 0.0


@dataclass(frozen=True, slots=True)
class Fit:
    """The best pose found; ``score`` is the mean over the points, 1 when each lies in an occupied cell."""

    T_target_source: Pose2
    score: float
    visited: int  # how many candidate poses were scored


def pyramid_from_points(points: Array, resolution_m: float, depth: int, blur_cells: int = 1) -> Pyramid:
    """A pyramid around target points ``(N, 2)``; ``depth`` levels, the top one with blocks of 2^(depth-1) cells."""
    # Below and left of the points there is room for one block of the top level: it still bounds what it reaches into.
    low = (points.min(axis=0) if len(points) else np.zeros(2)) - (blur_cells + (1 << (depth - 1))) * resolution_m
    high = (points.max(axis=0) if len(points) else np.zeros(2)) + (blur_cells + 1) * resolution_m
    width, height = (np.ceil((high - low) / resolution_m).astype(int) + 1).tolist()
    levels = np.zeros((depth, height, width), dtype=np.uint8)
    draw_points(levels[0], points, low, resolution_m, _spread(blur_cells))
    pool(levels)
    return Pyramid(levels, resolution_m, low)


def pyramid_from_grid(grid: OccupancyGrid, depth: int, blur_cells: int = 1) -> Pyramid:
    """A pyramid in the *map's* frame, from the occupied cells of an occupancy grid."""
    with np.errstate(invalid="ignore"):
        rows, columns = np.nonzero(grid.prob >= _OCCUPIED)
    centres = (np.stack([columns, rows], axis=1) + 0.5) * grid.resolution_m
    return pyramid_from_points(grid.T_map_grid.apply(centres), grid.resolution_m, depth, blur_cells)


def search(pyramid: Pyramid, points: Array, window: Window, min_score: float = 0.0, most_points: int = 0) -> Fit | None:
    """The best pose of source ``points`` (N, 2) inside the window, or None when none scores above ``min_score``.

    ``most_points`` thins the source evenly; 0 takes all of it.
    """
    if most_points and len(points) > most_points:
        points = points[np.linspace(0, len(points) - 1, most_points).astype(np.int64)]
    if len(points) == 0:
        return None
    angles = _angles(points, pyramid.resolution_m, window.turn_rad)
    score, dx, dy, turn, visited = _branch_and_bound(
        pyramid.levels,
        pyramid.origin,
        pyramid.resolution_m,
        np.ascontiguousarray(points),
        window.centre.as_array(),
        angles,
        window.reach_m,
        window.penalty_per_m2,
        window.penalty_per_rad2,
        min_score,
    )
    if score <= min_score:
        return None
    centre = window.centre
    best = Pose2(centre.x + dx, centre.y + dy, float((centre.theta + turn + np.pi) % (2 * np.pi) - np.pi))
    return Fit(best, score, visited)


def _angles(points: Array, resolution_m: float, turn_rad: float) -> Array:
    """Turns to try: a step moves the far points (nine tenths lie nearer) by one cell."""
    nth = int(0.9 * (len(points) - 1))
    far_m = np.partition(np.hypot(points[:, 0], points[:, 1]), nth)[nth]
    step = float(np.clip(resolution_m / max(far_m, 1e-3), np.radians(0.25), np.radians(3.0)))
    count = int(np.ceil(turn_rad / step))
    return np.asarray(np.arange(-count, count + 1) * (turn_rad / max(count, 1)), dtype=np.float64)


def _spread(blur_cells: int) -> Bytes:
    """The stamp that a point leaves: ``(2 b + 1, 2 b + 1)`` scores."""
    offsets = np.arange(-blur_cells, blur_cells + 1)
    distance = np.hypot(offsets[:, None], offsets[None, :])
    return np.interp(distance, np.arange(len(_SPREAD)), _SPREAD, right=0.0).astype(np.uint8)


@kernel
def draw_points(grid: Bytes, points: Array, origin: Array, resolution_m: float, stamp: Bytes) -> None:
    """Lay the stamp on the cell of every point, keeping maxima; points outside are skipped."""
    height, width = grid.shape
    b = stamp.shape[0] // 2
    for i in range(len(points)):
        c = int(np.floor((points[i, 0] - origin[0]) / resolution_m))
        r = int(np.floor((points[i, 1] - origin[1]) / resolution_m))
        if c < b or r < b or c >= width - b or r >= height - b:
            continue
        for dr in range(-b, b + 1):
            for dc in range(-b, b + 1):
                value = stamp[dr + b, dc + b]
                if value > grid[r + dr, c + dc]:
                    grid[r + dr, c + dc] = value


@kernel
def pool(levels: Bytes) -> None:
    """Fill levels 1 and up: each is the maximum of four blocks of the one below."""
    depth, height, width = levels.shape
    for h in range(1, depth):
        s = 1 << (h - 1)
        below, here = levels[h - 1], levels[h]
        for r in range(height):
            lower, upper = below[r], below[min(r + s, height - 1)]
            row = here[r]
            for c in range(width - s):
                row[c] = max(max(lower[c], lower[c + s]), max(upper[c], upper[c + s]))
            for c in range(max(0, width - s), width):
                row[c] = max(lower[c], upper[c])


@kernel
def _cells(points: Array, centre: Array, angles: Array, origin: Array, resolution_m: float) -> Ints:
    """Column and row of every point for every angle, at the window's centre: ``(A, N, 2)``."""
    cells = np.empty((len(angles), len(points), 2), dtype=np.int32)
    for a in range(len(angles)):
        c, s = np.cos(centre[2] + angles[a]), np.sin(centre[2] + angles[a])
        for i in range(len(points)):
            x = centre[0] + c * points[i, 0] - s * points[i, 1]
            y = centre[1] + s * points[i, 0] + c * points[i, 1]
            cells[a, i, 0] = int(np.floor((x - origin[0]) / resolution_m))
            cells[a, i, 1] = int(np.floor((y - origin[1]) / resolution_m))
    return cells


@kernel
def _mean_score(level: Bytes, cells: Ints, ox: int, oy: int) -> float:
    height, width = level.shape
    total = 0
    for i in range(len(cells)):
        c, r = cells[i, 0] + ox, cells[i, 1] + oy
        if 0 <= c < width and 0 <= r < height:
            total += level[r, c]
    return total / (255.0 * len(cells))


@kernel
def _least_penalty(o: int, size: int, resolution_m: float, per_m2: float) -> float:
    """Of the offsets o … o + size - 1, the one nearest to zero costs least."""
    near = 0 if o <= 0 < o + size else min(abs(o), abs(o + size - 1))
    return per_m2 * (near * resolution_m) ** 2


@kernel
def _bound(
    level: Bytes, cells: Ints, ox: int, oy: int, size: int, resolution_m: float, per_m2: float, turn_cost: float
) -> float:
    cost = _least_penalty(ox, size, resolution_m, per_m2) + _least_penalty(oy, size, resolution_m, per_m2)
    return _mean_score(level, cells, ox, oy) - cost - turn_cost


@kernel
def _branch_and_bound(
    levels: Bytes,
    origin: Array,
    resolution_m: float,
    points: Array,
    centre: Array,
    angles: Array,
    reach_m: float,
    per_m2: float,
    per_rad2: float,
    min_score: float,
) -> tuple[float, float, float, float, int]:
    """Best score, its offset in metres, its turn, and how many candidates were scored."""
    cells = _cells(points, centre, angles, origin, resolution_m)
    top = levels.shape[0] - 1
    half = int(np.ceil(reach_m / resolution_m))
    size = 1 << top
    side = (2 * half) // size + 1
    # Every block of the top level, at every angle.
    bounds = np.empty(len(angles) * side * side)
    k = 0
    for a in range(len(angles)):
        turn_cost = per_rad2 * angles[a] ** 2
        for j in range(side):
            for i in range(side):
                ox, oy = i * size - half, j * size - half
                bounds[k] = _bound(levels[top], cells[a], ox, oy, size, resolution_m, per_m2, turn_cost)
                k += 1
    visited = k
    hopeful = np.nonzero(bounds > min_score)[0]
    order = hopeful[np.argsort(-bounds[hopeful])]
    best, best_x, best_y, best_a = min_score, 0, 0, -1
    # Depth first; a node is angle, x, y, level. Four children a level is all that can wait.
    nodes, node_bounds = np.empty((4 * (top + 1) + 4, 4), dtype=np.int64), np.empty(4 * (top + 1) + 4)
    for k in order:
        if bounds[k] <= best:
            break
        a, rest = k // (side * side), k % (side * side)
        nodes[0] = (a, (rest % side) * size - half, (rest // side) * size - half, top)
        node_bounds[0] = bounds[k]
        waiting = 1
        while waiting > 0:
            waiting -= 1
            if node_bounds[waiting] <= best:
                continue
            a, x, y, h = nodes[waiting]
            if h == 0:
                best, best_x, best_y, best_a = node_bounds[waiting], x, y, a
                continue
            s = 1 << (h - 1)
            first = waiting
            for child in range(4):
                ox, oy = x + s * (child % 2), y + s * (child // 2)
                if ox > half or oy > half:
                    continue
                visited += 1
                turn_cost = per_rad2 * angles[a] ** 2
                bound = _bound(levels[h - 1], cells[a], ox, oy, s, resolution_m, per_m2, turn_cost)
                if bound <= best:
                    continue
                at = waiting  # keep the children sorted: the best is taken first
                while at > first and node_bounds[at - 1] > bound:
                    node_bounds[at] = node_bounds[at - 1]
                    nodes[at] = nodes[at - 1]
                    at -= 1
                node_bounds[at] = bound
                nodes[at] = (a, ox, oy, h - 1)
                waiting += 1
    turn = angles[best_a] if best_a >= 0 else 0.0
    return best, best_x * resolution_m, best_y * resolution_m, turn, visited
