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
_SEARCH_KEYFRAMES = 12
_RECENT_S = 30.0  # a last pose older than this is not used
_NEAR_M, _MAX_SPEED_M_S = 1.0, 2.0  # distance from the last pose
_NOT_YET = "the pose in the map is not known yet"


class OdometryMap(Protocol):
    """Odometry-only SLAM."""

    counters: Counter[str]

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
    """Builds a small map of the first steps and searches for it in ``target``.

    With a recent last pose ``near`` the search starts before any motion, limited to poses near it.
    """

    def __init__(self, target: LocalMap, make_map: Callable[[], OdometryMap], near: LastPose | None = None) -> None:
        self._target, self._make_map, self._near = target, make_map, near
        self._begin()

    def _begin(self) -> None:
        self._own = self._make_map()
        self._search_at_m = _FIRST_SEARCH_M

    @property
    def walked_m(self) -> float:
        """Path length of the small map."""
        return self._own.walked_m()

    def add_scan(self, scan: Scan, hint: MotionHint | None) -> tuple[GlobalMatch | None, str]:
        """The accepted match of this scan in the target's frame, or None and the reason."""
        update = self._own.add_scan(scan, hint)
        if self._own.counters["chains_begun"]:
            self._begin()
            update = self._own.add_scan(scan)
        if not update.map_changed:
            return None, _NOT_YET
        if self.walked_m < self._search_at_m:
            return self._near_last_pose(scan.stamp_ns), f"{_NOT_YET}: a few steps are needed"
        self._search_at_m += min(self.walked_m / 2.0, _NEXT_SEARCH_M)
        found = find_pose(self._own.recent_cloud(_SEARCH_KEYFRAMES), self._target)
        if found is None:
            return None, f"{_NOT_YET}: no part of it matches"
        return (found, "") if found.is_accepted else (None, f"{_NOT_YET}: {found.objection}")

    def _near_last_pose(self, stamp_ns: int) -> GlobalMatch | None:
        near = self._near
        if near is None or not near.is_recent(stamp_ns):
            return None
        found = find_pose(
            self._own.recent_cloud(_SEARCH_KEYFRAMES), self._target, lambda pose: near.could_be(pose, stamp_ns)
        )
        return found if found is not None and found.is_accepted else None
