"""Global search for the pose of points in the house: all positions and headings are scored, the best few are kept.

The score is that of the correlative search, on its pyramid one level up: there a block of cells holds the best of its
cells, so that the coarse search misses no pose. Each pose is then refined within its own window.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.geometry import wrap_angle
from svfm_ros.slam.matching.correlative import Pyramid, Window, pyramid_from_grid, search
from svfm_ros.types import OccupancyGrid, Pose2
from svfm_ros.walks.reference_map import FREE, WALL, ReferenceMap

__all__ = ["Candidate", "GlobalSearch", "same_pose"]

Array = NDArray[np.float64]

_COARSE = 2  # a cell of the search is this many cells of the reference map wide
_UNKNOWN = 70  # of 255: score of a point in an unknown cell: neither a match nor much of a mismatch
_DEPTH = 2  # levels of the pyramid
_BLOCK = 1 << (_DEPTH - 1)  # cells of the search per block of its coarsest level
_MOST_BLOCKS = 4000  # of the best score; the rest are not considered


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pose in the house, and the mean score of the points there, 0 to 1."""

    T_house_points: Pose2
    score: float


class GlobalSearch:
    """The global search in one reference map; made once, used for many walks."""

    def __init__(self, reference: ReferenceMap) -> None:
        self._pyramid = _pyramid(reference)

    def best(self, points: Array, count: int, apart_m: float, apart_rad: float) -> list[Candidate]:
        """At most ``count`` poses of points ``(N, 2)``, best first, no two of them the same (``same_pose``)."""
        middle = points.mean(axis=0)
        around = points - middle
        blocks = self._blocks(around)
        kept: list[Candidate] = []
        for pose in blocks:
            if len(kept) == count:
                break
            if not any(same_pose(pose, k.T_house_points, apart_m, apart_rad) for k in kept):
                kept.append(self._refined(around, pose))
        T_middle_points = Pose2(-float(middle[0]), -float(middle[1]), 0.0)
        found = [Candidate(k.T_house_points @ T_middle_points, k.score) for k in kept]
        return sorted(found, key=lambda k: -k.score)

    def _blocks(self, around: Array) -> list[Pose2]:
        """Poses at the middles of blocks of cells, at all headings, best score first."""
        pyramid = self._pyramid
        size_m = _BLOCK * pyramid.resolution_m
        radius_m = float(np.quantile(np.hypot(around[:, 0], around[:, 1]), 0.9))
        turns = np.linspace(-np.pi, np.pi, int(np.clip(2 * np.pi * radius_m / size_m, 36, 360)), endpoint=False)
        scores = _score_blocks(pyramid.levels[-1], pyramid.unknown, pyramid.resolution_m, around, turns, _BLOCK)
        best = np.argpartition(-scores, min(_MOST_BLOCKS, scores.size - 1), axis=None)[:_MOST_BLOCKS]
        order = best[np.argsort(-scores.ravel()[best])]
        turn, row, column = np.unravel_index(order, scores.shape)
        x, y = (
            pyramid.origin[i] + (at * _BLOCK + 0.5 * _BLOCK) * pyramid.resolution_m for i, at in ((0, column), (1, row))
        )
        return [Pose2(float(a), float(b), float(turns[t])) for a, b, t in zip(x, y, turn, strict=True)]

    def _refined(self, around: Array, pose: Pose2) -> Candidate:
        """The best pose within the block and its neighbours."""
        reach_m = 1.5 * _BLOCK * self._pyramid.resolution_m
        fit = search(self._pyramid, around, Window(pose, reach_m, turn_rad=0.12))
        return Candidate(pose, 0.0) if fit is None else Candidate(fit.T_target_source, fit.score)


def same_pose(a: Pose2, b: Pose2, apart_m: float, apart_rad: float) -> bool:
    """Whether two poses differ by less than both distances."""
    turn = abs(float(wrap_angle(a.theta - b.theta)))
    return bool(np.hypot(a.x - b.x, a.y - b.y) < apart_m and turn < apart_rad)


def _pyramid(reference: ReferenceMap) -> Pyramid:
    """The pyramid of the reference map at a coarser resolution: a cell is wall if any part is, else free if any is."""
    height, width = (-(-n // _COARSE) * _COARSE for n in reference.cells.shape)
    cells = np.zeros((height, width), dtype=np.uint8)
    cells[: reference.cells.shape[0], : reference.cells.shape[1]] = reference.cells
    blocks = cells.reshape(height // _COARSE, _COARSE, width // _COARSE, _COARSE)
    wall, free = (blocks == WALL).any(axis=(1, 3)), (blocks == FREE).any(axis=(1, 3))
    prob = np.where(wall, 1.0, np.where(free, 0.0, np.nan)).astype(np.float32)
    corner = Pose2(float(reference.corner[0]), float(reference.corner[1]), 0.0)
    return pyramid_from_grid(OccupancyGrid(prob, reference.resolution_m * _COARSE, corner), _DEPTH, _UNKNOWN)


@kernel
def _score_blocks(
    level: NDArray[np.uint8], unknown: int, resolution_m: float, around: Array, turns: Array, block: int
) -> NDArray[np.float32]:
    """Mean score of the points with their middle in each block, at each heading: ``(turns, rows, columns)``."""
    height, width = level.shape
    rows, columns = height // block, width // block
    # Cells a block apart lie side by side in these planes, so that the innermost loop runs over neighbours in memory.
    planes = np.zeros((block, block, rows, columns), dtype=np.int16)
    for r in range(rows * block):
        for k in range(columns * block):
            planes[r % block, k % block, r // block, k // block] = np.int16(level[r, k]) - np.int16(unknown)
    scores = np.empty((len(turns), rows, columns), dtype=np.float32)
    total = np.empty((rows, columns), dtype=np.int32)
    for t in range(len(turns)):
        c, s = np.cos(turns[t]), np.sin(turns[t])
        total[:] = unknown * len(around)
        for n in range(len(around)):
            dx = int(np.floor((c * around[n, 0] - s * around[n, 1]) / resolution_m))
            dy = int(np.floor((s * around[n, 0] + c * around[n, 1]) / resolution_m))
            plane, down, left = planes[dy % block, dx % block], dy // block, dx // block
            first, last = max(0, -left), min(columns, columns - left)
            for r in range(max(0, -down), min(rows, rows - down)):
                into, row = total[r, first:last], plane[r + down, first + left : last + left]
                for k in range(len(into)):
                    into[k] += row[k]
        scores[t] = total / np.float32(255.0 * len(around))
    return scores
