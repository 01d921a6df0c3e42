"""A house as the walker and the LiDAR know it: solid things with a height, and named places.

Everything solid is an outline on the floor with a lower and an upper edge: walls, door leaves, furniture, lintels. The
walker keeps away from what stands in the way of a body; the LiDAR sees whatever its beams meet at their height.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError, UsageError
from svfm_ros.installed_files import share_file
from svfm_ros.types import Place, Places

__all__ = ["BODY_HEIGHT_M", "RANDOM", "House", "Solid", "load_house"]

Array = NDArray[np.float64]

BODY_HEIGHT_M = 1.8
"""What hangs higher than this is in nobody's way."""


@dataclass(frozen=True, slots=True)
class Solid:
    """Something a body or a beam can meet."""

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
        """What a walking body can bump into."""
        return tuple(s for s in self.solids if s.bottom_m < BODY_HEIGHT_M)

    def at_height(self, height_m: float) -> tuple[Solid, ...]:
        """What a level beam at that height can meet."""
        return tuple(s for s in self.solids if s.bottom_m <= height_m <= s.top_m)

    def bounds(self) -> tuple[float, float, float, float]:
        """Lowest x, lowest y, highest x, highest y of all that is solid."""
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
