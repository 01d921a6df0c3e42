"""Relocalisation: the pose of the sensor in a large map, from the first steps.

A single scan is ambiguous between similar rooms. Until the pose is known, odometry-only SLAM builds a small map, which
is searched for in the large one.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from svfm_ros.clock import NS_PER_S
from svfm_ros.slam.loops.global_search import GlobalMatch, find_pose
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.motion_model import MotionHint
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import Pose2, Scan, SlamUpdate

__all__ = ["LastPose", "Relocaliser"]

_FIRST_SEARCH_M, _NEXT_SEARCH_M = 0.5, 2.0  # path length before the first search, and at most between searches
_LEAST_SEARCH_M = 0.25  # path length between two searches at least
_SEARCH_KEYFRAMES = 12
_AGREEING_SEARCHES = 3
_SAME_M, _SAME_RAD = 0.3, 0.15
_RECENT_S = 30.0  # a last pose older than this is not used
_NEAR_M, _MAX_SPEED_M_S = 1.0, 2.0  # distance from the last pose
_NOT_YET = "the pose in the map is not known yet"


class OdometryMap(Protocol):
    """Odometry-only SLAM."""

    counters: Counter[str]

    @property
    def pose(self) -> Pose2: ...

    def add_scan(self, scan: Scan, hint: MotionHint | None = None) -> SlamUpdate: ...

    def walked_m(self) -> float: ...

    def recent_cloud(self, most: int) -> Cloud: ...


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

    def track(self, scan: Scan, hint: MotionHint | None) -> SlamUpdate:
        """Add a scan to the small map; when it is lost there, a new small map begins."""
        update = self._own.add_scan(scan, hint)
        if self._own.counters["chains_begun"]:
            self.restart()
            update = self._own.add_scan(scan)
        return update

    def add_scan(self, scan: Scan, hint: MotionHint | None) -> tuple[GlobalMatch | None, str]:
        """Track a scan, then search."""
        return self.search(self.track(scan, hint), scan.stamp_ns)

    def search(self, update: SlamUpdate, stamp_ns: int) -> tuple[GlobalMatch | None, str]:
        """The accepted match of the newest scan in the target's frame, or None and the reason."""
        if not update.map_changed:
            return None, _NOT_YET
        if self.walked_m < self._search_at_m:
            return self._near_last_pose(stamp_ns), f"{_NOT_YET}: a few steps are needed"
        since_m = self.walked_m - self._begun_m
        self._search_at_m = self.walked_m + min(max(since_m / 2.0, _LEAST_SEARCH_M), _NEXT_SEARCH_M)
        found = find_pose(self._own.recent_cloud(_SEARCH_KEYFRAMES), self._target)
        if found is None:
            self._earlier.clear()
            return None, f"{_NOT_YET}: no part of it matches"
        if found.is_accepted or self._is_confirmed(found):
            return found, ""
        return None, f"{_NOT_YET}: {found.objection}"

    def _is_confirmed(self, found: GlobalMatch) -> bool:
        """Whether the last searches gave the same pose, and it is good enough."""
        T_target_own = found.match.T_target_source @ self.T_own_base.inverse()
        self._earlier = [p for p in self._earlier if _same(p @ self.T_own_base, found.match.T_target_source)]
        self._earlier.append(T_target_own)
        return found.is_plausible and len(self._earlier) >= _AGREEING_SEARCHES

    def _near_last_pose(self, stamp_ns: int) -> GlobalMatch | None:
        near = self._near
        if near is None or not near.is_recent(stamp_ns):
            return None
        cloud = self._own.recent_cloud(_SEARCH_KEYFRAMES)
        found = find_pose(cloud, self._target, lambda pose: near.could_be(pose, stamp_ns))
        return found if found is not None and found.is_accepted else None


def _same(one: Pose2, other: Pose2) -> bool:
    gap = one.inverse() @ other
    return math.hypot(gap.x, gap.y) < _SAME_M and abs(gap.theta) < _SAME_RAD
