"""Score grids at several resolutions for correlative search.

A cell has a high score at a wall, zero in free space and a value between in unknown space, so that a pose is not
preferred only because it puts points into unknown space. Coarser levels hold maxima over blocks of 2, 4, 8 … cells.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.types import OCCUPIED_FROM, OccupancyGrid

__all__ = [
    "BESIDE_WALL",
    "WALL",
    "Pyramid",
    "blank",
    "draw_free",
    "draw_walls",
    "pyramid_from_grid",
    "pyramid_from_level",
]

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]

WALL, BESIDE_WALL = 255, 138  # scores of a cell with a wall in it, and of the least of its neighbours
_STAMP = np.array([[138, 180, 138], [180, 255, 180], [138, 180, 138]], dtype=np.uint8)  # scores around a wall point


@dataclass(frozen=True, slots=True)
class Pyramid:
    """Scores of a target at several resolutions; ``levels[h, r, c]`` is the best of a block of 2^h cells."""

    levels: Bytes  # (L, H, W)
    resolution_m: float
    origin: Array  # (2,), lower left corner of cell (0, 0), in the target's frame
    unknown: int = 0  # score of what was never seen, and of all that lies outside


def blank(low: Array, high: Array, resolution_m: float, depth: int, unknown: int = 0) -> Pyramid:
    """A pyramid of ``depth`` levels over a box, all unknown: to be filled with draw_free and draw_walls."""
    # One block of margin of the top level below and left of the box, so that its maxima stay upper bounds.
    origin = low - (1 << (depth - 1)) * resolution_m
    width, height = (np.ceil((high - origin) / resolution_m).astype(int) + 1).tolist()
    return Pyramid(np.full((depth, height, width), unknown, dtype=np.uint8), resolution_m, origin, unknown)


def draw_free(pyramid: Pyramid, points: Array) -> None:
    """Mark the cells of points ``(N, 2)`` as free in level 0; walls are drawn over them afterwards."""
    _clear_points(pyramid.levels[0], points, pyramid.origin, pyramid.resolution_m)


def draw_walls(pyramid: Pyramid, points: Array) -> None:
    """Draw wall points ``(N, 2)`` into level 0 and fill the levels above: the last step in making a pyramid."""
    _stamp_points(pyramid.levels[0], points, pyramid.origin, pyramid.resolution_m, _STAMP)
    _pool(pyramid.levels, pyramid.unknown)


def pyramid_from_level(finest: Pyramid, depth: int) -> Pyramid:
    """A pyramid of ``depth`` levels from one that has only the finest, drawn with room for that many."""
    levels = np.empty((depth, *finest.levels.shape[1:]), dtype=np.uint8)
    levels[0] = finest.levels[0]
    _pool(levels, finest.unknown)
    return Pyramid(levels, finest.resolution_m, finest.origin, finest.unknown)


def pyramid_from_grid(grid: OccupancyGrid, depth: int, unknown: int = 0) -> Pyramid:
    """A pyramid in the *map's* frame from an occupancy grid: walls, free space and unknown cells."""
    height, width = grid.prob.shape
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]]) * grid.resolution_m
    box, margin_m = grid.T_map_grid.apply(corners), 2.0 * grid.resolution_m
    pyramid = blank(box.min(axis=0) - margin_m, box.max(axis=0) + margin_m, grid.resolution_m, depth, unknown)
    with np.errstate(invalid="ignore"):
        free, walls = grid.centres_of(grid.prob < OCCUPIED_FROM), grid.centres_of(grid.prob >= OCCUPIED_FROM)
    draw_free(pyramid, free)
    draw_walls(pyramid, walls)
    return pyramid


@kernel
def _stamp_points(grid: Bytes, points: Array, origin: Array, resolution_m: float, stamp: Bytes) -> None:
    """Write the stamp around the cell of every point, keeping maxima; points outside are skipped."""
    height, width = grid.shape
    b = stamp.shape[0] // 2
    for i in range(len(points)):
        c = int(np.floor((points[i, 0] - origin[0]) / resolution_m))
        r = int(np.floor((points[i, 1] - origin[1]) / resolution_m))
        if c < b or r < b or c >= width - b or r >= height - b:
            continue
        if grid[r, c] == stamp[b, b]:  # already the highest score
            continue
        for dr in range(-b, b + 1):
            for dc in range(-b, b + 1):
                value = stamp[dr + b, dc + b]
                if value > grid[r + dr, c + dc]:
                    grid[r + dr, c + dc] = value


@kernel
def _clear_points(grid: Bytes, points: Array, origin: Array, resolution_m: float) -> None:
    """Mark the cell of every point as free."""
    height, width = grid.shape
    for i in range(len(points)):
        c = int(np.floor((points[i, 0] - origin[0]) / resolution_m))
        r = int(np.floor((points[i, 1] - origin[1]) / resolution_m))
        if 0 <= c < width and 0 <= r < height:
            grid[r, c] = 0


@kernel
def _pool(levels: Bytes, unknown: int) -> None:
    """Fill levels 1 and up: each is the maximum of four blocks of the one below."""
    depth, height, width = levels.shape
    edge = np.uint8(unknown)
    for h in range(1, depth):
        s = 1 << (h - 1)
        below, here = levels[h - 1], levels[h]
        for r in range(height):
            # Beyond the upper edge all is unknown, as is the last row (margin).
            lower, upper, row = below[r], below[min(r + s, height - 1)], here[r]
            for c in range(width - s):
                row[c] = max(max(lower[c], lower[c + s]), max(upper[c], upper[c + s]))
            for c in range(max(0, width - s), width):
                row[c] = max(max(lower[c], upper[c]), edge)
