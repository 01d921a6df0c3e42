"""The rooms and corridors of a map, told apart by their doors.

Floor wider than a door is the core of a room; narrower floor that is large enough is a core of its own, such as a
corridor. Cores grow over the rest of the floor. Two that touch along a door's width or more are one room: furniture
stands between them, not a wall.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from svfm_ros.types import FREE_UP_TO, OccupancyGrid, Pose2
from svfm_ros.wall_angle import turned, wall_angle

__all__ = ["PlanRoom", "Rooms", "find_rooms"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Labels = NDArray[np.int32]

_DOOR_M = 1.0  # rooms touch along less than this: a door is narrower
_ROOMY_M = 1.1  # floor is wider than this in the core of a room
_PASSAGE_M = 0.6  # the narrowest floor of a corridor
_ROUNDING = 1e-6  # in cells
_LEAST_M2 = 1.0  # of a room
_LEAST_NARROW_M2 = 1.6  # of one that is nowhere wider than a door: less is the corner of a room
_MOST_FURNITURE_M = 1.0  # what stands free on the floor and is no larger is floor, too
_CORRIDOR_WIDTH_M, _CORRIDOR_LENGTH_M, _CORRIDOR_SHAPE = 1.9, 3.0, 2.5  # at most, at least, length over width at least


@dataclass(frozen=True, slots=True)
class PlanRoom:
    """One room; positions are metres after turning the map so that its walls are upright."""

    middle: tuple[float, float]  # mean of its floor
    low: tuple[float, float]  # lower left corner of the box around it
    high: tuple[float, float]
    is_corridor: bool


@dataclass(frozen=True, slots=True)
class Rooms:
    """All rooms of a map, in the order of their lowest cells."""

    rooms: tuple[PlanRoom, ...]
    turn: float  # angle of the walls in radians: the plan is drawn turned by ``-turn``
    labels: Labels  # (H, W), number of the room from 1 on, 0: none
    resolution_m: float
    T_map_grid: Pose2

    def at(self, xy: Array) -> int:
        """Index of the room at a position ``(2,)`` of the map's frame; -1 in none."""
        column, row = (self.T_map_grid.inverse().apply([xy])[0] / self.resolution_m).tolist()
        inside = 0.0 <= row < self.labels.shape[0] and 0.0 <= column < self.labels.shape[1]
        return int(self.labels[int(row), int(column)]) - 1 if inside else -1


def find_rooms(grid: OccupancyGrid) -> Rooms:
    """The rooms of a map; without doors there is one, or none where no floor is known."""
    floor = _without_furniture(grid)
    turn = wall_angle(grid)
    labels = _grown(_cores(floor, grid.resolution_m), floor)
    labels = _merged(labels, grid.resolution_m)
    labels = _without_small(labels, grid.resolution_m)
    boxes = ndimage.find_objects(labels)
    rooms = tuple(_room(grid, labels, n, box, turn) for n, box in enumerate(boxes, 1))
    return Rooms(rooms, turn, labels, grid.resolution_m, grid.T_map_grid)


def _without_furniture(grid: OccupancyGrid) -> Mask:
    """Known free floor ``(H, W)``, with what stands free on it and is small."""
    floor = np.nan_to_num(grid.prob, nan=1.0) <= FREE_UP_TO
    solid, count = ndimage.label(~np.pad(floor, 1), structure=np.ones((3, 3)))
    most = _MOST_FURNITURE_M / grid.resolution_m
    boxes = ndimage.find_objects(solid)
    small = [n + 1 for n in range(count) if all(s.stop - s.start <= most for s in boxes[n])]
    return np.asarray(floor | np.isin(solid[1:-1, 1:-1], small))


def _cores(floor: Mask, cell_m: float) -> Labels:
    """Numbered parts of the floor: where it is wider than a door, and after them narrower parts that are large."""
    wide = _inner(floor, 0.5 * _ROOMY_M / cell_m)
    labels, count = ndimage.label(wide)
    rest = floor & ~_around(wide, 0.5 * _ROOMY_M / cell_m)
    narrow, narrow_count = ndimage.label(_inner(rest, 0.5 * _PASSAGE_M / cell_m))
    for n in range(1, narrow_count + 1):
        part = rest & _around(narrow == n, 0.5 * _PASSAGE_M / cell_m) & (labels == 0)
        if np.count_nonzero(part) * cell_m**2 >= _LEAST_NARROW_M2:
            count += 1
            labels[part] = count
    return np.asarray(labels, dtype=np.int32)


def _inner(floor: Mask, radius: float) -> Mask:
    """Cells of the floor that are that far, in cells, from what is no floor."""
    return np.asarray(_to_walls(floor) >= radius)


def _to_walls(floor: Mask) -> Array:
    """Distance in cells of each cell of the floor to what is no floor ``(H, W)``."""
    return np.asarray(ndimage.distance_transform_edt(np.pad(floor, 1))[1:-1, 1:-1])


def _around(cells: Mask, radius: float) -> Mask:
    """Cells nearer than that to one of these."""
    return np.asarray(ndimage.distance_transform_edt(~cells) < radius) if cells.any() else cells


def _grown(labels: Labels, floor: Mask) -> Labels:
    """The labels, spread over the floor around them from cell to cell, the cells farthest from walls first.

    So they meet where the floor is narrow: in doors.
    """
    grown = np.pad(labels, 1)
    cells, row = grown.ravel(), grown.shape[1]
    to_walls = np.pad(_to_walls(floor), 1).ravel()
    for least in range(math.ceil(to_walls.max()) - 1, -1, -1):
        waiting = np.flatnonzero((to_walls > least) & (cells == 0))
        while True:
            near = np.max([cells[waiting + step] for step in (-row, -1, 1, row)], axis=0)
            if not near.any():
                break
            cells[waiting[near > 0]] = near[near > 0]
            waiting = waiting[near == 0]
    return grown[1:-1, 1:-1]


def _merged(labels: Labels, cell_m: float) -> Labels:
    """The labels, where those that touch along a door's width or more have become one."""
    while True:
        most = _DOOR_M / cell_m - _ROUNDING
        wide = sorted(pair for pair, cells in _touching(labels).items() if cells > most)
        if not wide:
            return labels
        new = np.arange(int(labels.max()) + 1, dtype=np.int32)
        for kept, dropped in wide:
            new[new == new[dropped]] = new[kept]
        labels = new[labels]


def _touching(labels: Labels) -> dict[tuple[int, int], float]:
    """Length in cells of the line along which two labels (the smaller first) touch."""
    squares: dict[tuple[int, int], int] = {}
    for a, b in ((labels[:, :-1], labels[:, 1:]), (labels[:-1], labels[1:])):
        meet = (a != b) & (a > 0) & (b > 0)
        pairs, counts = np.unique(np.sort(np.stack([a[meet], b[meet]]), axis=0), axis=1, return_counts=True)
        for (low, high), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            squares[low, high] = squares.get((low, high), 0) + count * count
    return {pair: math.sqrt(square) for pair, square in squares.items()}


def _without_small(labels: Labels, cell_m: float) -> Labels:
    """The labels of large rooms, numbered from 1 on by their first cells."""
    numbers, first, cells = np.unique(labels, return_index=True, return_counts=True)
    large = (numbers > 0) & (cells * cell_m**2 >= _LEAST_M2)
    new = np.zeros(int(labels.max(initial=0)) + 1, dtype=np.int32)
    new[numbers[large][np.argsort(first[large])]] = np.arange(1, np.count_nonzero(large) + 1)
    return np.asarray(new[labels])


def _room(grid: OccupancyGrid, labels: Labels, number: int, box: tuple[slice, slice], turn: float) -> PlanRoom:
    """The room of that number, which lies in that box of the grid."""
    cells = labels[box] == number
    corner = np.array([box[1].start, box[0].start]) * grid.resolution_m
    part = OccupancyGrid(grid.prob[box], grid.resolution_m, grid.T_map_grid @ Pose2(float(corner[0]), float(corner[1])))
    xy = turned(part.centres_of(cells), turn)
    width_m = 2.0 * float(_to_walls(cells).max()) * grid.resolution_m
    length_m = len(xy) * grid.resolution_m**2 / width_m
    is_long = length_m >= max(_CORRIDOR_LENGTH_M, _CORRIDOR_SHAPE * width_m)
    corners = (xy.mean(axis=0), xy.min(axis=0), xy.max(axis=0))
    middle, low, high = ((float(x), float(y)) for x, y in corners)
    return PlanRoom(middle, low, high, is_long and width_m <= _CORRIDOR_WIDTH_M)
