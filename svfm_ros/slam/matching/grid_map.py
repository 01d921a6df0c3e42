"""An occupancy grid as a target of scan matching: wall points with normals.

The position of a wall inside its cell is taken from a line fit through the wall cells around it. A wall that is free on
both sides has two surfaces.
"""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.slam.matching.local_map import WHOLE_DEPTH, LocalMap, local_map_of
from svfm_ros.slam.matching.pyramid import draw_free, draw_walls
from svfm_ros.types import OccupancyGrid

__all__ = ["local_map_from_grid"]

Array = NDArray[np.float64]

_OCCUPIED, _FREE = 0.65, 0.4
_LINE_M = 0.2  # wall cells within this radius are fitted by a line
_SKIN_CELLS = 2  # cells deeper inside a wall are left out: no scan sees them
_FLATNESS = 0.4  # least over greatest spread of these cells; above it the cells form no line
_WEIGHT = 3.0  # of each point: that of three scans from close by


def local_map_from_grid(grid: OccupancyGrid) -> LocalMap:
    """The whole grid as a local map, in the *map's* frame."""
    prob = np.ascontiguousarray(grid.prob, dtype=np.float64)
    known = np.isfinite(prob)
    walls, free = known & (prob >= _OCCUPIED), known & (prob < _FREE)
    surfaces = _surfaces(walls, free, max(2, round(_LINE_M / grid.resolution_m))) if walls.any() else np.empty((0, 4))
    if not len(surfaces) or not free.any():
        raise DataError("expected a map with walls and free space, got one without")
    points = np.empty((len(surfaces), 5))
    points[:, :2] = grid.T_map_grid.apply(surfaces[:, :2] * grid.resolution_m)
    c, s = np.cos(grid.T_map_grid.theta), np.sin(grid.T_map_grid.theta)
    points[:, 2:4] = surfaces[:, 2:4] @ np.array([[c, s], [-s, c]])
    points[:, 4] = _WEIGHT
    target = local_map_of(points, np.zeros(2), WHOLE_DEPTH)
    draw_free(target.pyramid, grid.centres_of(free))
    draw_walls(target.pyramid, grid.centres_of(walls))
    return target


@kernel
def _any_within(cells: NDArray[np.bool_], row: int, column: int, reach: int) -> bool:
    height, width = cells.shape
    for r in range(max(0, row - reach), min(height, row + reach + 1)):
        for c in range(max(0, column - reach), min(width, column + reach + 1)):
            if cells[r, c]:
                return True
    return False


@kernel
def _is_free(free: NDArray[np.bool_], x: float, y: float, dx: float, dy: float, most: int) -> bool:
    """Whether there is free space within ``most`` cells in a direction."""
    height, width = free.shape
    for step in range(1, most + 1):
        i, j = int(np.floor(x + step * dx)), int(np.floor(y + step * dy))
        if 0 <= i < width and 0 <= j < height and free[j, i]:
            return True
    return False


@kernel
def _surfaces(walls: NDArray[np.bool_], free: NDArray[np.bool_], reach: int) -> Array:
    """Points on walls ``(M, 4)``: x and y in cells, and the normal towards free space."""
    height, width = walls.shape
    skin = np.zeros((height, width), dtype=np.bool_)
    count = 0
    for r in range(height):
        for c in range(width):
            if walls[r, c] and _any_within(free, r, c, _SKIN_CELLS):
                skin[r, c] = True
                count += 1
    out, m = np.empty((2 * count, 4)), 0
    for r in range(height):
        for c in range(width):
            if not skin[r, c]:
                continue
            k, sx, sy, sxx, sxy, syy = 0, 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(max(0, r - reach), min(height, r + reach + 1)):
                for i in range(max(0, c - reach), min(width, c + reach + 1)):
                    if skin[j, i] and (i - c) ** 2 + (j - r) ** 2 <= reach * reach:
                        k += 1
                        sx += i - c
                        sy += j - r
                        sxx += (i - c) ** 2
                        sxy += (i - c) * (j - r)
                        syy += (j - r) ** 2
            if k < 3:
                continue
            mx, my = sx / k, sy / k
            cxx, cxy, cyy = sxx / k - mx * mx, sxy / k - mx * my, syy / k - my * my
            half, root = 0.5 * (cxx + cyy), np.sqrt(0.25 * (cxx - cyy) ** 2 + cxy * cxy)
            if max(half - root, 0.0) > _FLATNESS**2 * (half + root):
                continue
            angle = 0.5 * np.arctan2(2.0 * cxy, cxx - cyy)
            nx, ny = -np.sin(angle), np.cos(angle)
            off = nx * mx + ny * my  # from the cell's centre to the line
            x, y = c + 0.5 + off * nx, r + 0.5 + off * ny
            for side in (-1.0, 1.0):
                if _is_free(free, x, y, side * nx, side * ny, _SKIN_CELLS + 1):
                    out[m, 0], out[m, 1], out[m, 2], out[m, 3] = x, y, side * nx, side * ny
                    m += 1
    return out[:m]
