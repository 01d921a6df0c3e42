"""The floor plan of a page as plain numbers: bounds, map picture, places and recorded walks."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import hours_of_day
from svfm_ros.types import OCCUPIED_FROM, OccupancyGrid, Places, Walk
from svfm_ros.wall_angle import turned, wall_angle

__all__ = [
    "DrawnMap",
    "DrawnPlace",
    "DrawnPlan",
    "DrawnWalk",
    "drawn_plan",
    "known_bounds",
    "map_picture",
    "thinned_centimetres",
]

Array = NDArray[np.float64]

_MOST_WALKS = 400
_STEP_S = 0.4  # between drawn positions of a walk
_MOST_POINTS = 60
_FLOOR = 0.35  # a cell that is less likely occupied is drawn as floor
_MARGIN_M = 0.6
_CM = 100.0


@dataclass(frozen=True, slots=True)
class DrawnPlace:
    """A place as a page draws it, in metres."""

    name: str
    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, slots=True)
class DrawnWalk:
    """Positions in whole centimetres, x and y in turn."""

    hour: float
    xy: list[int]


@dataclass(frozen=True, slots=True)
class DrawnMap:
    """The map as a picture; position of its lower left corner in metres and its rotation in radians."""

    picture: str  # data: URL
    x: float
    y: float
    theta: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class DrawnPlan:
    """All that is drawn below the forecasts; it is drawn turned by ``-turn``, so that walls are upright."""

    turn: float  # angle of the walls in radians
    bounds: list[float]  # x0, y0, x1, y1 in metres, after turning
    map: DrawnMap | None
    places: list[DrawnPlace]
    walks: list[DrawnWalk]  # the latest


def drawn_plan(walks: Sequence[Walk], places: Places, grid: OccupancyGrid | None, time_zone: str) -> DrawnPlan:
    """The plan of a house with the latest 400 of the walks."""
    turn = 0.0 if grid is None else wall_angle(grid)
    return DrawnPlan(
        round(turn, 4),
        _bounds(walks, grid, turn),
        None if grid is None else _drawn_map(grid),
        [DrawnPlace(p.name, p.x, p.y, p.radius_m, p.colour) for p in places],
        _drawn_walks(walks, time_zone),
    )


def known_bounds(grid: OccupancyGrid, turn: float) -> list[float]:
    """x0, y0, x1, y1 of the known part of a map after turning it by ``-turn``, in metres; empty without one."""
    known = grid.centres_of(~np.isnan(grid.prob))
    return _box(turned(known, turn)) if len(known) else []


def _bounds(walks: Sequence[Walk], grid: OccupancyGrid | None, turn: float) -> list[float]:
    """The floor that was walked on, and the known part of the map."""
    points = [w.xy for w in walks]
    if grid is not None:
        points.append(grid.centres_of(~np.isnan(grid.prob)))
    return _box(turned(np.concatenate(points), turn))


def _box(points: Array) -> list[float]:
    low, high = points.min(axis=0) - _MARGIN_M, points.max(axis=0) + _MARGIN_M
    return [round(float(v), 2) for v in (*low, *high)]


def _drawn_map(grid: OccupancyGrid) -> DrawnMap:
    at = grid.T_map_grid
    height, width = (n * grid.resolution_m for n in grid.prob.shape)
    picture = "data:image/png;base64," + base64.b64encode(map_picture(grid)).decode()
    return DrawnMap(picture, at.x, at.y, at.theta, width, height)


def map_picture(grid: OccupancyGrid) -> bytes:
    """The map as a PNG of one byte a cell: 0 unknown, 1 floor, 2 wall; the page chooses the colours."""
    from PIL import Image

    prob = np.nan_to_num(grid.prob[::-1], nan=-1.0)  # pictures begin at the top
    cells = np.zeros(prob.shape, dtype=np.uint8)
    cells[(prob >= 0.0) & (prob < _FLOOR)] = 1
    cells[prob > OCCUPIED_FROM] = 2
    file = io.BytesIO()
    Image.fromarray(cells).save(file, format="png")
    return file.getvalue()


def _drawn_walks(walks: Sequence[Walk], time_zone: str) -> list[DrawnWalk]:
    stamps = np.array([w.stamps_ns[0] for w in walks])
    hours = hours_of_day(stamps, time_zone)
    latest = np.argsort(stamps)[-_MOST_WALKS:].tolist()
    return [DrawnWalk(round(float(hours[i]), 2), thinned_centimetres(walks[i])) for i in latest]


def thinned_centimetres(walk: Walk) -> list[int]:
    """At most 60 positions of a walk, x and y in turn, in whole centimetres."""
    count = min(max(2, round(float(walk.times_s[-1]) / _STEP_S) + 1), _MOST_POINTS)
    xy = walk.xy_at(np.linspace(0.0, walk.times_s[-1], count))
    return [int(v) for v in (xy * _CM).round().astype(int).ravel()]
