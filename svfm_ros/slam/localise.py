"""Localisation in a given map, which does not change.

Two estimates run side by side. Odometry-only SLAM tracks the sensor in a small map of the newest scans; scan matching
against the given map corrects it. Where the given map does not match (clutter, moved furniture), the pose is propagated
by the odometry. While the pose is unknown, or was propagated for long, the small map is searched for in the whole map.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import grown
from svfm_ros.slam.loops.relocalise import RESTED_M, Relocaliser, find_pose_near
from svfm_ros.slam.matching.keyframe_group import KeyframeGroup
from svfm_ros.slam.matching.local_map import local_map_from_grid
from svfm_ros.slam.motion_model import MotionSource
from svfm_ros.slam.preprocess import Cloud, cloud_from_scan
from svfm_ros.slam.scan_gate import ScanGate
from svfm_ros.slam.slam import odometry_only
from svfm_ros.slam.tracker import Tracker
from svfm_ros.slam.trajectory import Trajectory
from svfm_ros.types import MatchResult, MotionHint, OccupancyGrid, Pose2, Scan, SlamUpdate

__all__ = ["Localiser"]

Array = NDArray[np.float64]

_FEWEST_POINTS = 20
_CERTAIN, _UNCERTAIN_S = 0.55, 1.0  # with a smaller share of inliers for so long, the whole map is searched
_PROPAGATED_M = 20.0  # path length without a match against the given map, after which the pose is unknown
_SAME_M, _SAME_RAD = 0.3, 0.2  # a pose found in the whole map confirms the tracked one within this
_UNKNOWN_SPREAD = np.array([100.0, 100.0, 10.0])  # m, m, rad
_SMALL_MAP_KEYFRAMES = 150  # a larger small map is replaced by a new one


class Localiser:
    """Scans in, poses in the frame of the given map out."""

    def __init__(self, grid: OccupancyGrid, config: SlamConfig | None = None) -> None:
        self.config = config or SlamConfig()
        self.counters: Counter[str] = Counter()
        self._target = local_map_from_grid(grid)
        self._gate = ScanGate(self.counters)
        self._tracker = Tracker(self.config)
        self._odometry = Relocaliser(self._target, lambda: odometry_only(self.config))
        self._known = self._searching = False
        self._pose, self._T_own_base = Pose2(), Pose2()
        self._stamps_ns, self._poses, self._count = np.empty(256, dtype=np.int64), np.empty((256, 3)), 0
        self._tracked_ns = self._certain_ns = 0
        self._matched_at_m = 0.0

    @property
    def _has_odometry(self) -> bool:
        return bool(self._count or self.counters["relocalising"])

    def add_scan(self, scan: Scan, motion: MotionSource | None = None) -> SlamUpdate:
        """Localise one scan; bad data is rejected with a reason, never with an exception."""
        self.counters["scans"] += 1
        fault = self._gate.fault(scan)
        if fault:
            return self._rejected(scan, fault)
        cloud = cloud_from_scan(scan, self._tracker.motion.twist, self.config)
        if len(cloud) < _FEWEST_POINTS:
            self.counters["few_echoes"] += 1
            return self._rejected(scan, f"only {len(cloud)} usable points in {len(scan.ranges)} beams")
        note = self._gate.passed(scan)
        before_m = self._odometry.walked_m if self._has_odometry else 0.0
        step = self._odometry.track(scan, motion)
        if not self._known:
            return self._relocalise(scan, step)
        gap_s = (self._gate.elapsed_ns - self._tracked_ns) / NS_PER_S
        is_tracked = step.match is not None and self._odometry.walked_m >= before_m
        moved = self._T_own_base.inverse() @ self._odometry.T_own_base if is_tracked else None
        hint = MotionHint(moved) if moved else self._hint(scan, motion)
        if self._gate.stepped and hint is None:
            return self._continue_after_break(scan, cloud, step, note)
        tracked = self._tracker.track(cloud, self._target, self._pose, gap_s, hint)
        if not self._tracker.is_lost(tracked, self._gate.stepped):
            self._tracker.accept(tracked.match, self._pose, gap_s)
            self._place(scan, tracked.match)
            self._matched_at_m = self._odometry.walked_m
            other = self._check_elsewhere(scan, step, tracked.match)
            self._renew_odometry(scan)
            return self._update(scan, other or tracked.match, "moved: another pose matches better" if other else note)
        return self._propagate(scan, step, tracked.match, moved, gap_s)

    def start_near(self, T_map_base: Pose2) -> None:
        """Track from about this pose with the next scan; where that does not match, the whole map is searched."""
        self._known, self._searching, self._pose = True, False, T_map_base
        self._tracker.restart()
        if self._has_odometry:
            self._T_own_base, self._matched_at_m = self._odometry.T_own_base, self._odometry.walked_m
        self._tracked_ns = self._certain_ns = self._gate.elapsed_ns

    def _hint(self, scan: Scan, motion: MotionSource | None) -> MotionHint | None:
        """Measured motion since the last scan that has a pose."""
        if motion is None or not self._count:
            return None
        return motion.between(int(self._stamps_ns[self._count - 1]), scan.stamp_ns)

    def trajectory(self) -> Trajectory:
        """All scans that have a pose so far."""
        return Trajectory(self._stamps_ns[: self._count].copy(), self._poses[: self._count].copy())

    def forget_trajectory(self) -> None:
        """Forget all poses but the newest."""
        n = self._count
        self._stamps_ns, self._poses, self._count = self._stamps_ns[n - 1 : n], self._poses[n - 1 : n], min(n, 1)

    def finish(self) -> None:
        """Nothing to do; the same interface as ``Slam``."""

    def _continue_after_break(self, scan: Scan, cloud: Cloud, step: SlamUpdate, note: str) -> SlamUpdate:
        """After a long pause the wearer may face any way: search near the last pose, then the whole map."""
        found = find_pose_near(KeyframeGroup.of_scan(cloud), self._target, self._pose, RESTED_M)
        if found is not None and found.is_accepted:
            self._start_at(found.match, scan)
            return self._update(scan, found.match, note)
        self.counters["pose_lost"] += 1
        self._known = False
        return self._relocalise(scan, step)

    def _propagate(
        self, scan: Scan, step: SlamUpdate, match: MatchResult, moved: Pose2 | None, gap_s: float
    ) -> SlamUpdate:
        """Without a match against the given map: continue by odometry, and search the whole map."""
        self.counters["lost"] += 1
        self._tracker.mark_lost(gap_s)
        if not self._searching:
            self._searching = True
            self._odometry.search_again()
        if moved is None or step.match is None or self._odometry.walked_m - self._matched_at_m > _PROPAGATED_M:
            self.counters["pose_lost"] += 1
            self._known = False
            self._odometry.search_again()
            return self._relocalise(scan, step)
        self.counters["propagated"] += 1
        self._place(scan, replace(step.match, T_target_source=self._pose @ moved))
        other = self._check_elsewhere(scan, step, None)
        reason = f"only {match.inlier_ratio:.0%} of the scan lies on the map: propagated by odometry"
        return self._update(scan, other or replace(step.match, T_target_source=self._pose), reason)

    # ---- relocalisation

    def _relocalise(self, scan: Scan, step: SlamUpdate) -> SlamUpdate:
        found, reason = self._odometry.search(step, scan.stamp_ns)
        if found is None:
            self.counters["relocalising"] += 1
            return self._rejected(scan, reason)
        self._start_at(found.match, scan)
        return self._update(scan, found.match, "the pose in the map was found")

    def _start_at(self, match: MatchResult, scan: Scan) -> None:
        """Track from a pose that was found in the whole map."""
        self.counters["found"] += 1
        self._known, self._searching = True, False
        self._tracker.restart()
        self._place(scan, match)
        self._certain_ns, self._matched_at_m = self._gate.elapsed_ns, self._odometry.walked_m

    def _check_elsewhere(self, scan: Scan, step: SlamUpdate, match: MatchResult | None) -> MatchResult | None:
        """While scans match badly, search the whole map; returns the match at another pose, if it is found there."""
        if match is not None and match.inlier_ratio >= _CERTAIN:
            self._certain_ns = self._gate.elapsed_ns
        elif not self._searching and self._gate.elapsed_ns - self._certain_ns > _UNCERTAIN_S * NS_PER_S:
            self._searching = True
            self._odometry.search_again()
        if not self._searching:
            return None
        found, _ = self._odometry.search(step, scan.stamp_ns)
        if found is None:
            return None
        self._searching, self._certain_ns = False, self._gate.elapsed_ns
        gap = self._pose.inverse() @ found.match.T_target_source
        if np.hypot(gap.x, gap.y) < _SAME_M and abs(gap.theta) < _SAME_RAD:
            return None
        self.counters["moved"] += 1
        self._count -= 1  # replaces the pose of this scan
        self._start_at(found.match, scan)
        return found.match

    def _renew_odometry(self, scan: Scan) -> None:
        """Bound the memory of the small map, where it is not needed at the moment."""
        if self._odometry.keyframes > _SMALL_MAP_KEYFRAMES and not self._searching:
            self._odometry.restart()
            self._odometry.track(scan, None)
            self._T_own_base, self._matched_at_m = self._odometry.T_own_base, 0.0

    # ---- results

    def _place(self, scan: Scan, match: MatchResult) -> None:
        self.counters["tracked"] += 1
        n = self._count
        self._stamps_ns, self._poses = grown(self._stamps_ns, n + 1), grown(self._poses, n + 1)
        self._pose, self._tracked_ns = match.T_target_source, self._gate.elapsed_ns
        self._T_own_base = self._odometry.T_own_base
        self._stamps_ns[n], self._poses[n], self._count = scan.stamp_ns, self._pose.as_array(), n + 1

    def _update(self, scan: Scan, match: MatchResult | None, reason: str) -> SlamUpdate:
        covariance = self._tracker.covariance.copy() if self._known else np.diag(_UNKNOWN_SPREAD**2)
        return SlamUpdate(scan.stamp_ns, self._pose, covariance, match, (), False, reason)

    def _rejected(self, scan: Scan, reason: str) -> SlamUpdate:
        self.counters["left_out"] += 1
        return self._update(scan, None, reason)
