"""Furniture and places for the rooms of a random house.

Each room gets the pieces of its use, along its walls. Nothing stands in a door's swing or in front of a place, and
pieces that do not fit are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from svfm_ros.types import Place

__all__ = ["DoorGap", "Furnished", "Rect", "Room", "furnish"]

Rng = np.random.Generator

_TRIES = 60
_IN_FRONT_M = 0.45  # from the edge of a piece to where a person stands
_STAND_M = 0.38  # half of the square of floor that stays free around a place
_PLACES_APART_M = 1.1


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle with sides along the axes, metres; of no width where it is a wall."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def area_m2(self) -> float:
        """Width times height."""
        return (self.x1 - self.x0) * (self.y1 - self.y0)

    @property
    def length_m(self) -> float:
        """The longer side."""
        return max(self.x1 - self.x0, self.y1 - self.y0)

    def grown(self, by_m: float) -> "Rect":
        """Larger by that much on all sides; smaller where negative."""
        return Rect(self.x0 - by_m, self.y0 - by_m, self.x1 + by_m, self.y1 + by_m)

    def overlaps(self, other: "Rect") -> bool:
        """Whether the two have more than a border in common."""
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1

    def holds(self, other: "Rect") -> bool:
        """Whether the other lies within."""
        return self.x0 <= other.x0 and self.y0 <= other.y0 and other.x1 <= self.x1 and other.y1 <= self.y1

    def shared(self, other: "Rect") -> "Rect | None":
        """The stretch of border two rectangles have in common; None where they do not touch along one."""
        x0, y0 = max(self.x0, other.x0), max(self.y0, other.y0)
        x1, y1 = min(self.x1, other.x1), min(self.y1, other.y1)
        if x1 < x0 or y1 < y0 or max(x1 - x0, y1 - y0) < 1e-6:
            return None
        return Rect(x0, y0, x1, y1)


@dataclass(frozen=True, slots=True)
class Room:
    """A room between the centre lines of its walls."""

    use: str
    area: Rect


@dataclass(frozen=True, slots=True)
class DoorGap:
    """A door in the wall between two rooms."""

    a: str
    b: str
    wall: Rect
    into: Rect  # the room the leaf swings into
    middle_m: float  # of the door, from the wall's south or west end
    width_m: float
    leaf_deg: float | None  # how far it stands open; None: an opening without a leaf
    hinged_at_end: bool

    def ends(self) -> tuple[list[float], list[float]]:
        """Hinge and the other end, ``[x, y]`` each."""
        low, high = self.middle_m - self.width_m / 2.0, self.middle_m + self.width_m / 2.0
        upright = self.wall.x1 - self.wall.x0 < 1e-6
        ends = [
            [round(self.wall.x0 + (0.0 if upright else s), 3), round(self.wall.y0 + (s if upright else 0.0), 3)]
            for s in (low, high)
        ]
        return (ends[1], ends[0]) if self.hinged_at_end else (ends[0], ends[1])

    def as_drawing(self) -> dict[str, Any]:
        """The door as a drawing has it."""
        hinge, other = self.ends()
        door: dict[str, Any] = {"name": f"{self.a} - {self.b}", "from": hinge, "to": other}
        if self.leaf_deg is not None:
            centre = (self.into.x0 + self.into.x1) / 2.0 - hinge[0], (self.into.y0 + self.into.y1) / 2.0 - hinge[1]
            along = other[0] - hinge[0], other[1] - hinge[1]
            left = along[0] * centre[1] - along[1] * centre[0] > 0.0
            door["leaf"] = self.leaf_deg if left else -self.leaf_deg
        return door

    def kept_free(self) -> Rect:
        """Floor on both sides that furniture leaves free: the swing of the leaf and a step beyond."""
        (x0, y0), (x1, y1) = self.ends()
        span = Rect(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
        deep, beside = self.width_m + 0.15, 0.12
        upright = self.wall.x1 - self.wall.x0 < 1e-6
        dx, dy = (deep, beside) if upright else (beside, deep)
        return Rect(span.x0 - dx, span.y0 - dy, span.x1 + dx, span.y1 + dy)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A kind of furniture: ranges of its sizes, metres, and the place people use it from."""

    name: str
    wide: tuple[float, float]  # along the wall
    deep: tuple[float, float]
    height: float
    from_height: float = 0.0
    place: str = ""
    radius: float = 0.5
    from_side: bool = False  # people stand beside it, not in front (a bed)
    shelf_above: bool = False  # wall cupboards over it
    in_the_middle: bool = False  # away from the walls, where the room is large enough


_COUCH = _Piece("couch", (1.6, 2.3), (0.8, 0.95), 0.85, place="couch")
_TABLE = _Piece("dining table", (1.2, 1.6), (0.7, 0.9), 0.75, place="table", in_the_middle=True)
_BOOKCASE = _Piece("bookcase", (0.8, 1.8), (0.3, 0.4), 2.0)
_WARDROBE = _Piece("wardrobe", (1.0, 2.0), (0.55, 0.62), 2.1)
_WORKTOP = _Piece("worktop", (1.6, 2.8), (0.6, 0.62), 0.9, place="kitchen", radius=0.6, shelf_above=True)
_FRIDGE = _Piece("fridge", (0.58, 0.65), (0.6, 0.65), 1.85)
_PIECES: dict[str, tuple[_Piece, ...]] = {
    "living room": (
        _COUCH,
        _TABLE,
        _BOOKCASE,
        _Piece("coffee table", (0.8, 1.1), (0.5, 0.6), 0.45, in_the_middle=True),
        _Piece("television", (1.0, 1.6), (0.35, 0.45), 1.3),
        _Piece("armchair", (0.75, 0.85), (0.75, 0.85), 0.95),
        _Piece("lamp", (0.28, 0.32), (0.28, 0.32), 1.7),
        _Piece("plant", (0.3, 0.4), (0.3, 0.4), 1.5),
    ),
    "living kitchen": (_WORKTOP, _COUCH, _TABLE, _FRIDGE, _BOOKCASE),
    "kitchen": (
        _WORKTOP,
        _FRIDGE,
        _Piece("larder", (0.5, 0.7), (0.4, 0.6), 2.1),
        _Piece("kitchen table", (0.9, 1.3), (0.65, 0.8), 0.75),
    ),
    "bedroom": (
        _Piece("bed", (1.2, 1.8), (1.95, 2.05), 0.55, place="bed", from_side=True),
        _WARDROBE,
        _Piece("chest of drawers", (0.8, 1.1), (0.42, 0.48), 1.0),
    ),
    "second bedroom": (
        _Piece("single bed", (0.9, 1.0), (1.95, 2.05), 0.55, place="bed_2", from_side=True),
        _WARDROBE,
    ),
    "study": (
        _Piece("desk", (1.2, 1.6), (0.65, 0.8), 0.75, place="desk"),
        _BOOKCASE,
        _Piece("filing cabinet", (0.4, 0.5), (0.5, 0.6), 1.4),
    ),
    "bathroom": (
        _Piece("toilet", (0.38, 0.42), (0.6, 0.68), 0.8, place="toilet", radius=0.4),
        _Piece("basin", (0.5, 0.65), (0.42, 0.5), 0.9),
        _Piece("shower", (0.75, 0.9), (0.75, 0.9), 2.0),
    ),
    "store room": (_Piece("shelves", (0.8, 1.6), (0.35, 0.45), 2.1), _BOOKCASE),
    "hall": (
        _Piece("coats", (0.6, 1.0), (0.2, 0.26), 1.9, 0.9),
        _Piece("shoe rack", (0.5, 0.8), (0.2, 0.26), 0.6),
    ),
}


@dataclass(slots=True)
class Furnished:
    """Furniture as a drawing has it, places, and the floor that is taken."""

    furniture: list[dict[str, Any]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    taken: list[Rect] = field(default_factory=list)

    def free(self, area: Rect) -> bool:
        """Whether nothing else takes this floor."""
        return not any(area.overlaps(t) for t in self.taken)

    def add_place(self, name: str, x: float, y: float, radius_m: float) -> None:
        """A place and the floor people stand on there."""
        self.places.append(Place(name, round(x, 3), round(y, 3), radius_m, ""))
        self.taken.append(Rect(x, y, x, y).grown(_STAND_M))


def furnish(rooms: Sequence[Room], doors: Sequence[DoorGap], wall_m: float, rng: Rng) -> Furnished:
    """Furniture and places for all rooms; the last of the doors is the front door."""
    out = Furnished(taken=[d.kept_free() for d in doors])
    _stand_at_front_door(out, doors[-1])
    for room in rooms:
        for i, piece in enumerate(_PIECES[room.use]):
            if i == 0 or rng.uniform() < 0.7:
                _set_down(out, piece, room.area.grown(-wall_m / 2.0), rng)
    return out


def _stand_at_front_door(out: Furnished, door: DoorGap) -> None:
    (ax, ay), (bx, by) = door.ends()
    x, y = (ax + bx) / 2.0, (ay + by) / 2.0
    room = door.into
    if door.wall.x1 - door.wall.x0 < 1e-6:
        x += 0.6 if x < (room.x0 + room.x1) / 2.0 else -0.6
    else:
        y += 0.6 if y < (room.y0 + room.y1) / 2.0 else -0.6
    out.add_place("front_door", x, y, 0.55)


def _set_down(out: Furnished, piece: _Piece, inside: Rect, rng: Rng) -> None:
    """Try spots along the four walls until the piece and the person who uses it find room."""
    wide, deep = (round(float(rng.uniform(*span)), 2) for span in (piece.wide, piece.deep))
    for _ in range(_TRIES):
        side = int(rng.integers(4))
        around = _part_of(inside, rng) if piece.in_the_middle else inside
        box, stand = _at_wall(
            around, side, float(rng.uniform()), wide, deep, piece.from_side, bool(rng.uniform() < 0.5)
        )
        if not inside.holds(box) or not out.free(box):
            continue
        if piece.place and not _room_to_stand(out, inside, stand):
            continue
        out.taken.append(box)
        if piece.place:
            out.add_place(piece.place, *stand, piece.radius)
        out.furniture += _drawn(piece, box, side)
        return


def _part_of(inside: Rect, rng: Rng) -> Rect:
    """The room without a strip along its walls that is wide enough to walk through."""
    by = float(rng.uniform(0.75, 1.2))
    return inside.grown(-by) if min(inside.x1 - inside.x0, inside.y1 - inside.y0) > 2.0 * by + 1.7 else inside


def _at_wall(
    inside: Rect, side: int, share: float, wide: float, deep: float, from_side: bool, mirrored: bool
) -> tuple[Rect, tuple[float, float]]:
    """Floor of a piece with its back to a wall (0 south, 1 north, 2 west, 3 east), and where its user stands."""
    upright = side >= 2
    low, high = (inside.y0, inside.y1) if upright else (inside.x0, inside.x1)
    start = low + share * max(high - low - wide, 0.0)
    u = start - _IN_FRONT_M if mirrored else start + wide + _IN_FRONT_M
    v = 0.6 * deep
    if not from_side:
        u, v = start + wide / 2.0, deep + _IN_FRONT_M
    if side == 0:
        return Rect(start, inside.y0, start + wide, inside.y0 + deep), (u, inside.y0 + v)
    if side == 1:
        return Rect(start, inside.y1 - deep, start + wide, inside.y1), (u, inside.y1 - v)
    if side == 2:
        return Rect(inside.x0, start, inside.x0 + deep, start + wide), (inside.x0 + v, u)
    return Rect(inside.x1 - deep, start, inside.x1, start + wide), (inside.x1 - v, u)


def _room_to_stand(out: Furnished, inside: Rect, stand: tuple[float, float]) -> bool:
    square = Rect(*stand, *stand).grown(_STAND_M)
    near = any(np.hypot(p.x - stand[0], p.y - stand[1]) < _PLACES_APART_M for p in out.places)
    return inside.holds(square) and out.free(square) and not near


def _drawn(piece: _Piece, box: Rect, side: int) -> list[dict[str, Any]]:
    """The piece as a drawing has it, with what hangs above it."""
    corners = [round(v, 3) for v in (box.x0, box.y0, box.x1, box.y1)]
    drawn: dict[str, Any] = {"name": piece.name, "box": corners, "height": piece.height}
    if piece.from_height:
        drawn["from_height"] = piece.from_height
    if not piece.shelf_above:
        return [drawn]
    shelf = list(corners)
    at, by = ((3, 1), (1, 3), (2, 0), (0, 2))[side]
    shelf[at] = round(shelf[by] + (0.35 if at > by else -0.35), 3)
    return [drawn, {"name": "wall cupboards", "box": shelf, "from_height": 1.35, "height": 2.1}]
