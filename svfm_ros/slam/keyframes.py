"""Keyframes: the scans that the map is made of, their poses, and how far apart they are along the path.

All clouds lie in one growing pool, so that compiled code can walk through many of them at once. Keyframes are linked
along the path and across accepted loop closures; two of them are *near* when a short walk along links joins them. Near
keyframes agree with each other well enough to be drawn into one local map; keyframes that merely lie at the same place
after a long unclosed tour do not.
"""

import heapq
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from svfm_ros import se2
from svfm_ros.slam.preprocess import Cloud

__all__ = ["Keyframes", "Pool"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Pool:
    """Points of all keyframes, each in its own frame; keyframe k owns rows ``starts[k]`` to ``starts[k + 1]``."""

    points: NDArray[np.float32]  # (P, 4): x, y, normal x, normal y
    starts: Ints  # (K + 1,)


class Keyframes:
    """Grows by one keyframe at a time; poses may be rewritten as a whole."""

    def __init__(self) -> None:
        self._points = np.empty((4096, 4), dtype=np.float32)
        self._starts = np.zeros(257, dtype=np.int64)
        self._poses = np.empty((256, 3))
        self._links: list[dict[int, float]] = []
        self.stamps_ns: list[int] = []

    def __len__(self) -> int:
        return len(self.stamps_ns)

    @property
    def poses(self) -> Array:
        """``T_map_keyframe`` of all ``(K, 3)``; a view."""
        return self._poses[: len(self)]

    @property
    def pool(self) -> Pool:
        """All points so far; views that stay as they are when keyframes are added."""
        used = self._starts[len(self)]
        return Pool(self._points[:used], self._starts[: len(self) + 1])

    def add(self, stamp_ns: int, cloud: Cloud, T_map_keyframe: Array) -> int:
        """Append a keyframe; returns its id, which counts from zero."""
        k, used = len(self), int(self._starts[len(self)])
        self._points = _with_room(self._points, used + len(cloud))
        self._starts = _with_room(self._starts, k + 2)
        self._poses = _with_room(self._poses, k + 1)
        self._points[used : used + len(cloud), :2] = cloud.points
        self._points[used : used + len(cloud), 2:] = cloud.normals
        self._starts[k + 1] = used + len(cloud)
        self._poses[k] = T_map_keyframe
        self.stamps_ns.append(stamp_ns)
        self._links.append({})
        return k

    def link(self, a: int, b: int, length_m: float) -> None:
        """Join two keyframes by a stretch of path (its length) or by a loop closure (a small price)."""
        self._links[a][b] = self._links[b][a] = length_m

    def unlink(self, a: int, b: int) -> None:
        """Take a loop closure's link back."""
        self._links[a].pop(b, None)
        self._links[b].pop(a, None)

    def near(self, k: int, most: int, walk_m: float, reach_m: float) -> Ints:
        """Up to ``most`` keyframes nearest to k along links, ``walk_m`` at most; those out of reach are skipped."""
        centre, poses = self._poses[k, :2].copy(), self._poses
        found: list[int] = []
        done: set[int] = set()
        heap = [(0.0, k)]
        while heap and len(found) < most:
            walked_m, i = heapq.heappop(heap)
            if i in done:
                continue
            done.add(i)
            if abs(poses[i, 0] - centre[0]) <= reach_m and abs(poses[i, 1] - centre[1]) <= reach_m:
                found.append(i)
            for j, length_m in self._links[i].items():
                if j not in done and walked_m + length_m <= walk_m:
                    heapq.heappush(heap, (walked_m + length_m, j))
        return np.array(sorted(found), dtype=np.int64)

    def rewrite(self, poses: Array) -> None:
        """New poses of the first keyframes; later ones keep their place behind the last of them."""
        n, k = len(poses), len(self)
        if n < k:
            behind = se2.relative(self._poses[n - 1], self._poses[n:k])
            self._poses[n:k] = se2.compose(poses[-1], behind)
        self._poses[:n] = poses


def _with_room(array: NDArray[T], rows: int) -> NDArray[T]:
    """The array itself, or a copy twice as long; a view given out before keeps the old one."""
    if rows <= len(array):
        return array
    grown = np.empty((max(rows, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
