"""Names for places that nobody has named yet, by where they lie on the plan: ``top left room``.

Up is up on the plan as it is drawn, not north. A name depends on the map and on the places before it in the list, so
that it stays when places are added behind.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.types import OccupancyGrid, Places
from svfm_ros.walks.places import is_found
from svfm_ros.walks.rooms import PlanRoom, find_rooms
from svfm_ros.wall_angle import turned

__all__ = ["PlanNames", "named_by_plan"]

Array = NDArray[np.float64]
Corner = tuple[float, float]

_LOW, _HIGH = 0.4, 0.6  # between these shares of a box, something lies in the middle


def named_by_plan(places: Places, grid: OccupancyGrid) -> Places:
    """The places, where those called ``place 1`` and so on have names from the plan; all names differ.

    Nothing changes where no two rooms can be told apart, nor for places outside of the rooms.
    """
    names = PlanNames(grid)
    taken = [place.name for place in places if not is_found(place)]
    named = []
    for place in places:
        name = names.name_at(place.xy, taken) if is_found(place) else None
        named.append(place if name is None else replace(place, name=name))
        taken.append(named[-1].name)
    return Places(tuple(named))


class PlanNames:
    """Names of positions on one map."""

    def __init__(self, grid: OccupancyGrid) -> None:
        self._rooms = find_rooms(grid)
        self._names = _names_of_rooms(self._rooms.rooms)

    def name_at(self, xy: Array, taken: Collection[str]) -> str | None:
        """A name that is not taken for a position ``(2,)``; None where no rooms can be told apart, and outside."""
        number = self._rooms.at(xy)
        if len(self._names) < 2 or number < 0:
            return None
        room, name = self._rooms.rooms[number], self._names[number]
        if name not in taken and not room.is_corridor:
            return name
        x, y = turned(np.array([xy]), self._rooms.turn)[0].tolist()
        part = _where((x, y), room.low, room.high) or "middle"
        part += " end" if room.is_corridor and part != "middle" else ""
        return _first_free(name, part, taken)


def _first_free(name: str, part: str, taken: Collection[str]) -> str:
    """``name (part)``, ``name (part 2)`` and so on: the first that is not taken."""
    found = f"{name} ({part})"
    for number in itertools.count(2):
        if found not in taken:
            break
        found = f"{name} ({part} {number})"
    return found


def _names_of_rooms(rooms: Sequence[PlanRoom]) -> list[str]:
    """A name for each room: what it is and where it lies; with letters where several would have the same."""
    if not rooms:
        return []
    low = min(r.low[0] for r in rooms), min(r.low[1] for r in rooms)
    high = max(r.high[0] for r in rooms), max(r.high[1] for r in rooms)
    kinds = Counter(room.is_corridor for room in rooms)
    plain = []
    for room in rooms:
        where = _where(room.middle, low, high) or "middle"
        kind = "corridor" if room.is_corridor else "room"
        plain.append(kind if room.is_corridor and kinds[True] == 1 else f"{where} {kind}")
    return _lettered(plain, rooms)


def _lettered(names: Sequence[str], rooms: Sequence[PlanRoom]) -> list[str]:
    """The names, those that occur several times with letters from left to right; a number would meet a percentage."""
    times = Counter(names)
    found = list(names)
    for name in (n for n, count in times.items() if count > 1):
        same = sorted((i for i, n in enumerate(names) if n == name), key=lambda i: rooms[i].middle)
        for number, i in enumerate(same):
            found[i] = f"{name} {_letters(number)}"
    return found


def _letters(number: int) -> str:
    """``A`` to ``Z``, then ``AA`` and so on."""
    before = _letters(number // 26 - 1) if number >= 26 else ""
    return before + chr(ord("A") + number % 26)


def _where(at: Corner, low: Corner, high: Corner) -> str:
    """``top left``, ``right`` and so on within a box; empty in its middle."""
    share = [(a - b) / max(c - b, 1e-9) for a, b, c in zip(at, low, high, strict=True)]
    across = "left" if share[0] < _LOW else "right" if share[0] > _HIGH else ""
    along = "bottom" if share[1] < _LOW else "top" if share[1] > _HIGH else ""
    return f"{along} {across}".strip()
