"""The floor of a house as grids: the map that a LiDAR would draw of it, and the clearance for walkers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import binary_dilation, label

from svfm_ros.errors import DataError
from svfm_ros.sim.house import House, contains, distance_to_segments
from svfm_ros.types import OccupancyGrid, Pose2

__all__ = ["ClearanceGrid", "clearance_grid", "floor_plan"]

Array = NDArray[np.float64]

RESOLUTION_M = 0.05

_BORDER_M = 0.25
_ALL_AROUND = np.ones((3, 3), dtype=bool)


def floor_plan(house: House, height_m: float, resolution_m: float = 0.05) -> OccupancyGrid:
    """Surfaces are occupied, what can be reached from the places is free, all else (inside walls, outside) unknown."""
    x0, y0, x1, y1 = house.bounds()
    left = round((x0 - _BORDER_M) / resolution_m) * resolution_m
    low = round((y0 - _BORDER_M) / resolution_m) * resolution_m
    width = int(np.ceil((x1 + _BORDER_M - left) / resolution_m))
    height = int(np.ceil((y1 + _BORDER_M - low) / resolution_m))
    solid = _solid_cells(house, height_m, (height, width), left, low, resolution_m)
    regions, _ = label(~solid)
    starts = [_cell(p.x, p.y, left, low, resolution_m) for p in house.places]
    free = np.isin(regions, [regions[s] for s in starts if regions[s] > 0])
    if not free.any() or free[0].any():
        raise DataError(f"{house.name}: expected walls all around the places, got a gap that leads outside")
    prob = np.full(solid.shape, np.nan, dtype=np.float32)
    prob[free] = 0.0
    prob[solid & binary_dilation(free, _ALL_AROUND)] = 1.0
    return OccupancyGrid(prob, resolution_m, Pose2(round(left, 6), round(low, 6), 0.0))


def _solid_cells(
    house: House, height_m: float, shape: tuple[int, int], left: float, low: float, resolution_m: float
) -> NDArray[np.bool_]:
    """Cells whose middle lies within something, or through which a surface passes."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    middles = np.stack([left + (columns + 0.5) * resolution_m, low + (rows + 0.5) * resolution_m], axis=-1)
    solid = np.zeros(shape, dtype=bool)
    for thing in house.at_height(height_m):
        solid |= contains(thing.outline, middles.reshape(-1, 2)).reshape(shape)
        for x0, y0, x1, y1 in thing.segments():
            steps = int(np.hypot(x1 - x0, y1 - y0) / resolution_m * 8) + 2
            x, y = np.linspace(x0, x1, steps), np.linspace(y0, y1, steps)
            solid[_cell(x, y, left, low, resolution_m)] = True
    return solid


def _cell(x: ArrayLike, y: ArrayLike, left: float, low: float, resolution_m: float) -> tuple[Any, Any]:
    """Row and column of points; a hair's breadth is added, so that walls on grid lines do not hang on rounding."""
    row = np.floor((np.asarray(y) - low) / resolution_m + 1e-6).astype(np.int64)
    return row, np.floor((np.asarray(x) - left) / resolution_m + 1e-6).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ClearanceGrid:
    """Distances at the nodes of a square grid; zero within things and outside the house."""

    distance_m: Array  # (H, W), row 0 at the lowest y
    x0: float
    y0: float
    resolution_m: float

    def at(self, xy: Array) -> Array:
        """Clearance at points ``(..., 2)``, interpolated between the nodes; zero outside the grid."""
        height, width = self.distance_m.shape
        u = np.clip((xy[..., 0] - self.x0) / self.resolution_m, 0.0, width - 1.001)
        v = np.clip((xy[..., 1] - self.y0) / self.resolution_m, 0.0, height - 1.001)
        i, j = v.astype(np.int64), u.astype(np.int64)
        a, b = v - i, u - j
        d = self.distance_m
        low = d[i, j] * (1.0 - b) + d[i, j + 1] * b
        high = d[i + 1, j] * (1.0 - b) + d[i + 1, j + 1] * b
        return np.asarray(low * (1.0 - a) + high * a)

    def nodes(self) -> Array:
        """Coordinates of the nodes ``(H, W, 2)``."""
        height, width = self.distance_m.shape
        x = self.x0 + self.resolution_m * np.arange(width)
        y = self.y0 + self.resolution_m * np.arange(height)
        return np.stack(np.meshgrid(x, y), axis=-1)


def clearance_grid(house: House, resolution_m: float = RESOLUTION_M) -> ClearanceGrid:
    """Measure the floor of a house, once."""
    x0, y0, x1, y1 = house.bounds()
    x = np.arange(x0 - resolution_m, x1 + 2 * resolution_m, resolution_m)
    y = np.arange(y0 - resolution_m, y1 + 2 * resolution_m, resolution_m)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    obstacles = house.obstacles()
    distance = np.zeros(len(points))
    free = contains(house.rooms, points)
    for solid in obstacles:
        free &= ~contains(solid.outline, points)
    segments = np.concatenate([s.segments() for s in obstacles])
    distance[free] = distance_to_segments(points[free], segments)
    return ClearanceGrid(distance.reshape(len(y), len(x)), float(x[0]), float(y[0]), resolution_m)
