"""SLAM from scans alone. ``Slam.add_scan`` tells the whole algorithm; each step has a file of its own.

The pose of a scan is kept relative to its keyframe, so that a correction of the keyframes corrects every scan. When
tracking is lost for good, a new chain of keyframes begins: an island, whose place in the map is not known until a loop
closure joins it. Scans of islands that were never joined are left out of the trajectory and of the map.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.backend import Backend
from svfm_ros.slam.keyframes import Keyframes, KeyframeView, MapView, Pool
from svfm_ros.slam.loops.loop_candidates import Query
from svfm_ros.slam.loops.relocalise import LastSeen, Seeker
from svfm_ros.slam.loops.submap import Submaps, SubmapSpan
from svfm_ros.slam.mapper import Correction, Loop
from svfm_ros.slam.matching.local_map import LocalMap, build_local_map, build_whole_map, merged_cloud
from svfm_ros.slam.matching.pose_covariance import doubt_of, is_leap, step_information, turned
from svfm_ros.slam.motion_model import MotionHint
from svfm_ros.slam.pending_jobs import Ledger
from svfm_ros.slam.preprocess import Cloud, cloud_from_scan
from svfm_ros.slam.reference_keyframe import asks_for_keyframe, familiar_keyframe, tie_to_old
from svfm_ros.slam.scan_gate import ScanGate
from svfm_ros.slam.state_file import SlamState
from svfm_ros.slam.tracker import Tracker
from svfm_ros.slam.trajectory import History, Trajectory
from svfm_ros.types import Constraint, MatchResult, Pose2, Scan, SlamUpdate

__all__ = ["Slam", "small_map"]

Array = NDArray[np.float64]

_FEWEST_POINTS = 20
_LOCAL_REACH_M = 25.0
_LATELY_CELL_M = 0.1
_FREE = 15  # so many of the newest near keyframes tell which space is free
_ODOMETRY_FLOOR = np.array([0.01, 0.01, 0.002])  # no step is trusted more than this: m, m, rad
_FEWEST_KEYFRAMES = 3  # that a question is made of
_SEEK_M = 15.0  # after such a way in vain, the sensor is somewhere else
_NO_IDEA = np.array([100.0, 100.0, 10.0])  # m, m, rad
_LOST_SCANS, _LOST_S = 3, 1.0  # lost for so many scans and so long: lost for good


class Slam:
    """Scans in, poses and a map out. ``background`` closes loops in a thread: for live use."""

    def __init__(self, config: SlamConfig | None = None, *, background: bool = False) -> None:
        self.config = config or SlamConfig()
        self.counters: Counter[str] = Counter()
        self.loops: tuple[Loop, ...] = ()
        self._gate = ScanGate(self.counters)
        self._tracker = Tracker(self.config)
        self._keyframes = Keyframes(self.config.keyframe_distance_m)
        self._history = History()
        self._submaps = Submaps(self.config.submap_keyframes)
        self._backend = Backend(self.config, background)
        self._local: LocalMap | None = None
        self._near = np.empty(0, dtype=np.int64)
        self._footing = 0  # the keyframe that scans are tied to
        self._ledger = Ledger()
        self._seeker: Seeker | None = None  # after a restart, while the place in the old map is not known
        self._placed_ns = 0
        self._next_question = 0.0

    @classmethod
    def resumed(cls, state: SlamState, config: SlamConfig | None = None, *, background: bool = False) -> "Slam":
        """Go on with a map from before; the first scans are looked for in all of it."""
        self = cls(config, background=background)
        if not len(state):
            return self
        view = MapView(
            Pool(state.points, state.starts), state.poses, state.walked_m, state.progress, state.doubts, state.chains
        )
        ways = [(c.from_id, c.to_id) for c in state.steps if not is_leap(c) or _in_one_chain(state.chains, c)]
        self._keyframes = Keyframes.restored(self.config.keyframe_distance_m, state.stamps_ns, view, state.chains, ways)
        self._history = History.restored(state.scan_stamps_ns, state.scan_keyframes, state.scan_poses)
        self._footing = len(state) - 1
        self._submaps.restore(len(state.spans), [(int(k), float(state.progress[k])) for k in state.open_submaps])
        self._ledger.steps, self._ledger.spans = list(state.steps), list(state.spans)
        self._ledger.loops = [loop.constraint for loop in state.loops]
        self._adopt_loops(state.loops)
        self._hand_over(query=None)
        target = build_whole_map(self._keyframes.pool, self._keyframes.poses, np.flatnonzero(self._keyframes.mainland))
        near = LastSeen(self.pose, int(state.scan_stamps_ns[-1])) if len(state.scan_stamps_ns) else None
        self._seeker = Seeker(target, lambda: small_map(self.config), near)
        return self

    @property
    def is_seeking(self) -> bool:
        """Whether the place in the map of before is not known yet."""
        return self._seeker is not None

    def state(self) -> SlamState:
        """All that is needed to go on later. Quick; what it holds does not change any more."""
        keyframes, view = self._keyframes, self._keyframes.snapshot()
        return SlamState(
            *(view.pool.points, view.pool.starts, view.poses, np.array(keyframes.stamps_ns, dtype=np.int64)),
            *(view.walked_m, view.progress, view.doubts, keyframes.chains.copy()),
            *self._history.rows(),
            open_submaps=np.array(self._submaps.open, dtype=np.int64),
            spans=tuple(self._ledger.spans),
            steps=tuple(self._ledger.steps),
            loops=self.loops,
        )

    def add_scan(self, scan: Scan, hint: MotionHint | None = None) -> SlamUpdate:
        """Place one scan; bad data is turned away with a reason, never with an exception."""
        self.counters["scans"] += 1
        correction = self._correct()
        fault = self._gate.fault(scan)
        if fault:
            return self._left_out(scan, fault, correction)
        cloud = cloud_from_scan(scan, self._tracker.motion.twist, self.config)
        if len(cloud) < _FEWEST_POINTS:
            self.counters["few_echoes"] += 1
            return self._left_out(scan, f"only {len(cloud)} usable points in {len(scan.ranges)} beams", correction)
        note = self._gate.passed(scan)
        if self._seeker is not None:
            return self._seek(self._seeker, scan, cloud, hint)
        if self._local is None:
            return self._begin(scan, cloud, note)
        previous, gap_s = self.pose, max(0.0, (scan.stamp_ns - self._placed_ns) / NS_PER_S)
        tracked = self._tracker.track(cloud, self._local, previous, gap_s, hint)
        if self._tracker.is_lost(tracked.match):
            return self._lose(scan, cloud, tracked.match, gap_s, correction)
        self._tracker.accept(tracked.match, previous, gap_s)
        is_keyframe = self._place(scan, tracked.cloud, tracked.match)
        return self._update(scan, tracked.match, note, correction, is_keyframe)

    @property
    def pose(self) -> Pose2:
        """``T_map_base`` of the newest scan that was placed."""
        if not len(self._history):
            return Pose2()
        return self._history.last(self._keyframes.poses)

    def finish(self) -> None:
        """Close what is open, wait for the work beside, settle the graph a last time."""
        if not len(self._keyframes):
            self._backend.close()
            return
        self._hand_over(query=None, last_one=True)
        self._backend.close()
        self._correct()
        self.counters["islands_left_out"] = len(np.unique(self._keyframes.islands)) - 1
        self.counters["scans_left_out_with_islands"] = len(self._history) - len(self.trajectory())

    def trajectory(self) -> Trajectory:
        """Optimised poses of every scan placed so far, those of the largest island."""
        if not len(self._keyframes):
            return Trajectory(np.empty(0, dtype=np.int64), np.empty((0, 3)))
        return self._history.trajectory(self._keyframes.poses, self._keyframes.mainland)

    def keyframes(self) -> list[KeyframeView]:
        """Keyframes of the largest island with their optimised poses and their points: what the map is drawn from."""
        return [self._keyframes.view(int(k)) for k in np.flatnonzero(self._keyframes.mainland)]

    def lately(self, most: int) -> Cloud:
        """What the newest keyframes of the chain saw, as one cloud in the frame of the newest scan."""
        newest = len(self._keyframes) - 1
        first = max(newest + 1 - most, self._keyframes.chain_start(newest))
        ids, here = np.arange(first, newest + 1), geometry.relative(self.pose.as_array(), self._keyframes.poses)
        return merged_cloud(self._keyframes.pool, here, ids, np.zeros(2), self.config.range_max_m, _LATELY_CELL_M)

    def walked_m(self) -> float:
        """How far the sensor came since the chain of the newest keyframe began."""
        newest = len(self._keyframes) - 1
        return float(self._keyframes.walked_m[newest] - self._keyframes.walked_m[self._keyframes.chain_start(newest)])

    # ---- the steps of add_scan

    def _begin(self, scan: Scan, cloud: Cloud, note: str) -> SlamUpdate:
        """The first scan says where the map lies."""
        self._place_keyframe(scan, cloud, Pose2().as_array(), None)
        return self._update(scan, None, note, None, True)

    def _place(self, scan: Scan, cloud: Cloud, match: MatchResult) -> bool:
        """Note the scan's pose; true if it became a keyframe."""
        self.counters["placed"] += 1
        pose = match.T_target_source
        if asks_for_keyframe(self._from_footing(pose), match, self.config):
            familiar = familiar_keyframe(self._keyframes, self._near, match, self.config)
            if familiar is None:
                self._place_keyframe(scan, cloud, pose.as_array(), match)
                return True
            self._look_around(familiar)
        self._history.add(scan.stamp_ns, self._footing, self._from_footing(pose).as_array())
        self._placed_ns = scan.stamp_ns
        return False

    def _from_footing(self, pose: Pose2) -> Pose2:
        return Pose2.from_array(self._keyframes.poses[self._footing]).inverse() @ pose

    def _seek(self, seeker: Seeker, scan: Scan, cloud: Cloud, hint: MotionHint | None) -> SlamUpdate:
        """After a restart: find the place in the old map, or give up and begin a new chain."""
        place, reason = seeker.add_scan(scan, hint)
        if place is None and seeker.walked_m < _SEEK_M:
            self.counters["seeking"] += 1
            return self._left_out(scan, reason, None)
        self._seeker = None
        if place is None:
            return self._begin_chain(scan, cloud, "the place in the old map was not found", None)
        match = place.match
        self._place_keyframe(scan, cloud, match.T_target_source.as_array(), None)
        self._tie(len(self._keyframes) - 1, match)
        self.counters["found"] += 1
        return self._update(scan, match, "the place in the old map was found", None, True)

    def _tie(self, k: int, match: MatchResult) -> None:
        """Join a keyframe that was found in the whole map to the old ones."""
        self._ledger.loops.append(tie_to_old(self._keyframes, k, match))
        self._adopt_loops((*self.loops, Loop(self._ledger.loops[-1], True)))
        self._look_around(k)

    def _place_keyframe(self, scan: Scan, cloud: Cloud, pose: Array, match: MatchResult | None) -> None:
        """A keyframe; without a match it begins a new chain."""
        count, before, new_chain = len(self._keyframes), self._footing, match is None
        if new_chain and count:
            self._finish_submap(self._submaps.close(count, float(self._keyframes.progress[-1])))
        doubt = None if match is None else doubt_of(match.information)
        k = self._keyframes.add(scan.stamp_ns, cloud, pose, before=None if new_chain else before, doubt=doubt)
        self._history.add(scan.stamp_ns, k, np.zeros(3))
        self._placed_ns = scan.stamp_ns
        self.counters["keyframes"] += 1
        if count:
            start = self._keyframes.poses[before]
            step = Pose2.from_array(geometry.relative(start, pose))
            seen = None if match is None else turned(match.information, start[2])
            information = step_information(seen, _ODOMETRY_FLOOR)
            self._ledger.steps.append(Constraint(before, k, step, information, "odometry"))
        self._finish_submap(self._submaps.add(k, float(self._keyframes.progress[k])))
        self._look_around(k)
        if self.config.loop_every and self._keyframes.progress[k] >= self._next_question:
            self._ask(k)

    def _finish_submap(self, span: SubmapSpan | None) -> None:
        if span is not None:
            self._ledger.spans.append(span)

    def _look_around(self, k: int) -> None:
        """Stand on a keyframe: draw the local map anew around it."""
        config, self._footing = self.config, k
        walk_m = config.local_keyframes * config.keyframe_distance_m
        self._near = self._keyframes.near(k, config.local_keyframes, walk_m, _LOCAL_REACH_M)
        poses = self._keyframes.poses
        self._local = build_local_map(
            self._keyframes.pool, poses, self._near, poses[k], _LOCAL_REACH_M, self._near[-_FREE:]
        )

    def _lose(
        self, scan: Scan, cloud: Cloud, match: MatchResult, gap_s: float, correction: Correction | None
    ) -> SlamUpdate:
        """A scan that fits nowhere is not drawn; after several of them a new chain begins."""
        self.counters["lost"] += 1
        self._tracker.lose(gap_s)
        if self._tracker.lost_scans < _LOST_SCANS or gap_s < _LOST_S:
            reason = f"lost: only {match.inlier_ratio:.0%} of the scan lies on the map"
            return self._left_out(scan, reason, correction)
        return self._begin_chain(scan, cloud, "lost for good", correction)

    def _begin_chain(self, scan: Scan, cloud: Cloud, why: str, correction: Correction | None) -> SlamUpdate:
        self.counters["chains_begun"] += 1
        self._tracker.restart()
        self._place_keyframe(scan, cloud, self.pose.as_array(), None)
        return self._update(scan, None, f"{why}: a new chain begins, its place is not known yet", correction, True)

    # ---- loops and graph, beside

    def _ask(self, k: int) -> None:
        """Ask whether the newest keyframes were seen before."""
        progress, group = self._keyframes.progress, self.config.loop_group
        self._next_question = float(progress[k]) + self.config.loop_every
        first = int(np.searchsorted(progress, progress[k] - group, side="right"))
        first = max(min(first, k + 1 - _FEWEST_KEYFRAMES), self._keyframes.chain_start(k))
        enough = k + 1 - first >= _FEWEST_KEYFRAMES and progress[k] - progress[first] >= group / 2.0
        self._hand_over(Query(first, k + 1, self._near) if enough else None)

    def _hand_over(self, query: Query | None, last_one: bool = False) -> None:
        self._backend.submit(self._ledger.news(self._keyframes.snapshot(), query, last_one))

    def _correct(self) -> Correction | None:
        """Adopt what was found beside since the last scan."""
        correction = self._backend.collect()
        if correction is None:
            return None
        self._keyframes.rewrite(correction.poses)
        self._adopt_loops(correction.loops)
        self._look_around(self._footing)
        return correction

    def _adopt_loops(self, loops: tuple[Loop, ...]) -> None:
        self.loops = loops
        believed = [loop.constraint for loop in loops if loop.believed]
        self._keyframes.set_loops((c.from_id, c.to_id) for c in believed)
        self.counters["loops_found"] = len(loops)
        self.counters["loops_refused"] = len(loops) - len(believed)

    # ---- what is told

    def _update(
        self, scan: Scan, match: MatchResult | None, reason: str, correction: Correction | None, map_changed: bool
    ) -> SlamUpdate:
        found = correction.found if correction is not None else ()
        covariance = self._tracker.covariance.copy() if self._seeker is None else np.diag(_NO_IDEA**2)
        changed = map_changed or correction is not None
        return SlamUpdate(scan.stamp_ns, self.pose, covariance, match, found, changed, reason)

    def _left_out(self, scan: Scan, reason: str, correction: Correction | None) -> SlamUpdate:
        self.counters["left_out"] += 1
        return self._update(scan, None, reason, correction, False)


def small_map(config: SlamConfig) -> Slam:
    """SLAM of a few steps: it closes no loops, and however short the way, it grows."""
    return Slam(replace(config, loop_every=0, familiar_views=0))


def _in_one_chain(chains: NDArray[np.int64], step: Constraint) -> bool:
    return bool(chains[step.from_id] == chains[step.to_id])
