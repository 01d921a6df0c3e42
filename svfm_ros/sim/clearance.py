"""How far it is to the nearest thing in the way, anywhere on the floor."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.sim.house import House, contains, distance_to_segments

__all__ = ["ClearanceGrid", "clearance_grid"]

Array = NDArray[np.float64]

RESOLUTION_M = 0.05


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
