"""A simulated house: solids with a height, named places, the geometry of outlines, and its floor as grids.

A solid is a polygon on the floor with a lower and an upper edge: walls, door leaves, furniture, lintels. Walkers keep
clear of solids lower than a body; a LiDAR beam ends at the first solid at the height of the beam.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import binary_dilation, label

from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError, UsageError
from svfm_ros.installed_files import share_file
from svfm_ros.types import OccupancyGrid, Place, Places, Pose2

__all__ = [
    "BODY_HEIGHT_M",
    "RANDOM",
    "ClearanceGrid",
    "House",
    "Solid",
    "clearance_grid",
    "contains",
    "distance_to_segments",
    "floor_plan",
    "load_house",
    "rectangle_around",
]

Array = NDArray[np.float64]

RESOLUTION_M = 0.05
_BORDER_M = 0.25
_PLAN_M = 0.05  # cell of the floor plan
_ALL_AROUND = np.ones((3, 3), dtype=bool)

BODY_HEIGHT_M = 1.8
"""Solids that begin above this height do not obstruct a walker."""


@dataclass(frozen=True, slots=True)
class Solid:
    """An obstacle: an upright prism."""

    name: str
    kind: str  # wall, door, lintel or furniture
    outline: Array  # (V, 2), a closed polygon, last corner not repeated
    bottom_m: float
    top_m: float

    def segments(self) -> Array:
        """Edges ``(V, 4)``: x0, y0, x1, y1."""
        return np.concatenate([self.outline, np.roll(self.outline, -1, axis=0)], axis=1)

    @property
    def counter_clockwise(self) -> Array:
        """The outline with its corners in counter-clockwise order."""
        return self.outline if self.signed_area_m2 >= 0.0 else self.outline[::-1].copy()

    @property
    def signed_area_m2(self) -> float:
        """Area of the outline; negative where its corners are in clockwise order."""
        x, y = self.outline.T
        return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


@dataclass(frozen=True, slots=True)
class House:
    """Walls, doors, furniture and places, in the frame ``map``."""

    name: str
    solids: tuple[Solid, ...]
    places: Places
    rooms: Array  # (V, 2), the outline of the house: outside of it the map is unknown
    wall_height_m: float

    def place(self, name: str) -> Place:
        """The place of that name."""
        for place in self.places:
            if place.name == name:
                return place
        raise DataError(f"{self.name}: expected one of the places {', '.join(self.places.names)}, got {name!r}")

    def obstacles(self) -> tuple[Solid, ...]:
        """Solids that obstruct a walking body."""
        return tuple(s for s in self.solids if s.bottom_m < BODY_HEIGHT_M)

    def at_height(self, height_m: float) -> tuple[Solid, ...]:
        """Solids that a level beam at that height can hit."""
        return tuple(s for s in self.solids if s.bottom_m <= height_m <= s.top_m)

    def bounds(self) -> tuple[float, float, float, float]:
        """Bounding box of all solids: x0, y0, x1, y1, metres."""
        corners = np.concatenate([s.outline for s in self.solids])
        (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
        return float(x0), float(y0), float(x1), float(y1)


RANDOM = "random:"
"""What the name of a house drawn at random begins with; a seed follows."""


def load_house(source: Path | str = "home") -> House:
    """A house from its drawing: a YAML file, the name of one that came with the package (home, bungalow), or one drawn
    at random (``random:SEED``).

    ``config/houses/home.yaml`` explains the format.
    """
    from svfm_ros.sim.house_drawing import read_drawing

    if str(source).startswith(RANDOM):
        from svfm_ros.sim.random_house import random_house

        return random_house(_seed_of(str(source)))
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        return read_drawing(path)
    return read_drawing(share_file(f"config/houses/{source}.yaml"))


def _seed_of(source: str) -> int:
    text = source.removeprefix(RANDOM)
    if not text.isdecimal():
        raise UsageError(f"expected a whole number after {RANDOM}, such as {RANDOM}7, got {source!r}")
    return int(text)


def rectangle_around(start: Array, end: Array, thickness: float) -> Array:
    """Corners ``(4, 2)`` of a rectangle with the centre line from start to end."""
    along = (end - start) / np.hypot(*(end - start))
    side = np.array([-along[1], along[0]]) * (thickness / 2.0)
    return np.stack([start - side, end - side, end + side, start + side])


def contains(outline: Array, points: Array) -> NDArray[np.bool_]:
    """Which points ``(N, 2)`` lie within a polygon ``(V, 2)``; even-odd rule."""
    inside = np.zeros(len(points), dtype=bool)
    x, y = points[:, 0], points[:, 1]
    for (x0, y0), (x1, y1) in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if y0 != y1:
            crosses = (y0 > y) != (y1 > y)
            inside ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return inside


@kernel
def distance_to_segments(points: Array, segments: Array) -> Array:
    """Distance ``(N,)`` of each point ``(N, 2)`` to the nearest of the segments ``(M, 4)``."""
    best = np.full(len(points), np.inf)
    for m in range(len(segments)):
        ax, ay = segments[m, 0], segments[m, 1]
        dx, dy = segments[m, 2] - ax, segments[m, 3] - ay
        length2 = max(dx * dx + dy * dy, 1e-30)
        for i in range(len(points)):
            px, py = points[i, 0] - ax, points[i, 1] - ay
            s = min(max((px * dx + py * dy) / length2, 0.0), 1.0)
            ex, ey = px - s * dx, py - s * dy
            best[i] = min(best[i], ex * ex + ey * ey)
    return np.asarray(np.sqrt(best))


def floor_plan(house: House, height_m: float) -> OccupancyGrid:
    """Surfaces are occupied, what can be reached from the places is free, all else (inside walls, outside) unknown."""
    x0, y0, x1, y1 = house.bounds()
    left = round((x0 - _BORDER_M) / _PLAN_M) * _PLAN_M
    low = round((y0 - _BORDER_M) / _PLAN_M) * _PLAN_M
    width = int(np.ceil((x1 + _BORDER_M - left) / _PLAN_M))
    height = int(np.ceil((y1 + _BORDER_M - low) / _PLAN_M))
    solid = _solid_cells(house, height_m, (height, width), left, low)
    regions, _ = label(~solid)
    starts = [_cell(p.x, p.y, left, low) for p in house.places]
    free = np.isin(regions, [regions[s] for s in starts if regions[s] > 0])
    if not free.any() or free[0].any():
        raise DataError(f"{house.name}: expected walls all around the places, got a gap that leads outside")
    prob = np.full(solid.shape, np.nan, dtype=np.float32)
    prob[free] = 0.0
    prob[solid & binary_dilation(free, _ALL_AROUND)] = 1.0
    return OccupancyGrid(prob, _PLAN_M, Pose2(round(left, 6), round(low, 6), 0.0))


def _solid_cells(house: House, height_m: float, shape: tuple[int, int], left: float, low: float) -> NDArray[np.bool_]:
    """Cells whose middle lies within something, or through which a surface passes."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    middles = np.stack([left + (columns + 0.5) * _PLAN_M, low + (rows + 0.5) * _PLAN_M], axis=-1)
    solid = np.zeros(shape, dtype=bool)
    for thing in house.at_height(height_m):
        solid |= contains(thing.outline, middles.reshape(-1, 2)).reshape(shape)
        for x0, y0, x1, y1 in thing.segments():
            steps = int(np.hypot(x1 - x0, y1 - y0) / _PLAN_M * 8) + 2
            x, y = np.linspace(x0, x1, steps), np.linspace(y0, y1, steps)
            solid[_cell(x, y, left, low)] = True
    return solid


def _cell(x: ArrayLike, y: ArrayLike, left: float, low: float) -> tuple[Any, Any]:
    """Row and column of points; 1e-6 of a cell is added: walls on grid lines do not depend on rounding."""
    row = np.floor((np.asarray(y) - low) / _PLAN_M + 1e-6).astype(np.int64)
    return row, np.floor((np.asarray(x) - left) / _PLAN_M + 1e-6).astype(np.int64)


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


def clearance_grid(house: House) -> ClearanceGrid:
    """Measure the floor of a house, once."""
    x0, y0, x1, y1 = house.bounds()
    x = np.arange(x0 - RESOLUTION_M, x1 + 2 * RESOLUTION_M, RESOLUTION_M)
    y = np.arange(y0 - RESOLUTION_M, y1 + 2 * RESOLUTION_M, RESOLUTION_M)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    obstacles = house.obstacles()
    distance = np.zeros(len(points))
    free = contains(house.rooms, points)
    for solid in obstacles:
        free &= ~contains(solid.outline, points)
    segments = np.concatenate([s.segments() for s in obstacles])
    distance[free] = distance_to_segments(points[free], segments)
    return ClearanceGrid(distance.reshape(len(y), len(x)), float(x[0]), float(y[0]), RESOLUTION_M)
