"""From a drawing (YAML, made by people) to a ``House``; errors in the drawing are reported in one sentence."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import read_yaml
from svfm_ros.errors import DataError, short
from svfm_ros.sim.house import House, Solid, contains, distance_to_segments, rectangle_around
from svfm_ros.types import Place, Places

__all__ = ["parse_drawing", "read_drawing"]

Array = NDArray[np.float64]

_SHEET_KEYS = ("name", "wall_thickness", "wall_height", "door_height", "walls", "doors", "furniture", "places")
_REQUIRED_KEYS = ("name", "walls", "places")
_SHAPES = ("box", "circle", "polygon")
_CIRCLE_CORNERS = 20
_FARTHEST_M, _LARGEST_M, _MOST_PIECES = 1e4, 300.0, 5000
_LEAF_THICKNESS_M = 0.04
_ON_WALL_M = 0.02  # a door's corners lie on the wall's centre line to this


def read_drawing(path: Path) -> House:
    """Read and check one drawing."""
    return parse_drawing(read_yaml(path, "the drawing of a house"), str(path))


def parse_drawing(data: Any, where: str = "house") -> House:
    """The house from plain data, as YAML gives it."""
    sheet = _mapping(data, where, _SHEET_KEYS, _REQUIRED_KEYS)
    thickness = _positive(sheet.get("wall_thickness", 0.12), f"{where}: wall_thickness")
    wall_height = _positive(sheet.get("wall_height", 2.4), f"{where}: wall_height")
    door_height = _positive(sheet.get("door_height", 2.0), f"{where}: door_height")
    walls = [_polyline(w, f"{where}: walls[{i}]") for i, w in enumerate(_list(sheet["walls"], f"{where}: walls"))]
    if not walls:
        raise DataError(f"{where}: expected at least one wall, got none")
    _check_size(walls, where)
    doors = [_door(d, f"{where}: doors[{i}]") for i, d in enumerate(_list(sheet.get("doors"), f"{where}: doors"))]
    solids = _wall_solids(walls, doors, thickness, wall_height, where)
    solids += [s for d in doors for s in _door_solids(d, thickness, min(door_height, wall_height), wall_height)]
    pieces = _list(sheet.get("furniture"), f"{where}: furniture")
    solids += [_furniture(f, f"{where}: furniture[{i}]", wall_height) for i, f in enumerate(pieces)]
    places = [_place(p, f"{where}: places[{i}]") for i, p in enumerate(_list(sheet["places"], f"{where}: places"))]
    house = House(str(sheet["name"]), tuple(solids), Places(tuple(places)), _outline(walls), wall_height)
    _check_places(house, where)
    return house


def _check_size(walls: Sequence[Array], where: str) -> None:
    """Before anything is laid out: a grid over the house must fit into memory."""
    pieces = sum(len(wall) - 1 for wall in walls)
    if pieces > _MOST_PIECES:
        raise DataError(f"{where}: expected at most {_MOST_PIECES} pieces of wall, got {pieces}")
    across = float(np.ptp(np.concatenate(walls), axis=0).max())
    if across > _LARGEST_M:
        raise DataError(f"{where}: expected a house of at most {_LARGEST_M:g} m across, got {across:.6g} m")


def _wall_solids(
    walls: Sequence[Array], doors: Sequence[dict[str, Any]], thickness: float, height: float, where: str
) -> list[Solid]:
    """Walls with their doors cut out."""
    used: set[int] = set()
    solids = []
    for wall in walls:
        for a, b in pairwise(wall):
            for start, end in _cut(a, b, thickness / 2.0, doors, used):
                solids.append(Solid("wall", "wall", rectangle_around(start, end, thickness), 0.0, height))
    stray = [d["name"] for i, d in enumerate(doors) if i not in used]
    if stray:
        raise DataError(
            f"{where}: door {stray[0]!r}: expected both ends on one wall, got {_ends_text(doors, stray[0])}"
        )
    return solids


def _ends_text(doors: Sequence[dict[str, Any]], name: str) -> str:
    door = next(d for d in doors if d["name"] == name)
    return f"from {door['from'].tolist()} to {door['to'].tolist()}"


def _cut(
    a: Array, b: Array, extra: float, doors: Sequence[dict[str, Any]], used: set[int]
) -> list[tuple[Array, Array]]:
    """What is left of the wall from a to b; its ends reach a little farther, so that walls close their corners."""
    length = float(np.hypot(*(b - a)))
    along = (b - a) / length
    gaps = []
    for i, door in enumerate(doors):
        ends = np.stack([door["from"], door["to"]])
        s = (ends - a) @ along
        off = np.abs((ends - a) @ np.array([-along[1], along[0]]))
        if off.max() < _ON_WALL_M and s.min() > -_ON_WALL_M and s.max() < length + _ON_WALL_M:
            used.add(i)
            gaps.append((float(s.min()), float(s.max())))
    edges = [-extra, *(v for gap in sorted(gaps) for v in gap), length + extra]
    spans = zip(edges[::2], edges[1::2], strict=True)
    return [(a + along * s0, a + along * s1) for s0, s1 in spans if s1 - s0 > 1e-6]


def _door_solids(door: dict[str, Any], thickness: float, door_height: float, wall_height: float) -> list[Solid]:
    """The leaf where it stands, and the wall above the door."""
    hinge, other = door["from"], door["to"]
    solids = []
    if wall_height - door_height > 1e-6:
        above = rectangle_around(hinge, other, thickness)
        solids.append(Solid(door["name"], "lintel", above, door_height, wall_height))
    if door["leaf"] is not None:
        angle = math.radians(door["leaf"])
        c, s = math.cos(angle), math.sin(angle)
        tip = hinge + np.array([[c, -s], [s, c]]) @ (other - hinge)
        leaf = rectangle_around(hinge, tip, _LEAF_THICKNESS_M)
        solids.append(Solid(door["name"], "door", leaf, 0.0, door_height))
    return solids


def _door(data: Any, where: str) -> dict[str, Any]:
    door = _mapping(data, where, ("name", "from", "to", "leaf"), ("name", "from", "to"))
    ends = {k: _numbers(door[k], 2, f"{where}: {k}") for k in ("from", "to")}
    if np.hypot(*(ends["to"] - ends["from"])) < 0.1:
        raise DataError(f"{where}: expected a door at least 0.1 m wide, got {door['from']} to {door['to']}")
    leaf = door.get("leaf")
    return {"name": str(door["name"]), **ends, "leaf": None if leaf is None else _number(leaf, f"{where}: leaf")}


def _furniture(data: Any, where: str, wall_height: float) -> Solid:
    piece = _mapping(data, where, ("name", *_SHAPES, "height", "from_height"), ("name", "height"))
    name = str(piece["name"])
    shapes = [k for k in _SHAPES if k in piece]
    if len(shapes) != 1:
        raise DataError(f"{where} ({name}): expected one of box, circle, polygon, got {shapes or 'none'}")
    outline = _shape(shapes[0], piece[shapes[0]], f"{where} ({name}): {shapes[0]}")
    bottom = _number(piece.get("from_height", 0.0), f"{where} ({name}): from_height")
    top = _positive(piece["height"], f"{where} ({name}): height")
    if not 0.0 <= bottom < top:
        raise DataError(f"{where} ({name}): expected 0 <= from_height < height, got {bottom} and {top}")
    return Solid(name, "furniture", outline, bottom, min(top, wall_height))


def _shape(kind: str, value: Any, where: str) -> Array:
    if kind == "box":
        x0, y0, x1, y1 = _numbers(value, 4, where)
        if not (x0 < x1 and y0 < y1):
            raise DataError(f"{where}: expected [x0, y0, x1, y1] with x0 < x1 and y0 < y1, got {value}")
        return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    if kind == "circle":
        x, y, radius = _numbers(value, 3, where)
        _positive(float(radius), f"{where}: radius")
        angles = np.arange(_CIRCLE_CORNERS) * (2.0 * np.pi / _CIRCLE_CORNERS)
        return np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)
    corners = _polyline(value, where)
    if len(corners) < 3:
        raise DataError(f"{where}: expected at least 3 corners, got {len(corners)}")
    return corners


def _place(data: Any, where: str) -> Place:
    keys = ("name", "x", "y", "radius", "colour")
    place = _mapping(data, where, keys, keys)
    colour = str(place["colour"])
    if not re.fullmatch(r"#[0-9a-fA-F]{6}", colour):
        raise DataError(f'{where}: colour: expected "#rrggbb" in quotes, got {short(place["colour"])}')
    x, y = (_number(place[k], f"{where}: {k}") for k in ("x", "y"))
    return Place(str(place["name"]), x, y, _positive(place["radius"], f"{where}: radius"), colour)


def _check_places(house: House, where: str) -> None:
    names = house.places.names
    double = [n for n in names if names.count(n) > 1]
    if double:
        raise DataError(f"{where}: expected each place once, got {double[0]!r} {names.count(double[0])} times")
    if len(names) < 2:
        raise DataError(f"{where}: expected at least two places to walk between, got {len(names)}")
    for place in house.places:
        for solid in house.obstacles():
            inside = bool(contains(solid.outline, place.xy[None])[0])
            if inside or distance_to_segments(place.xy[None], solid.segments())[0] < 1e-6:
                raise DataError(
                    f"{where}: place {place.name!r}: expected free floor, got the {solid.kind} {solid.name!r}"
                )


def _outline(walls: Sequence[Array]) -> Array:
    """The first closed wall is the outside of the house; without one, its bounding box."""
    for wall in walls:
        if len(wall) > 3 and np.allclose(wall[0], wall[-1]):
            return wall[:-1]
    corners = np.concatenate(walls)
    (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])


def _polyline(value: Any, where: str) -> Array:
    points = [_numbers(p, 2, f"{where}[{i}]") for i, p in enumerate(_list(value, where))]
    if len(points) < 2:
        raise DataError(f"{where}: expected at least two corners, got {len(points)}")
    line = np.stack(points)
    if np.any(np.hypot(*np.diff(line, axis=0).T) < 1e-6):
        raise DataError(f"{where}: expected corners that differ, got the same corner twice in a row")
    return line


def _mapping(data: Any, where: str, known: Sequence[str], required: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise DataError(f"{where}: expected {', '.join(required)} by name, got {_kind(data)}")
    for key in data:
        if key not in known:
            raise DataError(f"{where}: expected some of {', '.join(known)}, got {short(key)}")
    for key in required:
        if key not in data:
            raise DataError(f"{where}: expected {key!r}, but it is missing")
    return data


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise DataError(f"{where}: expected a list, got {_kind(value)}")
    return value


def _numbers(value: Any, count: int, where: str) -> Array:
    if not isinstance(value, list) or len(value) != count:
        raise DataError(f"{where}: expected {count} numbers, got {short(value)}")
    return np.array([_number(v, where) for v in value])


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(f"{where}: expected a number, got {short(value)}")
    if abs(value) > _FARTHEST_M:
        raise DataError(f"{where}: expected a number from {-_FARTHEST_M:g} to {_FARTHEST_M:g}, got {short(value)}")
    return float(value)


def _positive(value: Any, where: str) -> float:
    number = _number(value, where)
    if number <= 0.0:
        raise DataError(f"{where}: expected a number above 0, got {short(value)}")
    return number


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
