"""Localisation in a given map, which does not change.

The first steps are searched for in the whole map; from then on each scan is matched against it. When scans no longer
match, the search starts again.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import grown
from svfm_ros.slam.loops.global_search import GlobalMatch
from svfm_ros.slam.loops.relocalise import Relocaliser
from svfm_ros.slam.matching.grid_map import local_map_from_grid
from svfm_ros.slam.motion_model import MotionHint
from svfm_ros.slam.preprocess import cloud_from_scan
from svfm_ros.slam.scan_gate import ScanGate
from svfm_ros.slam.slam import odometry_only
from svfm_ros.slam.tracker import Tracker
from svfm_ros.slam.trajectory import Trajectory
from svfm_ros.types import MatchResult, OccupancyGrid, Pose2, Scan, SlamUpdate

__all__ = ["Localiser"]

Array = NDArray[np.float64]

_FEWEST_POINTS = 20
_LOST_SCANS, _LOST_S = 3, 1.0  # after so many lost scans and so long, the search starts again
_DOUBTFUL, _DOUBTFUL_S = 0.55, 1.0  # after a smaller share of inliers for so long, the whole map is searched
_SAME_M, _SAME_RAD = 0.3, 0.2
_UNKNOWN_SPREAD = np.array([100.0, 100.0, 10.0])  # m, m, rad


class Localiser:
    """Scans in, poses in the frame of the given map out."""

    def __init__(self, grid: OccupancyGrid, config: SlamConfig | None = None) -> None:
        self.config = config or SlamConfig()
        self.counters: Counter[str] = Counter()
        self._target = local_map_from_grid(grid)
        self._gate = ScanGate(self.counters)
        self._tracker = Tracker(self.config)
        self._relocaliser: Relocaliser | None = self._new_relocaliser()  # while the pose is not known
        self._second_search: Relocaliser | None = None  # searches the whole map while the pose is uncertain
        self._pose = Pose2()
        self._stamps_ns, self._poses, self._count = np.empty(256, dtype=np.int64), np.empty((256, 3)), 0
        self._placed_ns = self._certain_ns = 0

    @property
    def is_placed(self) -> bool:
        """Whether the pose in the map is known."""
        return self._relocaliser is None

    def add_scan(self, scan: Scan, hint: MotionHint | None = None) -> SlamUpdate:
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
        if self._relocaliser is not None:
            return self._search(self._relocaliser, scan, hint)
        gap_s = max(0.0, (scan.stamp_ns - self._placed_ns) / NS_PER_S)
        tracked = self._tracker.track(cloud, self._target, self._pose, gap_s, hint)
        if self._tracker.is_lost(tracked.match):
            return self._handle_loss(scan, hint, tracked.match, gap_s)
        self._tracker.accept(tracked.match, self._pose, gap_s)
        self._place(scan, tracked.match)
        moved = self._check_elsewhere(scan, hint, tracked.match)
        return self._update(scan, moved or tracked.match, "moved: another pose matches better" if moved else note)

    def trajectory(self) -> Trajectory:
        """All scans placed so far."""
        return Trajectory(self._stamps_ns[: self._count].copy(), self._poses[: self._count].copy())

    def finish(self) -> None:
        """Nothing to do; the same interface as ``Slam``."""

    # ---- relocalisation

    def _new_relocaliser(self) -> Relocaliser:
        return Relocaliser(self._target, lambda: odometry_only(self.config))

    def _search(self, relocaliser: Relocaliser, scan: Scan, hint: MotionHint | None) -> SlamUpdate:
        found, reason = relocaliser.add_scan(scan, hint)
        if found is None:
            self.counters["relocalising"] += 1
            return self._rejected(scan, reason)
        self._start_at(found, scan)
        return self._update(scan, found.match, "the pose in the map was found")

    def _start_at(self, found: GlobalMatch, scan: Scan) -> None:
        """Track from a pose that was found."""
        self.counters["found"] += 1
        self._relocaliser = self._second_search = None
        self._tracker.restart()
        self._place(scan, found.match)
        self._certain_ns = scan.stamp_ns

    def _check_elsewhere(self, scan: Scan, hint: MotionHint | None, match: MatchResult) -> MatchResult | None:
        """Where scans match badly for long, or were lost, search the whole map; returns the match at another pose."""
        if match.inlier_ratio >= _DOUBTFUL:
            self._certain_ns = scan.stamp_ns
        elif self._second_search is None and scan.stamp_ns - self._certain_ns > _DOUBTFUL_S * NS_PER_S:
            self._second_search = self._new_relocaliser()
        if self._second_search is None:
            return None
        found, _ = self._second_search.add_scan(scan, hint)
        if found is None:
            return None
        self._second_search, self._certain_ns = None, scan.stamp_ns
        gap = match.T_target_source.inverse() @ found.match.T_target_source
        if np.hypot(gap.x, gap.y) < _SAME_M and abs(gap.theta) < _SAME_RAD:
            return None
        self.counters["moved"] += 1
        self._count -= 1  # replaces the pose of this scan
        self._start_at(found, scan)
        return found.match

    def _handle_loss(self, scan: Scan, hint: MotionHint | None, match: MatchResult, gap_s: float) -> SlamUpdate:
        """A scan that matches nowhere near has no pose; after several of them the whole map is searched."""
        self.counters["lost"] += 1
        self._tracker.mark_lost(gap_s)
        self._second_search = self._new_relocaliser()  # a match found again nearby may be wrong
        if self._tracker.lost_scans < _LOST_SCANS or gap_s < _LOST_S:
            return self._rejected(scan, f"lost: only {match.inlier_ratio:.0%} of the scan lies on the map")
        self.counters["lost_for_good"] += 1
        self._relocaliser, self._second_search = self._new_relocaliser(), None
        return self._search(self._relocaliser, scan, hint)

    # ---- results

    def _place(self, scan: Scan, match: MatchResult) -> None:
        self.counters["placed"] += 1
        n = self._count
        self._stamps_ns, self._poses = grown(self._stamps_ns, n + 1), grown(self._poses, n + 1)
        self._pose, self._placed_ns = match.T_target_source, scan.stamp_ns
        self._stamps_ns[n], self._poses[n], self._count = scan.stamp_ns, self._pose.as_array(), n + 1

    def _update(self, scan: Scan, match: MatchResult | None, reason: str) -> SlamUpdate:
        covariance = np.diag(_UNKNOWN_SPREAD**2) if self._relocaliser is not None else self._tracker.covariance.copy()
        return SlamUpdate(scan.stamp_ns, self._pose, covariance, match, (), False, reason)

    def _rejected(self, scan: Scan, reason: str) -> SlamUpdate:
        self.counters["left_out"] += 1
        return self._update(scan, None, reason)
