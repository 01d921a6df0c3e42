"""Rooms with known answers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.sim.house import House, Solid
from svfm_ros.sim.sensors.raycast import Hits, RayCaster
from svfm_ros.types import Place, Places, Walk

Array = NDArray[np.float64]


def box(x0: float, y0: float, x1: float, y1: float, bottom: float = 0.0, top: float = 2.4) -> Solid:
    return Solid("box", "wall", np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], dtype=float), bottom, top)


def square_house(half: float, height: float = 2.4) -> House:
    """A square room around the origin, seen from within: its outline is its wall."""
    walls = box(-half, -half, half, half, top=height)
    places = Places((Place("a", -half / 2, 0.0, 0.3, "#000000"), Place("b", half / 2, 0.0, 0.3, "#ffffff")))
    return House("square", (walls,), places, walls.outline, height)


def cast_level(caster: RayCaster, origins: Array, azimuths: Array, height_m: float) -> Hits:
    """Level rays, all at one height."""
    return caster.cast(origins, azimuths, np.full(len(origins), height_m), np.zeros(len(origins)), 1e9)


def distance_in_square(half: float, xy: Array, azimuth: Array) -> Array:
    """Distance to the walls of the square room from points within it; the textbook's slab method."""
    with np.errstate(all="ignore"):
        c, s = np.cos(azimuth), np.sin(azimuth)
        to_x = np.where(c > 0, (half - xy[..., 0]) / c, (-half - xy[..., 0]) / c)
        to_y = np.where(s > 0, (half - xy[..., 1]) / s, (-half - xy[..., 1]) / s)
    return np.minimum(np.where(np.isfinite(to_x), to_x, np.inf), np.where(np.isfinite(to_y), to_y, np.inf))


def drawing(**changes: Any) -> dict[str, Any]:
    """A small but complete drawing: two rooms with a door between them."""
    sheet: dict[str, Any] = {
        "name": "cabin",
        "wall_thickness": 0.1,
        "walls": [[[0, 0], [8, 0], [8, 4], [0, 4], [0, 0]], [[4, 0], [4, 4]]],
        "doors": [{"name": "middle", "from": [4, 1.5], "to": [4, 2.5], "leaf": 90}],
        "furniture": [{"name": "table", "box": [1.5, 0.5, 2.5, 1.2], "height": 0.75}],
        "places": [
            {"name": "couch", "x": 1.0, "y": 2.5, "radius": 0.4, "colour": "#112233"},
            {"name": "kitchen", "x": 7.0, "y": 2.0, "radius": 0.5, "colour": "#445566"},
            {"name": "landing", "x": 6.0, "y": 3.2, "radius": 0.4, "colour": "#778899"},
        ],
    }
    return {**sheet, **changes}


def straight_walk(start: Array, end: Array, seconds: float, rate_hz: float = 50.0, start_ns: int = 10**18) -> Walk:
    """At constant speed from start to end, looking ahead."""
    t = np.arange(round(seconds * rate_hz) + 1) / rate_hz
    xy = start + (t / t[-1])[:, None] * (end - start)
    heading = np.full(len(t), np.arctan2(*(end - start)[::-1]))
    stamps = start_ns + np.rint(t * 1e9).astype(np.int64)
    return Walk("straight", "test", stamps, np.column_stack([xy, heading]))
