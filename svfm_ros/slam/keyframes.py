"""Keyframes: clouds, poses, links along the path and across loop closures; and the choice of the reference keyframe.

All clouds share one array, for compiled code. Two keyframes are *near* when a short path along links joins them;
near keyframes are consistent enough to form one local map, which keyframes at the same position after a long path
without loop closure are not. A *chain* is a sequence of keyframes tracked without a break; a *piece* of the map is
a set of chains joined by loop closures. Relative poses are known within a piece only.

The reference keyframe of a scan is the newest, a new one, or an old one in a known part of the map. A resident walks
the same paths for months: where enough keyframes with a similar pose exist, no keyframe is added and the scan refers to
one of them, so map and memory stop growing once the home is known. A scan that matches the map badly (a closed door, a
moved chair) becomes a keyframe as well, until there are several times as many.
"""

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.matching.pose_covariance import information_with_floor, turned, worst_variances
from svfm_ros.slam.preprocess import Cloud, filled
from svfm_ros.types import Constraint, MatchResult, Pose2

__all__ = [
    "KeyframeView",
    "Keyframes",
    "MapView",
    "Pool",
    "familiar_keyframe",
    "grown",
    "needs_keyframe",
    "relocalisation_constraint",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

_LOOP_LENGTH_M = 1.0  # of a link across a loop closure
_CERTAIN_M, _CERTAIN_WALK_M = 0.5, 60.0  # with a smaller standard deviation, links are followed over this path length


@dataclass(frozen=True, slots=True)
class Pool:
    """Points of all keyframes, each in its own frame; keyframe k owns rows ``starts[k]`` to ``starts[k + 1]``."""

    points: NDArray[np.float32]  # (P, 4): x, y, normal x, normal y
    starts: Ints  # (K + 1,)


@dataclass(frozen=True, slots=True)
class KeyframeView:
    """A keyframe's pose and points, to draw the map from."""

    keyframe_id: int
    stamp_ns: int
    T_map_keyframe: Pose2
    points: NDArray[np.float32]  # (N, 2), in the keyframe's frame


@dataclass(frozen=True, slots=True)
class MapView:
    """A snapshot of the map; keyframes added later do not change it."""

    pool: Pool
    poses: Array  # (K, 3)
    walked_m: Array  # (K,), length of the path up to each keyframe
    progress: Array  # (K,), keyframes up to each; a long step counts as several
    variances: Array  # (K, 2), cumulative variances of the steps: position (m²) and heading (rad²)
    pieces: Ints  # (K,), number of the piece of the map that each keyframe belongs to


class Keyframes:
    """All keyframes; poses may be replaced as a whole."""

    def __init__(self, distance_m: float) -> None:
        """``distance_m`` is the usual distance between keyframes."""
        self._distance_m = distance_m
        self._points = np.empty((4096, 4), dtype=np.float32)
        self._starts = np.zeros(257, dtype=np.int64)
        self._poses = np.empty((256, 3))
        self._walked_m = np.zeros(256)
        self._progress = np.zeros(256)
        self._variances = np.zeros((256, 2))
        self._chains = np.zeros(256, dtype=np.int64)
        self._pieces = [0]  # by chain
        self._links: list[dict[int, float]] = []
        self._loops: list[tuple[int, int]] = []
        self.stamps_ns: list[int] = []

    @classmethod
    def restored(
        cls, distance_m: float, stamps_ns: Ints, view: MapView, chains: Ints, links: Iterable[tuple[int, int]]
    ) -> "Keyframes":
        """Keyframes from saved arrays; ``links`` are those along the path, loops are set afterwards."""
        self = cls(distance_m)
        self._points, self._starts = view.pool.points.copy(), view.pool.starts.copy()
        self._poses, self._variances, self._chains = view.poses.copy(), view.variances.copy(), chains.copy()
        self._walked_m, self._progress = view.walked_m.copy(), view.progress.copy()
        self._pieces = list(range(int(chains.max(initial=0)) + 1))
        self._links = [{} for _ in stamps_ns]
        self.stamps_ns = [int(s) for s in stamps_ns]
        for a, b in links:
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
        """Keyframes so far ``(K,)``, a step longer than usual counting as several; a view."""
        return self._progress[: len(self)]

    @property
    def variances(self) -> Array:
        """Cumulative variances of the steps up to each keyframe ``(K, 2)``: position, heading; a view."""
        return self._variances[: len(self)]

    @property
    def chains(self) -> Ints:
        """Number of each keyframe's chain ``(K,)``, ascending; a view."""
        return self._chains[: len(self)]

    @property
    def pieces(self) -> Ints:
        """Number of each keyframe's piece ``(K,)``: a chain, or chains joined by loops."""
        return np.array(self._pieces, dtype=np.int64)[self._chains[: len(self)]]

    @property
    def in_largest_piece(self) -> NDArray[np.bool_]:
        """Which keyframes belong to the largest piece ``(K,)``."""
        pieces = self.pieces
        return np.asarray(pieces == np.argmax(np.bincount(pieces, minlength=1)))

    @property
    def pool(self) -> Pool:
        """All points so far; views that later keyframes do not change."""
        used = self._starts[len(self)]
        return Pool(self._points[:used], self._starts[: len(self) + 1])

    def add(
        self, stamp_ns: int, cloud: Cloud, T_map_keyframe: Array, *, before: int | None, variance: Array | None = None
    ) -> int:
        """Append a keyframe; returns its id, which counts from zero.

        ``before`` is the reference keyframe that the sensor came from; without it a new chain begins.
        ``variance`` (2,) is that of the step: position along its least certain direction, and heading.
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
        self._variances = grown(self._variances, k + 1)
        self._variances[k] = (self._variances[k - 1] if k else 0.0) + (0.0 if variance is None else variance)
        if before is None and k:
            self._pieces.append(len(self._pieces))
        self._chains[k] = len(self._pieces) - 1
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
        """Replace all links across loops; each has a length of one metre."""
        for a, b in self._loops:
            self._links[a].pop(b, None)
            self._links[b].pop(a, None)
        self._loops = [(a, b) for a, b in pairs if b not in self._links[a]]
        for a, b in self._loops:
            self._link(a, b, _LOOP_LENGTH_M)
        self._join_pieces()

    def _join_pieces(self) -> None:
        self._pieces = list(range(len(self._pieces)))
        for a, b in self._loops:
            one, other = (self._pieces[int(self._chains[k])] for k in (a, b))
            self._pieces = [min(one, other) if i in (one, other) else i for i in self._pieces]

    def chain_start(self, k: int) -> int:
        """The first keyframe of k's chain."""
        return int(np.searchsorted(self._chains[: len(self)], self._chains[k]))

    def view(self, k: int) -> "KeyframeView":
        """Pose and points of one keyframe."""
        points = self._points[self._starts[k] : self._starts[k + 1], :2]
        return KeyframeView(k, self.stamps_ns[k], Pose2.from_array(self._poses[k]), points)

    def snapshot(self) -> MapView:
        """A snapshot of the map, for another thread."""
        return MapView(
            self.pool, self.poses.copy(), self.walked_m.copy(), self.progress.copy(), self.variances.copy(), self.pieces
        )

    def near(self, k: int, most: int, reach_m: float, along_m: float | None = None) -> Ints:
        """Up to ``most`` keyframes nearest to k along links; those out of reach are skipped.

        Links are followed for ``along_m``, else as far as ``most`` keyframes at their usual distance go. Where
        keyframes are sparse they are followed farther, as long as the steps between were certain: so all walls in view
        are in the local map, and the heading drifts less.
        """
        usual_m = most * self._distance_m if along_m is None else along_m
        variances_m2 = self._variances[: len(self), 0]
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
                is_certain = abs(variances_m2[k] - variances_m2[j]) <= _CERTAIN_M**2
                if j not in done and walked_m + length_m <= (max(usual_m, _CERTAIN_WALK_M) if is_certain else usual_m):
                    heapq.heappush(heap, (walked_m + length_m, j))
        return np.array(sorted(found), dtype=np.int64)

    def rewrite(self, poses: Array) -> None:
        """New poses of the first keyframes; later ones move rigidly with the last of them."""
        n, k = len(poses), len(self)
        if n < k:
            behind = geometry.relative(self._poses[n - 1], self._poses[n:k])
            self._poses[n:k] = geometry.compose(poses[-1], behind)
        self._poses[:n] = poses


def grown(array: NDArray[T], rows: int) -> NDArray[T]:
    """The array itself if it has that many rows, else a copy of at least twice its length; old views stay valid."""
    if rows <= len(array):
        return array
    longer = np.empty((max(rows, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


_NEW_VIEW = 0.6  # with a smaller share of inliers a keyframe is added after a shorter distance
_NEW_VIEW_M, _NEW_VIEW_RAD = 0.1, 0.15
_AMBIGUOUS_M = 0.3  # the same with a larger standard deviation, because the pose graph corrects only keyframes
_FAMILIAR_RATIO = 0.85  # minimum share of inliers in a known part of the map
_MORE_WHERE_CHANGED = 4  # times as many similar keyframes are kept where a smaller share of the scan matches
_FAMILIAR_M, _FAMILIAR_RAD = 0.4, 0.5  # largest pose difference of keyframes that count as similar
_LONGEST_STEP_M = 5.0  # between reference keyframe and scan, for the search of similar keyframes
_FARTHEST = 0.8  # largest distance from the keyframe that a scan refers to, in keyframe distances
_RELOCALISATION_FLOOR = np.array([0.02, 0.02, 0.004])  # minimum standard deviations: m, m, rad


def needs_keyframe(moved: Pose2, match: MatchResult, config: SlamConfig) -> bool:
    """Whether a scan that ``moved`` away from its keyframe needs another one."""
    distance_m, turn_rad = math.hypot(moved.x, moved.y), abs(moved.theta)
    if distance_m >= config.keyframe_distance_m or turn_rad >= config.keyframe_turn_rad:
        return True
    is_ambiguous = float(worst_variances(match.information)[0]) > _AMBIGUOUS_M**2
    return (match.inlier_ratio < _NEW_VIEW or is_ambiguous) and (distance_m >= _NEW_VIEW_M or turn_rad >= _NEW_VIEW_RAD)


def familiar_keyframe(keyframes: Keyframes, reference: int, match: MatchResult, config: SlamConfig) -> int | None:
    """The nearest keyframe, if enough keyframes have a similar pose, several times as many where few points match.

    Keyframes of all earlier visits count if loop closures join them to the reference. After many visits the nearest
    along links are all of the current visit; if only these counted, every visit would add keyframes.
    """
    enough = config.familiar_views * (1 if match.inlier_ratio >= _FAMILIAR_RATIO else _MORE_WHERE_CHANGED)
    if not enough:
        return None
    off = geometry.relative(match.T_target_source.as_array(), keyframes.poses)  # (K, 3)
    distances_m, turns_rad = np.hypot(off[:, 0], off[:, 1]), np.abs(off[:, 2])
    similar = (distances_m <= _FAMILIAR_M) & (turns_rad <= _FAMILIAR_RAD)
    if np.count_nonzero(similar) < enough:
        return None
    along_m = config.local_keyframes * config.keyframe_distance_m
    joined = keyframes.near(reference, len(keyframes), _LONGEST_STEP_M, along_m)
    joined = joined[similar[joined]]
    if len(joined) < enough:
        return None
    gaps = np.maximum(distances_m / config.keyframe_distance_m, turns_rad / config.keyframe_turn_rad)[joined]
    return int(joined[np.argmin(gaps)]) if gaps.min() < _FARTHEST else None


def relocalisation_constraint(poses: Array, old: Ints, k: int, match: MatchResult) -> Constraint:
    """Constraint from the nearest of the ``old`` keyframes to keyframe k, whose pose in their map was found.

    ``poses`` (K, 3) are those of all keyframes.
    """
    T_map_k = match.T_target_source.as_array()
    nearest = int(old[np.argmin(np.hypot(*(poses[old, :2] - T_map_k[:2]).T))])
    information = information_with_floor(turned(match.information, poses[nearest, 2]), _RELOCALISATION_FLOOR)
    return Constraint(nearest, k, Pose2.from_array(geometry.relative(poses[nearest], T_map_k)), information, "loop")
