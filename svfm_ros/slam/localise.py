"""Finding oneself in a given map, and following from there. The map does not change.

The first steps are looked for in the whole map. From then on each scan is laid onto it. When scans no longer fit, the
search begins anew.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.growing_array import grown
from svfm_ros.slam.loops.global_search import Place
from svfm_ros.slam.loops.relocalise import Seeker
from svfm_ros.slam.matching.grid_map import local_map_from_grid
from svfm_ros.slam.motion_model import MotionHint
from svfm_ros.slam.preprocess import cloud_from_scan
from svfm_ros.slam.scan_gate import ScanGate
from svfm_ros.slam.slam import small_map
from svfm_ros.slam.tracker import Tracker
from svfm_ros.slam.trajectory import Trajectory
from svfm_ros.types import MatchResult, OccupancyGrid, Pose2, Scan, SlamUpdate

__all__ = ["Localiser"]

Array = NDArray[np.float64]

_FEWEST_POINTS = 20
_LOST_SCANS, _LOST_S = 3, 1.0  # lost for so many scans and so long: lost for good
_DOUBTFUL, _DOUBTFUL_S = 0.55, 1.0  # a smaller share of inliers for so long: perhaps it is another place
_SAME_PLACE_M, _SAME_TURN_RAD = 0.3, 0.2
_NO_IDEA = np.array([100.0, 100.0, 10.0])  # m, m, rad


class Localiser:
    """Scans in, poses in the frame of the given map out."""

    def __init__(self, grid: OccupancyGrid, config: SlamConfig | None = None) -> None:
        self.config = config or SlamConfig()
        self.counters: Counter[str] = Counter()
        self._target = local_map_from_grid(grid)
        self._gate = ScanGate(self.counters)
        self._tracker = Tracker(self.config)
        self._seeker: Seeker | None = self._new_seeker()  # while the place is not known
        self._rival: Seeker | None = None  # while it is in doubt: what the whole map says
        self._pose = Pose2()
        self._stamps_ns, self._poses, self._count = np.empty(256, dtype=np.int64), np.empty((256, 3)), 0
        self._placed_ns = self._sure_ns = 0

    @property
    def is_placed(self) -> bool:
        """Whether the place in the map is known."""
        return self._seeker is None

    def add_scan(self, scan: Scan, hint: MotionHint | None = None) -> SlamUpdate:
        """Place one scan; bad data is turned away with a reason, never with an exception."""
        self.counters["scans"] += 1
        fault = self._gate.fault(scan)
        if fault:
            return self._left_out(scan, fault)
        cloud = cloud_from_scan(scan, self._tracker.motion.twist, self.config)
        if len(cloud) < _FEWEST_POINTS:
            self.counters["few_echoes"] += 1
            return self._left_out(scan, f"only {len(cloud)} usable points in {len(scan.ranges)} beams")
        note = self._gate.passed(scan)
        if self._seeker is not None:
            return self._seek(self._seeker, scan, hint)
        gap_s = max(0.0, (scan.stamp_ns - self._placed_ns) / NS_PER_S)
        tracked = self._tracker.track(cloud, self._target, self._pose, gap_s, hint)
        if self._tracker.is_lost(tracked.match):
            return self._lose(scan, hint, tracked.match, gap_s)
        self._tracker.accept(tracked.match, self._pose, gap_s)
        self._place(scan, tracked.match)
        moved = self._watch(scan, hint, tracked.match)
        return self._update(scan, moved or tracked.match, "moved: another place fits better" if moved else note)

    def trajectory(self) -> Trajectory:
        """All scans placed so far."""
        return Trajectory(self._stamps_ns[: self._count].copy(), self._poses[: self._count].copy())

    def finish(self) -> None:
        """Nothing works beside; here for the sake of those who end SLAM."""

    # ---- finding the place

    def _new_seeker(self) -> Seeker:
        return Seeker(self._target, lambda: small_map(self.config))

    def _seek(self, seeker: Seeker, scan: Scan, hint: MotionHint | None) -> SlamUpdate:
        place, reason = seeker.add_scan(scan, hint)
        if place is None:
            self.counters["seeking"] += 1
            return self._left_out(scan, reason)
        self._settle_at(place, scan)
        return self._update(scan, place.match, "the place in the map was found")

    def _settle_at(self, place: Place, scan: Scan) -> None:
        """Go on from a place that was found."""
        self.counters["found"] += 1
        self._seeker = self._rival = None
        self._tracker.restart()
        self._place(scan, place.match)
        self._sure_ns = scan.stamp_ns

    def _watch(self, scan: Scan, hint: MotionHint | None, match: MatchResult) -> MatchResult | None:
        """Where scans fit badly for long, or were lost, look at the whole map; returns the match at another place."""
        if match.inlier_ratio >= _DOUBTFUL:
            self._sure_ns = scan.stamp_ns
        elif self._rival is None and scan.stamp_ns - self._sure_ns > _DOUBTFUL_S * NS_PER_S:
            self._rival = self._new_seeker()
        if self._rival is None:
            return None
        place, _ = self._rival.add_scan(scan, hint)
        if place is None:
            return None
        self._rival, self._sure_ns = None, scan.stamp_ns
        gap = match.T_target_source.inverse() @ place.match.T_target_source
        if np.hypot(gap.x, gap.y) < _SAME_PLACE_M and abs(gap.theta) < _SAME_TURN_RAD:
            return None
        self.counters["moved"] += 1
        self._count -= 1  # this scan was somewhere else after all
        self._settle_at(place, scan)
        return place.match

    def _lose(self, scan: Scan, hint: MotionHint | None, match: MatchResult, gap_s: float) -> SlamUpdate:
        """A scan that fits nowhere near has no pose; after several of them the search begins anew."""
        self.counters["lost"] += 1
        self._tracker.lose(gap_s)
        self._rival = self._new_seeker()  # should it be found again near by, that may be chance
        if self._tracker.lost_scans < _LOST_SCANS or gap_s < _LOST_S:
            return self._left_out(scan, f"lost: only {match.inlier_ratio:.0%} of the scan lies on the map")
        self.counters["lost_for_good"] += 1
        self._seeker, self._rival = self._new_seeker(), None
        return self._seek(self._seeker, scan, hint)

    # ---- what is told

    def _place(self, scan: Scan, match: MatchResult) -> None:
        self.counters["placed"] += 1
        n = self._count
        self._stamps_ns, self._poses = grown(self._stamps_ns, n + 1), grown(self._poses, n + 1)
        self._pose, self._placed_ns = match.T_target_source, scan.stamp_ns
        self._stamps_ns[n], self._poses[n], self._count = scan.stamp_ns, self._pose.as_array(), n + 1

    def _update(self, scan: Scan, match: MatchResult | None, reason: str) -> SlamUpdate:
        covariance = np.diag(_NO_IDEA**2) if self._seeker is not None else self._tracker.covariance.copy()
        return SlamUpdate(scan.stamp_ns, self._pose, covariance, match, (), False, reason)

    def _left_out(self, scan: Scan, reason: str) -> SlamUpdate:
        self.counters["left_out"] += 1
        return self._update(scan, None, reason)
