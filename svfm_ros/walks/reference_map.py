"""The reference map that walks are aligned to: the walls of the house, and what is known to be free.

It comes from an occupancy grid or from a walk, whose frame then becomes the house's. Aligned walks may extend it:
what they saw beyond its edge is added, what is known already stays as it is.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svfm_ros import types
from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.types import OccupancyGrid, Walk
from svfm_ros.walks.long_walls import on_long_walls, surface_normals
from svfm_ros.walks.walk_store import WalkStore

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

__all__ = ["FREE", "UNKNOWN", "WALL", "ReferenceMap", "map_of_store", "sightlines"]

Array = NDArray[np.float64]
Cells = NDArray[np.uint8]

UNKNOWN, FREE, WALL = 0, 1, 2

_RESOLUTION_M = 0.05
_MARGIN_M = 1.0  # unknown cells around everything that was seen
_BEAMS = 180  # lines of sight per position
_GAP = 1.15  # a point this much farther away than its neighbours may be seen through a gap between points: left out
_STEP_M = 0.4  # between positions on the path from which lines of sight are drawn
_SHORT_OF_WALL_M = 0.15  # the end of a line of sight is not marked free: points of the wall scatter
_SHORT_M = 0.25  # the last part of a line of sight, which may lie in the wall
_BODY_M = 0.15  # cells up to this distance from the path are free
_NEW_M = 0.2  # points farther than this from every known wall are new
_MIN_NEIGHBOURS, _NEIGHBOUR_M = 3, 0.2  # a wall point has so many others within this distance


@dataclass(frozen=True)
class ReferenceMap:
    """Wall points, and cells that are unknown, free or wall. Row 0 is at the bottom, as in an occupancy grid."""

    points: Array  # (M, 2), in the house's frame
    cells: Cells  # (H, W)
    resolution_m: float
    corner: Array  # (2,), lower left corner of cell (0, 0)

    @classmethod
    def from_grid(cls, grid: OccupancyGrid) -> "ReferenceMap":
        """From an occupancy grid; its frame is the house's."""
        with np.errstate(invalid="ignore"):
            occupied, free = grid.prob >= types.OCCUPIED_FROM, grid.prob <= types.FREE_UP_TO
        if not occupied.any():
            raise DataError("expected a map with walls, got one without an occupied cell")
        surface, walls, free_xy = (grid.centres_of(c) for c in (_surface(occupied, free), occupied, free))
        return cls._drawn(surface, walls, free_xy, grid.resolution_m)

    @classmethod
    def from_walk(cls, walk: Walk) -> "ReferenceMap":
        """From one walk: its frame becomes the house's."""
        if not len(walk.points):
            raise DataError(f"expected a walk that saw something, got {walk.walk_id} without points")
        points = _with_neighbours(walk.points)
        return cls._drawn(points, points, _seen_free(walk, _RESOLUTION_M), _RESOLUTION_M)

    def extended(self, walk: Walk) -> "ReferenceMap":
        """The map with what an aligned walk (in the house's frame) saw beyond its edge."""
        known = self.classes(walk.points)
        new = _with_neighbours(walk.points[(known == UNKNOWN) & (self.distances(walk.points) > _NEW_M)])
        free = _seen_free(walk, self.resolution_m)
        old_free, old_walls = (_centres(self.cells == c, self.resolution_m) + self.corner for c in (FREE, WALL))
        walls = np.concatenate([old_walls, new])
        points = np.concatenate([self.points, new])
        return self._drawn(points, walls, np.concatenate([old_free, free]), self.resolution_m)

    @classmethod
    def _drawn(cls, points: Array, walls: Array, free: Array, resolution_m: float) -> "ReferenceMap":
        """From wall points for ICP, and points ``(N, 2)`` whose cells are wall or free."""
        everything = np.concatenate([walls, free]) if len(free) else walls
        low = np.floor((everything.min(axis=0) - _MARGIN_M) / resolution_m) * resolution_m
        width, height = (np.ceil((everything.max(axis=0) + _MARGIN_M - low) / resolution_m)).astype(int)
        cells = np.zeros((height, width), dtype=np.uint8)
        for some, kind in ((free, FREE), (walls, WALL)):
            column, row = ((some - low) / resolution_m).astype(int).T if len(some) else (np.empty(0, int),) * 2
            cells[row, column] = kind
        return cls(np.ascontiguousarray(points, dtype=float), cells, resolution_m, low)

    @cached_property
    def tree(self) -> "cKDTree":
        """k-d tree of the wall points."""
        from scipy.spatial import cKDTree

        return cKDTree(self.points)

    @cached_property
    def normals(self) -> Array:
        """Unit vector across the wall at each point ``(M, 2)``; its sign does not matter."""
        return surface_normals(self.points)

    @cached_property
    def _long_walls(self) -> Cells:
        """The cells ``(H, W)`` of long straight walls; all others are unknown."""
        cells = np.zeros_like(self.cells)
        column, row = ((self.points[on_long_walls(self.points, self.normals)] - self.corner) / self.resolution_m).T
        cells[row.astype(int), column.astype(int)] = WALL
        return cells

    @cached_property
    def _distance_m(self) -> NDArray[np.float32]:
        """From each cell to the nearest wall ``(H, W)``."""
        from scipy.ndimage import distance_transform_edt

        return np.asarray(distance_transform_edt(self.cells != WALL) * self.resolution_m, dtype=np.float32)

    def classes(self, points: Array) -> Cells:
        """UNKNOWN, FREE or WALL at points ``(N, 2)``; outside of the map all is unknown."""
        row, column, inside = self._index(points)
        return np.where(inside, self.cells[row, column], UNKNOWN).astype(np.uint8)

    def distances(self, points: Array) -> Array:
        """From points ``(N, 2)`` to the nearest wall in metres; infinite outside of the map."""
        row, column, inside = self._index(points)
        return np.where(inside, self._distance_m[row, column], np.inf)

    def crossed(self, starts: Array, ends: Array, *, long_walls: bool = False) -> NDArray[np.bool_]:
        """Which lines ``(N, 2)`` to ``(N, 2)`` go through a wall, or through a long straight one, well before they end.

        A line may end in the wall that it saw.
        """
        cells = self._long_walls if long_walls else self.cells
        a, b = (np.ascontiguousarray((p - self.corner) / self.resolution_m) for p in (starts, ends))
        return np.asarray(_crossed(cells, a, b, _SHORT_M / self.resolution_m))

    def _index(self, points: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        height, width = self.cells.shape
        column, row = np.floor((np.asarray(points, dtype=float) - self.corner) / self.resolution_m).astype(np.int64).T
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        return np.clip(row, 0, height - 1), np.clip(column, 0, width - 1), inside


def map_of_store(store: WalkStore, most: int | None = None) -> ReferenceMap | None:
    """The reference map of the aligned walks of a store, or of ``most`` of them; None where they have no points."""
    known = store.ids_by_alignment(accepted=True)
    count = len(known) if most is None else min(len(known), most)
    house: ReferenceMap | None = None
    for i in np.unique(np.linspace(0, len(known) - 1, count).astype(int)):
        alignment = store.alignment(known[i])
        if alignment is None:  # deleted meanwhile
            continue
        walk = store.load(known[i]).in_house(alignment.T_house_walk)
        if len(walk.points):
            house = ReferenceMap.from_walk(walk) if house is None else house.extended(walk)
    return house


def sightlines(walk: Walk) -> tuple[Array, Array]:
    """Lines of sight from positions on the path to what was seen from there: starts and ends ``(N, 2)``.

    A walk does not store from where each point was seen. In each direction the nearest point is taken, as it hides
    those behind it. Between the points of a wall are gaps: a point seen only through a gap is left out.
    """
    starts, ends = [], []
    for position in _positions(walk):
        offset = walk.points - position
        distance = np.hypot(offset[:, 0], offset[:, 1])
        beam = ((np.arctan2(offset[:, 1], offset[:, 0]) / (2 * np.pi) + 0.5) * _BEAMS).astype(int) % _BEAMS
        nearest_m = np.full(_BEAMS, np.inf)
        np.minimum.at(nearest_m, beam, distance)
        beside_m = np.minimum(np.roll(nearest_m, 1), np.roll(nearest_m, -1))
        seen = (distance <= nearest_m[beam]) & (distance <= _GAP * beside_m[beam])
        ends.append(walk.points[seen])
        starts.append(np.broadcast_to(position, ends[-1].shape))
    return (np.concatenate(starts), np.concatenate(ends)) if starts else (np.empty((0, 2)), np.empty((0, 2)))


def _positions(walk: Walk) -> Array:
    """Positions ``(N, 2)`` along the path, ``_STEP_M`` apart."""
    walked_m = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(walk.xy, axis=0).T))])
    wanted = np.arange(0.0, walked_m[-1] + _STEP_M, _STEP_M)
    return walk.xy[np.unique(np.clip(np.searchsorted(walked_m, wanted), 0, len(walked_m) - 1))]


def _seen_free(walk: Walk, resolution_m: float) -> Array:
    """Centres ``(N, 2)`` of free cells: those along lines of sight and those near the path."""
    starts, ends = sightlines(walk)
    length = np.hypot(*(ends - starts).T)
    steps = np.maximum(((length - _SHORT_OF_WALL_M) / resolution_m).astype(int), 0)
    line = np.repeat(np.arange(len(starts)), steps)
    nth = np.arange(len(line)) - np.repeat(np.cumsum(steps) - steps, steps)
    along = (nth * resolution_m / np.maximum(length[line], 1e-9))[:, None]
    seen = starts[line] + along * (ends - starts)[line]
    angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    ring = _BODY_M * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    walked = (walk.xy[:, None] + ring).reshape(-1, 2)
    cells = np.unique(np.floor(np.concatenate([seen, walked, walk.xy]) / resolution_m).astype(np.int64), axis=0)
    return np.asarray((cells + 0.5) * resolution_m, dtype=np.float64)


def _with_neighbours(points: Array) -> Array:
    """Points with others near by; single ones are noise, or a person who passed."""
    from scipy.spatial import cKDTree

    if len(points) <= _MIN_NEIGHBOURS:
        return points[:0]
    farthest_m = np.asarray(cKDTree(points).query(points, _MIN_NEIGHBOURS + 1)[0])[:, -1]
    return points[farthest_m <= _NEIGHBOUR_M]


def _centres(chosen: NDArray[np.bool_], resolution_m: float) -> Array:
    """Centres ``(N, 2)`` of the chosen cells, in the grid's frame."""
    row, column = np.nonzero(chosen)
    return np.asarray((np.stack([column, row], axis=-1) + 0.5) * resolution_m, dtype=np.float64)


def _surface(occupied: NDArray[np.bool_], free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Occupied cells beside a free one; all occupied cells where there are none."""
    beside = np.zeros_like(occupied)
    for axis in (0, 1):
        for shift in (-1, 1):
            beside |= np.roll(free, shift, axis=axis)
    surface = occupied & beside
    return surface if surface.any() else occupied


@kernel
def _crossed(cells: Cells, starts: Array, ends: Array, short: float) -> NDArray[np.bool_]:
    height, width = cells.shape
    out = np.zeros(len(starts), dtype=np.bool_)
    for n in range(len(starts)):
        dx, dy = ends[n, 0] - starts[n, 0], ends[n, 1] - starts[n, 1]
        length = np.hypot(dx, dy)
        for k in range(int(max(0.0, length - short) * 2)):
            at = 0.5 * k / length
            c, r = int(np.floor(starts[n, 0] + at * dx)), int(np.floor(starts[n, 1] + at * dy))
            if 0 <= r < height and 0 <= c < width and cells[r, c] == 2:
                out[n] = True
                break
    return out
