"""Houses drawn at random: flats and bungalows of 3 to 7 rooms with doors, furniture and 4 to 8 places.

Two layouts: rooms on both sides of a corridor, and rooms that open into each other (a rectangle split again and again).
A plan in which some place cannot be reached by a walking body is thrown away and the next one is drawn, so every seed
gives a house that can be lived in.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from scipy.ndimage import label

from svfm_ros import atomic_files
from svfm_ros.errors import DataError, UsageError
from svfm_ros.sim.furnish import DoorGap, Rect, Room, furnish
from svfm_ros.sim.house import RANDOM, House, clearance_grid
from svfm_ros.sim.house_drawing import parse_drawing

__all__ = ["all_places_connected", "random_house", "write_drawing"]

Rng = np.random.Generator

_ATTEMPTS = 200
_BODY_M = 0.3  # half of the width a walking body needs, sway included
_FEWEST_ROOMS, _MOST_ROOMS = 3, 7  # a corridor counts
_FEWEST_PLACES, _MOST_PLACES = 4, 8
_DOOR_MARGIN_M = 0.2  # wall left between a door and the corner of a room
_WALL_M = 0.12
_DAY_ROOMS = {"living room", "kitchen", "study"}  # may have openings without a door between them

_COLOURS = {
    "couch": "#2e8b57",
    "front_door": "#7b3fa0",
    "kitchen": "#1f6fd0",
    "toilet": "#17a2b8",
    "bed": "#d03030",
    "bed_2": "#e07b39",
    "desk": "#808080",
    "table": "#b8860b",
}


def random_house(seed: int) -> House:
    """The house of this seed, frame ``map`` with the south-west corner at (0, 0); any integer from 0 up is valid."""
    return _draw(seed)[1]


def write_drawing(source: str, path: Path) -> None:
    """Write the drawing of the house ``random:SEED`` as YAML, to be changed and loaded like any other."""
    if not source.startswith(RANDOM):
        raise UsageError(f"expected a house drawn at random ({RANDOM}SEED) to export, got {source!r}")
    drawing, _ = _draw(int(source.removeprefix(RANDOM)))
    atomic_files.make_folder(Path(path).absolute().parent)
    atomic_files.write_whole(path, yaml.safe_dump(drawing, sort_keys=False, default_flow_style=None).encode())


def _draw(seed: int) -> tuple[dict[str, Any], House]:
    """A drawing (plain data in the format of ``config/houses/home.yaml``) and its house."""
    if seed < 0:
        raise DataError(f"expected a seed of at least 0 for a random house, got {seed}")
    for attempt in range(_ATTEMPTS):
        drawing = _draw_plan(f"random-{seed}", np.random.default_rng([seed, attempt, 31]))
        if drawing is None:
            continue
        house = parse_drawing(drawing, drawing["name"])
        if all_places_connected(house):
            return drawing, house
    raise DataError(f"expected a house for seed {seed} within {_ATTEMPTS} plans, got none")


def all_places_connected(house: House, body_radius_m: float = _BODY_M) -> bool:
    """Whether a disc of that radius can move from each place of the house to each other one."""
    grid = clearance_grid(house)
    regions, _ = label(grid.distance_m >= body_radius_m)
    cells = np.rint((house.places.centres - [grid.x0, grid.y0]) / grid.resolution_m).astype(np.int64)
    found = set(regions[cells[:, 1], cells[:, 0]].tolist())
    return len(found) == 1 and 0 not in found


def _draw_plan(name: str, rng: Rng) -> dict[str, Any] | None:
    """One plan; None where rooms or places did not fit."""
    areas = _corridor_rooms(rng) if rng.uniform() < 0.6 else _split_rooms(rng)
    if not _FEWEST_ROOMS <= len(areas) <= _MOST_ROOMS:
        return None
    rooms = _named(areas, rng)
    doors = _doors(rooms, rng)
    front = _front_door(rooms, rng)
    if doors is None or front is None:
        return None
    furnished = furnish(rooms, [*doors, front], _WALL_M, rng)
    places = furnished.places[:_MOST_PLACES]
    if len(places) < _FEWEST_PLACES or not {"couch", "kitchen", "front_door"} <= {p.name for p in places}:
        return None
    bounds = Rect(0.0, 0.0, max(r.area.x1 for r in rooms), max(r.area.y1 for r in rooms))
    outside = [[0.0, 0.0], [bounds.x1, 0.0], [bounds.x1, bounds.y1], [0.0, bounds.y1], [0.0, 0.0]]
    return {
        "name": name,
        "wall_thickness": _WALL_M,
        "wall_height": 2.4,
        "door_height": 2.0,
        "walls": [outside, *(_line(a.area, b.area) for a, b in combinations(rooms, 2) if a.area.shared(b.area))],
        "doors": [d.as_drawing() for d in [*doors, front]],
        "furniture": list(furnished.furniture),
        "places": [
            {"name": p.name, "x": p.x, "y": p.y, "radius": p.radius_m, "colour": _COLOURS[p.name]} for p in places
        ],
    }


def _line(a: Rect, b: Rect) -> list[list[float]]:
    """Wall between two rooms that touch, as a polyline."""
    shared = a.shared(b)
    assert shared is not None
    return [[shared.x0, shared.y0], [shared.x1, shared.y1]]


def _corridor_rooms(rng: Rng) -> list[Rect]:
    """Corridor first, then rooms to its north and south and, in half of the houses, one across its east end."""
    depth = _even(rng.uniform(6.8, 10.5))
    width = _even(rng.uniform(7.5, 16.0))
    corridor = _even(rng.uniform(1.1, 1.7))
    south = _even(rng.uniform(2.5, depth - corridor - 2.5))
    at_end = _even(rng.uniform(3.4, 4.8)) if rng.uniform() < 0.5 else 0.0
    inner = _even(width - at_end)
    rooms = [Rect(0.0, south, inner, south + corridor)]
    rooms += _row(Rect(0.0, 0.0, inner, south), rng)
    rooms += _row(Rect(0.0, south + corridor, inner, depth), rng)
    if at_end:
        rooms.append(Rect(inner, 0.0, width, depth))
    return rooms


def _row(area: Rect, rng: Rng) -> list[Rect]:
    """Cut a strip into rooms beside each other, each at least 1.9 m wide."""
    length = area.x1 - area.x0
    count = max(1, round(length / float(rng.uniform(2.8, 5.0))))
    shares = rng.dirichlet(np.full(count, 8.0))
    widths = 1.9 + shares * (length - 1.9 * count)
    cuts = [area.x0, *(_even(v) for v in area.x0 + np.cumsum(widths)[:-1]), area.x1]
    return [Rect(cuts[i], area.y0, cuts[i + 1], area.y1) for i in range(count)]


def _split_rooms(rng: Rng) -> list[Rect]:
    """A rectangle of 5 to 11 m split into 3 to 6 rooms; the largest room is split next, across its longer side."""
    size = _even(rng.uniform(5.0, 11.0)), _even(rng.uniform(5.0, 9.0))
    count = int(np.clip(round(size[0] * size[1] / rng.uniform(9.0, 15.0)), 3, 6))
    rooms = [Rect(0.0, 0.0, *size)]
    while len(rooms) < count:
        rooms.sort(key=lambda r: r.area_m2)
        rooms += _halves(rooms.pop(), rng)
    return rooms


def _halves(room: Rect, rng: Rng) -> list[Rect]:
    wide, high = room.x1 - room.x0, room.y1 - room.y0
    share = rng.uniform(0.34, 0.66)
    if wide >= high:
        cut = _even(room.x0 + share * wide)
        return [replace(room, x1=cut), replace(room, x0=cut)]
    cut = _even(room.y0 + share * high)
    return [replace(room, y1=cut), replace(room, y0=cut)]


def _named(areas: list[Rect], rng: Rng) -> list[Room]:
    """Give each room a use: the smallest is the bathroom, the largest the living room, a corridor the hall."""
    hall = [a for a in areas if min(a.x1 - a.x0, a.y1 - a.y0) < 1.75 and a.length_m > 3.0][:1]
    others = sorted((a for a in areas if a not in hall), key=lambda a: a.area_m2)
    if len(others) < 4:
        uses = ["bathroom", "bedroom", "living kitchen"][-len(others) :]
    else:
        between = ["kitchen", "bedroom", "study", "second bedroom", "store room"][: len(others) - 2]
        uses = ["bathroom", *(between[i] for i in rng.permutation(len(between))), "living room"]
    return [Room("hall", a) for a in hall] + [Room(use, a) for use, a in zip(uses, others, strict=True)]


def _doors(rooms: Sequence[Room], rng: Rng) -> list[DoorGap] | None:
    """Doors that connect all rooms, from the hall (or the living room) outwards; sometimes one more than needed."""
    start = next((r for r in rooms if r.use == "hall"), rooms[-1])
    reached, left = [start], [r for r in rooms if r is not start]
    doors: list[DoorGap] = []
    while left:
        options = [(a, b) for a in reached for b in left if _room_for_door(a, b)]
        private = [o for o in options if o[0].use in ("bathroom", "store room")]
        options = [o for o in options if o not in private] or private
        if not options:
            return None
        near = [o for o in options if o[0] is start]
        a, b = _pick(near or options, rng)
        doors.append(_gap(a, b, rng))
        reached.append(b)
        left.remove(b)
    joined = {(d.a, d.b) for d in doors} | {(d.b, d.a) for d in doors}
    open_plan = [
        (a, b)
        for a, b in combinations(rooms, 2)
        if (a.use, b.use) not in joined and {a.use, b.use} <= _DAY_ROOMS and _room_for_door(a, b)
    ]
    if open_plan and rng.uniform() < 0.5:
        a, b = _pick(open_plan, rng)
        doors.append(_gap(a, b, rng))
    return doors


def _room_for_door(a: Room, b: Room) -> bool:
    shared = a.area.shared(b.area)
    return shared is not None and shared.length_m >= 1.0 + 2.0 * _DOOR_MARGIN_M


def _gap(a: Room, b: Room, rng: Rng) -> DoorGap:
    """A door 0.8 to 1.0 m wide in the wall between two rooms, open into ``b``, or a plain opening."""
    shared = a.area.shared(b.area)
    assert shared is not None
    width = round(float(rng.uniform(0.8, 1.0)), 2)
    middle = rng.uniform(_DOOR_MARGIN_M + width / 2.0, shared.length_m - _DOOR_MARGIN_M - width / 2.0)
    is_open = rng.uniform() < (0.6 if {a.use, b.use} <= _DAY_ROOMS else 0.15)
    leaf = None if is_open else round(float(rng.uniform(88.0, 108.0)), 0)
    return DoorGap(a.use, b.use, shared, b.area, round(float(middle), 2), width, leaf, bool(rng.uniform() < 0.5))


def _front_door(rooms: Sequence[Room], rng: Rng) -> DoorGap | None:
    """The shut front door in an outer wall of the hall, else of the living room or kitchen."""
    x1, y1 = max(r.area.x1 for r in rooms), max(r.area.y1 for r in rooms)
    sides = {
        "west": Rect(0.0, 0.0, 0.0, y1),
        "east": Rect(x1, 0.0, x1, y1),
        "south": Rect(0.0, 0.0, x1, 0.0),
        "north": Rect(0.0, y1, x1, y1),
    }
    for use in ("hall", "living room", "living kitchen", "kitchen"):
        room = next((r for r in rooms if r.use == use), None)
        if room is None:
            continue
        walls = [w for s in sides.values() if (w := room.area.shared(s)) and w.length_m >= 1.05]
        if walls:
            wall = _pick(walls, rng)
            width = 0.9 if wall.length_m >= 1.3 else 0.8
            middle = rng.uniform(width / 2.0 + 0.1, wall.length_m - width / 2.0 - 0.1)
            return DoorGap("front_door", use, wall, room.area, round(float(middle), 2), width, 0.0, False)
    return None


def _pick(options: Sequence[Any], rng: Rng) -> Any:
    return options[int(rng.integers(len(options)))]


def _even(value: float) -> float:
    """Rounded to 5 cm."""
    return round(round(float(value) / 0.05) * 0.05, 2)
