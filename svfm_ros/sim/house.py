"""A simulated house: solids with a height, named places, and the plane geometry of outlines.

A solid is a polygon on the floor with a lower and an upper edge: walls, door leaves, furniture, lintels. Walkers keep
clear of solids lower than a body; a LiDAR beam ends at the first solid at the height of the beam.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError, UsageError
from svfm_ros.installed_files import share_file
from svfm_ros.types import Place, Places

__all__ = [
    "BODY_HEIGHT_M",
    "RANDOM",
    "House",
    "Solid",
    "contains",
    "distance_to_segments",
    "load_house",
    "rectangle_around",
]

Array = NDArray[np.float64]

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
