"""Relocalisation: the pose of the sensor in a large map, at any position and heading, from the first steps.

A single scan is ambiguous between similar rooms. Until the pose is known, odometry-only SLAM builds a small map, which
is searched for in the large one. The best pose is accepted only if enough of the small map lies on the large one, if
its covariance is small in every direction, and if no other pose scores nearly as well.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.slam.matching.correlative import Fit, Window, search_sectors, thinned
from svfm_ros.slam.matching.keyframe_group import KeyframeGroup
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.pose_covariance import worst_variances
from svfm_ros.slam.matching.scan_matcher import Guess, refine, with_ambiguity
from svfm_ros.slam.motion_model import MotionSource
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import MatchResult, Pose2, Scan, SlamUpdate

__all__ = ["RESTED_M", "GlobalMatch", "LastPose", "Relocaliser", "find_pose", "find_pose_near", "is_same"]

Array = NDArray[np.float64]

RESTED_M = 1.0
"""Half size of the square around the last pose that is searched after a break: so far people shift while they rest."""
_POINTS = 150
_REACH_M = 30.0
_TILE_M = 5.0  # the map is searched in squares of this size
_SECTORS = 8
_MIN_SCORE = 0.5
_MIN_INLIERS, _MIN_TOTAL = 0.65, 1.2  # in a map of another house the best matches have 0.45 and 0.8
_PLAUSIBLE_INLIERS, _PLAUSIBLE_TOTAL = 0.55, 1.0
_SCORE_RANGE = 0.15  # poses that score this much less than the best are refined
_MARGIN = 0.1  # minimum difference of the total score to the second best pose
_MAX_SPREAD_M = 0.15
_LOOK_M = 2.0  # radius in which other poses with a similar score are looked for
_DISTINCT_M, _DISTINCT_RAD = 0.6, 0.3  # poses that differ by more are different ones


@dataclass(frozen=True, slots=True)
class GlobalMatch:
    """The best match in a map, and why it is not accepted; empty when it is."""

    match: MatchResult
    total: float  # coarse score plus share of inliers minus share of blocked beams
    objection: str

    @property
    def is_accepted(self) -> bool:
        """Whether the match is unambiguous."""
        return not self.objection

    @property
    def is_plausible(self) -> bool:
        """Whether the match is good enough to be accepted when further searches agree with it."""
        return self.match.inlier_ratio >= _PLAUSIBLE_INLIERS and self.total >= _PLAUSIBLE_TOTAL


def find_pose(
    group: KeyframeGroup, target: LocalMap, possible: Callable[[Pose2], bool] = lambda _: True
) -> GlobalMatch | None:
    """The best pose of some keyframes among ``possible`` ones; None where no pose reaches the least score."""
    cloud = group.cloud(_REACH_M)
    fits = _fits(target, thinned(cloud.points, _POINTS))
    return _best_of([f for f in fits if possible(f.T_target_source)], group, cloud, target)


def find_pose_near(group: KeyframeGroup, target: LocalMap, near: Pose2, reach_m: float) -> GlobalMatch | None:
    """The best pose of some keyframes at any heading in a square around a position; None where none matches."""
    cloud = group.cloud(_REACH_M)
    window = Window(Pose2(near.x, near.y, 0.0), reach_m)
    fits = search_sectors(target.pyramid, thinned(cloud.points, _POINTS), window, _SECTORS, _MIN_SCORE, _SCORE_RANGE)
    return _best_of(fits, group, cloud, target)


def _best_of(fits: list[Fit], group: KeyframeGroup, cloud: Cloud, target: LocalMap) -> GlobalMatch | None:
    """The best of some coarse matches once they are refined, and why it is not accepted."""
    if not fits:
        return None
    matches = [refine(cloud, target, fit.T_target_source) for fit in fits]
    totals = np.array(
        [
            f.score + m.inlier_ratio - group.blocked_share(target, m.T_target_source)
            for f, m in zip(fits, matches, strict=True)
        ]
    )
    best = int(np.argmax(totals))
    pose = matches[best].T_target_source
    match = with_ambiguity(matches[best], cloud, target, Guess(pose, _LOOK_M, np.pi, _LOOK_M, np.pi), _LOOK_M)
    elsewhere = [
        float(t)
        for m, t in zip(matches, totals, strict=True)
        if not is_same(m.T_target_source, pose, _DISTINCT_M, _DISTINCT_RAD)
    ]
    total = float(totals[best])
    return GlobalMatch(match, total, _objection(match, total, total - max(elsewhere, default=-1.0)))


def _objection(match: MatchResult, total: float, margin: float) -> str:
    spread_m = float(np.sqrt(worst_variances(match.information)[0]))
    if match.inlier_ratio < _MIN_INLIERS or total < _MIN_TOTAL:
        return f"only {match.inlier_ratio:.0%} of the points lie on the map at the best pose"
    if spread_m > _MAX_SPREAD_M:
        return f"the best pose is known to {spread_m:.2f} m only"
    if margin < _MARGIN:
        return "several poses match about as well"
    return ""


def _fits(target: LocalMap, points: Array) -> list[Fit]:
    """The best pose of each square and each sector of headings, as far as they score nearly as well as the best."""
    seen = target.pyramid
    size_m = np.array(seen.levels.shape[:0:-1]) * seen.resolution_m  # width, height
    tiles = np.maximum(np.ceil(size_m / _TILE_M).astype(int), 1)
    side_m = size_m / tiles
    found: list[Fit] = []
    least = _MIN_SCORE
    for i in range(int(tiles[0])):
        for j in range(int(tiles[1])):
            x, y = seen.origin + (np.array([i, j]) + 0.5) * side_m
            window = Window(Pose2(float(x), float(y), 0.0), float(side_m.max() / 2.0))
            found += search_sectors(seen, points, window, _SECTORS, least)
            least = max([least, *(f.score - _SCORE_RANGE for f in found)])
    return [f for f in found if f.score >= least]


_FIRST_SEARCH_M = 0.5  # path length before the first search
_LEAST_SEARCH_M, _NEXT_SEARCH_M = 0.25, 2.0  # minimum and maximum path length between two searches
_SEARCH_KEYFRAMES = 12
_AGREEING_SEARCHES = 3  # in a row that confirm a pose
_SAME_M, _SAME_RAD = 0.3, 0.15  # largest difference of poses that agree
_RECENT_S = 30.0  # a last pose older than this is not used
_NEAR_M, _MAX_SPEED_M_S = 1.0, 2.0  # distance from the last pose
_NOT_YET = "the pose in the map is not known yet"


class OdometryMap(Protocol):
    """Odometry-only SLAM."""

    counters: Counter[str]

    @property
    def pose(self) -> Pose2: ...

    def add_scan(self, scan: Scan, motion: MotionSource | None = None) -> SlamUpdate: ...

    def walked_m(self) -> float: ...

    def recent_keyframes(self, most: int) -> KeyframeGroup: ...


@dataclass(frozen=True, slots=True)
class LastPose:
    """Last known pose in the map, and its time."""

    T_map_base: Pose2
    stamp_ns: int

    def could_be(self, pose: Pose2, stamp_ns: int) -> bool:
        """Whether the sensor can have reached a pose since, if the last one is recent."""
        gap_s = (stamp_ns - self.stamp_ns) / NS_PER_S
        distance_m = math.hypot(pose.x - self.T_map_base.x, pose.y - self.T_map_base.y)
        return self.is_recent(stamp_ns) and distance_m <= _NEAR_M + _MAX_SPEED_M_S * gap_s

    def is_recent(self, stamp_ns: int) -> bool:
        """Whether the last pose is recent enough to limit the search."""
        return 0.0 <= (stamp_ns - self.stamp_ns) / NS_PER_S <= _RECENT_S


class Relocaliser:
    """Builds a small map of the newest steps and searches for it in ``target``.

    With a recent last pose ``near`` the search starts before any motion, limited to poses near it. A match that is not
    unambiguous by itself is accepted when several searches in a row, over some distance, give the same pose.
    """

    def __init__(self, target: LocalMap, make_map: Callable[[], OdometryMap], near: LastPose | None = None) -> None:
        self._target, self._make_map, self._near = target, make_map, near
        self.restart()

    def restart(self) -> None:
        """Begin a new small map."""
        self._own = self._make_map()
        self.search_again(_FIRST_SEARCH_M)

    def search_again(self, after_m: float = 0.0) -> None:
        """Search after so many metres, and forget earlier searches."""
        self._search_at_m = (self.walked_m if self._own.counters["scans"] else 0.0) + after_m
        self._begun_m = self._search_at_m - after_m
        self._earlier: list[Pose2] = []  # T_target_own of the best match of each search

    @property
    def walked_m(self) -> float:
        """Path length of the small map."""
        return self._own.walked_m()

    @property
    def T_own_base(self) -> Pose2:
        """Pose of the newest scan in the small map."""
        return self._own.pose

    @property
    def keyframes(self) -> int:
        """Size of the small map."""
        return self._own.counters["keyframes"]

    def track(self, scan: Scan, motion: MotionSource | None) -> SlamUpdate:
        """Add a scan to the small map; when it is lost there, a new small map begins."""
        update = self._own.add_scan(scan, motion)
        if self._own.counters["chains_begun"]:
            self.restart()
            update = self._own.add_scan(scan)
        return update

    def add_scan(self, scan: Scan, motion: MotionSource | None) -> tuple[GlobalMatch | None, str]:
        """Track a scan, then search."""
        return self.search(self.track(scan, motion), scan.stamp_ns)

    def search(self, update: SlamUpdate, stamp_ns: int) -> tuple[GlobalMatch | None, str]:
        """The accepted match of the newest scan in the target's frame, or None and the reason."""
        if not update.map_changed:
            return None, _NOT_YET
        if self.walked_m < self._search_at_m:
            return self._near_last_pose(stamp_ns), f"{_NOT_YET}: a few steps are needed"
        since_m = self.walked_m - self._begun_m
        self._search_at_m = self.walked_m + min(max(since_m / 2.0, _LEAST_SEARCH_M), _NEXT_SEARCH_M)
        found = find_pose(self._own.recent_keyframes(_SEARCH_KEYFRAMES), self._target)
        if found is None:
            self._earlier.clear()
            return None, f"{_NOT_YET}: no part of it matches"
        if found.is_accepted or self._is_confirmed(found):
            return found, ""
        return None, f"{_NOT_YET}: {found.objection}"

    def _is_confirmed(self, found: GlobalMatch) -> bool:
        """Whether the last searches gave the same pose, and it is good enough."""
        T_target_own = found.match.T_target_source @ self.T_own_base.inverse()
        self._earlier = [p for p in self._earlier if is_same(p @ self.T_own_base, found.match.T_target_source)]
        self._earlier.append(T_target_own)
        return found.is_plausible and len(self._earlier) >= _AGREEING_SEARCHES

    def _near_last_pose(self, stamp_ns: int) -> GlobalMatch | None:
        near = self._near
        if near is None or not near.is_recent(stamp_ns):
            return None
        newest = self._own.recent_keyframes(_SEARCH_KEYFRAMES)
        found = find_pose(newest, self._target, lambda pose: near.could_be(pose, stamp_ns))
        return found if found is not None and found.is_accepted else None


def is_same(one: Pose2, other: Pose2, within_m: float = _SAME_M, within_rad: float = _SAME_RAD) -> bool:
    """Whether two poses differ by less."""
    gap = one.inverse() @ other
    return math.hypot(gap.x, gap.y) < within_m and abs(gap.theta) < within_rad
