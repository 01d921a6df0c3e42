"""Keyframes: the scans that the map is made of, their poses, and how far apart they are along the path.

All clouds lie in one growing pool, so that compiled code can walk through many of them at once. Keyframes are linked
along the path and across accepted loop closures; two of them are *near* when a short walk along links joins them. Near
keyframes agree with each other well enough to be drawn into one local map; keyframes that merely lie at the same place
after a long unclosed tour do not.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.slam.growing_array import grown
from svfm_ros.slam.preprocess import Cloud, filled
from svfm_ros.types import Pose2

__all__ = ["KeyframeView", "Keyframes", "MapView", "Pool"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_LOOP_COST_M = 1.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Points of all keyframes, each in its own frame; keyframe k owns rows ``starts[k]`` to ``starts[k + 1]``."""

    points: NDArray[np.float32]  # (P, 4): x, y, normal x, normal y
    starts: Ints  # (K + 1,)


@dataclass(frozen=True, slots=True)
class KeyframeView:
    """What the map is drawn from: a pose and the points seen from there."""

    keyframe_id: int
    stamp_ns: int
    T_map_keyframe: Pose2
    points: NDArray[np.float32]  # (N, 2), in the keyframe's frame


@dataclass(frozen=True, slots=True)
class MapView:
    """The map as it was at one moment; later keyframes do not change it."""

    pool: Pool
    poses: Array  # (K, 3)
    walked_m: Array  # (K,), length of the path up to each keyframe
    progress: Array  # (K,), keyframes up to each, long steps counting more
    doubts: Array  # (K, 2), sums of the steps' variances up to each keyframe: of place (m²) and of turn (rad²)
    islands: Ints  # (K,), equal for keyframes whose relative pose is known


class Keyframes:
    """Grows by one keyframe at a time; poses may be rewritten as a whole."""

    def __init__(self, distance_m: float) -> None:
        """``distance_m`` is the usual distance between keyframes."""
        self._distance_m = distance_m
        self._points = np.empty((4096, 4), dtype=np.float32)
        self._starts = np.zeros(257, dtype=np.int64)
        self._poses = np.empty((256, 3))
        self._walked_m = np.zeros(256)
        self._progress = np.zeros(256)
        self._doubts = np.zeros((256, 2))
        self._chains = np.zeros(256, dtype=np.int64)
        self._islands = [0]  # by chain
        self._links: list[dict[int, float]] = []
        self._loops: list[tuple[int, int]] = []
        self.stamps_ns: list[int] = []

    @classmethod
    def restored(
        cls, distance_m: float, stamps_ns: Ints, view: MapView, chains: Ints, ways: Iterable[tuple[int, int]]
    ) -> "Keyframes":
        """As they were once; ``ways`` are the links along the path, loops are yet to be set."""
        self = cls(distance_m)
        self._points, self._starts = view.pool.points.copy(), view.pool.starts.copy()
        self._poses, self._doubts, self._chains = view.poses.copy(), view.doubts.copy(), chains.copy()
        self._walked_m, self._progress = view.walked_m.copy(), view.progress.copy()
        self._islands = list(range(int(chains.max(initial=0)) + 1))
        self._links = [{} for _ in stamps_ns]
        self.stamps_ns = [int(s) for s in stamps_ns]
        for a, b in ways:
            self._link(a, b, float(self._walked_m[b] - self._walked_m[b - 1]))
        return self

    def __len__(self) -> int:
        return len(self.stamps_ns)

    @property
    def poses(self) -> Array:
        """``T_map_keyframe`` of all ``(K, 3)``; a view."""
        return self._poses[: len(self)]

    @property
    def walked_m(self) -> Array:
        """Length of the path up to each keyframe ``(K,)``; a view."""
        return self._walked_m[: len(self)]

    @property
    def progress(self) -> Array:
        """Keyframes so far ``(K,)``, but a long step counts as as many as usually lie on it; a view."""
        return self._progress[: len(self)]

    @property
    def doubts(self) -> Array:
        """Sums of the steps' variances up to each keyframe ``(K, 2)``: of place and of turn; a view."""
        return self._doubts[: len(self)]

    @property
    def chains(self) -> Ints:
        """Equal for keyframes that were tracked without a break ``(K,)``, counting up; a view."""
        return self._chains[: len(self)]

    @property
    def islands(self) -> Ints:
        """Equal for keyframes whose relative pose is known ``(K,)``: one chain, or chains joined by a loop."""
        return np.array(self._islands, dtype=np.int64)[self._chains[: len(self)]]

    @property
    def mainland(self) -> NDArray[np.bool_]:
        """Which keyframes are on the largest island ``(K,)``."""
        islands = self.islands
        return np.asarray(islands == np.argmax(np.bincount(islands, minlength=1)))

    @property
    def pool(self) -> Pool:
        """All points so far; views that stay as they are when keyframes are added."""
        used = self._starts[len(self)]
        return Pool(self._points[:used], self._starts[: len(self) + 1])

    def add(
        self, stamp_ns: int, cloud: Cloud, T_map_keyframe: Array, *, before: int | None, doubt: Array | None = None
    ) -> int:
        """Append a keyframe; returns its id, which counts from zero.

        ``before`` is the one that the sensor came from; without it a new chain begins, an island until a loop joins it.
        ``doubt`` (2,) holds the variances of the step: of place, in its least sure direction, and of turn.
        """
        cloud = filled(cloud)
        k, used = len(self), int(self._starts[len(self)])
        self._points = grown(self._points, used + len(cloud))
        self._starts = grown(self._starts, k + 2)
        self._poses = grown(self._poses, k + 1)
        self._points[used : used + len(cloud), :2] = cloud.points
        self._points[used : used + len(cloud), 2:] = cloud.normals
        self._starts[k + 1] = used + len(cloud)
        self._poses[k] = T_map_keyframe
        self._walked_m, self._chains = grown(self._walked_m, k + 1), grown(self._chains, k + 1)
        self._doubts = grown(self._doubts, k + 1)
        self._doubts[k] = (self._doubts[k - 1] if k else 0.0) + (0.0 if doubt is None else doubt)
        if before is None and k:
            self._islands.append(len(self._islands))
        self._chains[k] = len(self._islands) - 1
        self._walked_m[k] = self._walked_m[k - 1] if k else 0.0
        self._progress = grown(self._progress, k + 1)
        self._progress[k] = self._progress[k - 1] + 1.0 if k else 0.0
        self.stamps_ns.append(stamp_ns)
        self._links.append({})
        if before is not None:
            length_m = float(np.hypot(*(self._poses[k, :2] - self._poses[before, :2])))
            self._walked_m[k] += length_m
            self._progress[k] += max(0.0, length_m / self._distance_m - 1.0)
            self._link(before, k, length_m)
        return k

    def _link(self, a: int, b: int, length_m: float) -> None:
        self._links[a][b] = self._links[b][a] = length_m

    def set_loops(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Replace all links across loops by these; passing one costs as much as a metre of path."""
        for a, b in self._loops:
            self._links[a].pop(b, None)
            self._links[b].pop(a, None)
        self._loops = [(a, b) for a, b in pairs if b not in self._links[a]]
        for a, b in self._loops:
            self._link(a, b, _LOOP_COST_M)
        self._join_islands()

    def _join_islands(self) -> None:
        self._islands = list(range(len(self._islands)))
        for a, b in self._loops:
            one, other = (self._islands[int(self._chains[k])] for k in (a, b))
            self._islands = [min(one, other) if i in (one, other) else i for i in self._islands]

    def chain_start(self, k: int) -> int:
        """The first keyframe of k's chain."""
        return int(np.searchsorted(self._chains[: len(self)], self._chains[k]))

    def view(self, k: int) -> "KeyframeView":
        """One keyframe by itself."""
        points = self._points[self._starts[k] : self._starts[k + 1], :2]
        return KeyframeView(k, self.stamps_ns[k], Pose2.from_array(self._poses[k]), points)

    def snapshot(self) -> MapView:
        """The map as it is now, for others to look at."""
        return MapView(
            self.pool, self.poses.copy(), self.walked_m.copy(), self.progress.copy(), self.doubts.copy(), self.islands
        )

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
            behind = geometry.relative(self._poses[n - 1], self._poses[n:k])
            self._poses[n:k] = geometry.compose(poses[-1], behind)
        self._poses[:n] = poses
