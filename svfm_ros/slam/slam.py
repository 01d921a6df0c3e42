"""SLAM from 2D scans. ``Slam.add_scan`` is the whole algorithm; each step has its own file.

The pose of a scan is stored relative to its reference keyframe, so that a correction of the keyframes corrects every
scan. When tracking is lost, a new chain of keyframes begins, whose pose in the map is unknown until a loop closure
joins it. Chains that were never joined are left out of the trajectory and of the map.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.backend import Backend, Correction, GraphRecord, Loop
from svfm_ros.slam.keyframes import (
    Keyframes,
    KeyframeView,
    MapView,
    Pool,
    familiar_keyframe,
    needs_keyframe,
    relocalisation_constraint,
)
from svfm_ros.slam.loops.loop_candidates import LoopQuery
from svfm_ros.slam.loops.placement import UnplacedChain
from svfm_ros.slam.loops.relocalise import RESTED_M, LastPose, Relocaliser, find_pose_near
from svfm_ros.slam.loops.submap import Submaps, SubmapSpan
from svfm_ros.slam.matching.keyframe_group import KeyframeGroup
from svfm_ros.slam.matching.local_map import WHOLE_DEPTH, LocalMap, build_local_map, build_whole_map
from svfm_ros.slam.matching.pose_covariance import is_break, step_information, turned, worst_variances
from svfm_ros.slam.motion_model import MotionSource, VelocityModel
from svfm_ros.slam.preprocess import Cloud, cloud_from_scan
from svfm_ros.slam.scan_gate import ScanGate
from svfm_ros.slam.state_file import SlamState
from svfm_ros.slam.tracker import Tracker
from svfm_ros.slam.trajectory import History, Trajectory
from svfm_ros.types import Constraint, MatchResult, Pose2, Scan, SlamUpdate

__all__ = ["Slam", "odometry_only"]

Array = NDArray[np.float64]

_FEWEST_POINTS = 20  # of a scan that is used
_LOCAL_REACH_M = 25.0
_FREE_KEYFRAMES = 15  # the newest keyframes of the local map, from which its free space is drawn
_ODOMETRY_FLOOR = np.array([0.01, 0.01, 0.002])  # minimum standard deviations of a step: m, m, rad
_FEWEST_KEYFRAMES = 3  # of a loop query
_RELOCALISE_M = 15.0  # path length after which relocalisation is given up
_MOST_QUERIES = 40  # loop queries along each piece at the end
_UNKNOWN_SPREAD = np.array([100.0, 100.0, 10.0])  # m, m, rad
_LOST_SCANS, _LOST_S = 3, 1.0  # after so many lost scans and so long, a new chain begins


class Slam:
    """Scans in, poses and keyframes out. ``background`` searches loops in a thread, for live use."""

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
        self._reference = 0  # keyframe that scans refer to
        self._record = GraphRecord()
        self._relocaliser: Relocaliser | None = None  # after a restart, while the pose in the old map is unknown
        self._tracked_ns = 0  # of the gate's clock, of the last scan that has a pose
        self._next_query = 0.0
        self._unplaced: UnplacedChain | None = None

    @classmethod
    def resumed(cls, state: SlamState, config: SlamConfig | None = None, *, background: bool = False) -> "Slam":
        """SLAM that continues with a saved map; the first scans are relocalised in it."""
        self = cls(config, background=background)
        if not len(state):
            return self
        view = MapView(
            Pool(state.points, state.starts), state.poses, state.walked_m, state.progress, state.variances, state.chains
        )
        tied = [c for c in state.steps if not is_break(c) or state.chains[c.from_id] == state.chains[c.to_id]]
        links = [(c.from_id, c.to_id) for c in tied]
        self._keyframes = Keyframes.restored(
            self.config.keyframe_distance_m, state.stamps_ns, view, state.chains, links
        )
        self._history = History.restored(state.scan_stamps_ns, state.scan_keyframes, state.scan_poses)
        self._reference = len(state) - 1
        self._submaps.restore(len(state.spans), [(int(k), float(state.progress[k])) for k in state.open_submaps])
        self._record.steps, self._record.spans = list(state.steps), list(state.spans)
        self._record.loops = [loop.constraint for loop in state.loops]
        self._adopt_loops(state.loops)
        self._submit(query=None)
        target = build_whole_map(
            self._keyframes.pool, self._keyframes.poses, np.flatnonzero(self._keyframes.in_largest_piece)
        )
        near = LastPose(self.pose, int(state.scan_stamps_ns[-1])) if len(state.scan_stamps_ns) else None
        self._relocaliser = Relocaliser(target, lambda: odometry_only(self.config), near)
        return self

    @property
    def is_relocalising(self) -> bool:
        """Whether the pose in the saved map is still unknown."""
        return self._relocaliser is not None

    def state(self) -> SlamState:
        """A snapshot from which ``resumed`` continues; quick."""
        keyframes, view = self._keyframes, self._keyframes.snapshot()
        return SlamState(
            *(view.pool.points, view.pool.starts, view.poses, np.array(keyframes.stamps_ns, dtype=np.int64)),
            *(view.walked_m, view.progress, view.variances, keyframes.chains.copy()),
            *self._history.rows(),
            open_submaps=np.array(self._submaps.open, dtype=np.int64),
            spans=tuple(self._record.spans),
            steps=tuple(self._record.steps),
            loops=self.loops,
        )

    def add_scan(self, scan: Scan, motion: MotionSource | None = None) -> SlamUpdate:
        """Localise and map one scan; bad data is rejected with a reason, never with an exception."""
        self.counters["scans"] += 1
        correction = self._correct()
        fault = self._gate.fault(scan)
        if fault:
            return self._rejected(scan, fault, correction)
        cloud = cloud_from_scan(scan, self._tracker.motion.twist, self.config)
        if len(cloud) < _FEWEST_POINTS:
            self.counters["few_echoes"] += 1
            return self._rejected(scan, f"only {len(cloud)} usable points in {len(scan.ranges)} beams", correction)
        note = self._gate.passed(scan)
        if self._relocaliser is not None:
            return self._relocalise(self._relocaliser, scan, cloud, motion)
        if self._local is None:
            return self._begin(scan, cloud, note)
        previous, gap_s = self.pose, (self._gate.elapsed_ns - self._tracked_ns) / NS_PER_S
        hint = motion.between(self._history.last_ns, scan.stamp_ns) if motion is not None else None
        if self._gate.stepped and hint is None:
            return self._continue_after_break(scan, cloud, note, correction)
        tracked = self._tracker.track(
            cloud, self._local, previous, gap_s, hint, lambda twist: cloud_from_scan(scan, twist, self.config)
        )
        if self._tracker.is_lost(tracked, self._gate.stepped):
            return self._handle_loss(scan, cloud, tracked.match, gap_s, correction)
        self._tracker.accept(tracked.match, previous, gap_s)
        is_keyframe = self._place(scan, tracked.cloud, tracked.match)
        return self._update(scan, tracked.match, note, correction, is_keyframe)

    @property
    def pose(self) -> Pose2:
        """``T_map_base`` of the newest scan that has a pose."""
        return self._history.last(self._keyframes.poses) if len(self._history) else Pose2()

    def finish(self) -> None:
        """Wait for pending jobs and optimise the pose graph a last time."""
        if not len(self._keyframes):
            self._backend.close()
            return
        self._submit(self._newest_query(), must_optimise=True)
        self._backend.close()
        self._correct()
        self._join_pieces()
        self.counters["pieces_left_out"] = len(np.unique(self._keyframes.pieces)) - 1
        self.counters["scans_in_pieces_left_out"] = len(self._history) - len(self.trajectory())

    def _join_pieces(self) -> None:
        """Search loops to the other pieces for every piece that is not joined yet, from keyframes all along it."""
        for piece in np.unique(self._keyframes.pieces).tolist():
            members = np.flatnonzero(self._keyframes.pieces == piece)  # empty once the piece was joined
            for k in members[:: max(self.config.loop_every, len(members) // _MOST_QUERIES)].tolist():
                query = None if self._keyframes.in_largest_piece[k] else self._query_until(k)
                if query is not None:
                    self._submit(query)
                    self._correct()

    def trajectory(self) -> Trajectory:
        """Optimised poses of all scans in the largest piece of the map."""
        if not len(self._keyframes):
            return Trajectory(np.empty(0, dtype=np.int64), np.empty((0, 3)))
        return self._history.trajectory(self._keyframes.poses, self._keyframes.in_largest_piece)

    def forget_trajectory(self) -> None:
        """Forget all scans but the newest; the map stays."""
        self._history.forget_all_but_last()

    def keyframes(self) -> list[KeyframeView]:
        """Keyframes of the largest piece of the map, with optimised poses and points."""
        return [self._keyframes.view(int(k)) for k in np.flatnonzero(self._keyframes.in_largest_piece)]

    def recent_keyframes(self, most: int) -> KeyframeGroup:
        """The newest keyframes of the chain, in the frame of the newest scan."""
        newest = len(self._keyframes) - 1
        first = max(newest + 1 - most, self._keyframes.chain_start(newest))
        ids = np.arange(first, newest + 1)
        return KeyframeGroup.around(self._keyframes.pool, ids, self._keyframes.poses, self.pose.as_array())

    @property
    def motion(self) -> VelocityModel:
        """Prediction of the next pose; knows the steps of a thinned recording."""
        return self._tracker.motion

    def walked_m(self) -> float:
        """Path length of the current chain in metres."""
        newest = len(self._keyframes) - 1
        return float(self._keyframes.walked_m[newest] - self._keyframes.walked_m[self._keyframes.chain_start(newest)])

    # ---- the steps of add_scan

    def _begin(self, scan: Scan, cloud: Cloud, note: str) -> SlamUpdate:
        """The first scan defines the map frame."""
        self._place_keyframe(scan, cloud, Pose2().as_array(), None)
        return self._update(scan, None, note, None, True)

    def _place(self, scan: Scan, cloud: Cloud, match: MatchResult) -> bool:
        """Store the scan's pose; true if it became a keyframe."""
        self.counters["tracked"] += 1
        pose = match.T_target_source
        if needs_keyframe(self._from_reference(pose), match, self.config):
            familiar = familiar_keyframe(self._keyframes, self._reference, match, self.config)
            if familiar is None:
                self._place_keyframe(scan, cloud, pose.as_array(), match)
                return True
            self._set_reference(familiar)
        self._history.add(scan.stamp_ns, self._reference, self._from_reference(pose).as_array())
        self._tracked_ns = self._gate.elapsed_ns
        return False

    def _from_reference(self, pose: Pose2) -> Pose2:
        return Pose2.from_array(self._keyframes.poses[self._reference]).inverse() @ pose

    def _relocalise(
        self, relocaliser: Relocaliser, scan: Scan, cloud: Cloud, motion: MotionSource | None
    ) -> SlamUpdate:
        """After a restart: find the pose in the saved map, or give up and begin a new chain."""
        found, reason = relocaliser.add_scan(scan, motion)
        if found is None and relocaliser.walked_m < _RELOCALISE_M:
            self.counters["relocalising"] += 1
            return self._rejected(scan, reason, None)
        self._relocaliser = None
        if found is None:
            return self._begin_chain(scan, cloud, "the pose in the saved map was not found", None, is_elsewhere=True)
        match = found.match
        self._place_keyframe(scan, cloud, match.T_target_source.as_array(), None)
        self._join_saved_map(len(self._keyframes) - 1, match)
        self.counters["found"] += 1
        return self._update(scan, match, "the pose in the saved map was found", None, True)

    def _join_saved_map(self, k: int, match: MatchResult) -> None:
        """Join a relocalised keyframe to the saved map."""
        old = np.flatnonzero(self._keyframes.in_largest_piece[:k])
        self._record.loops.append(relocalisation_constraint(self._keyframes.poses, old, k, match))
        self._adopt_loops((*self.loops, Loop(self._record.loops[-1], True)))
        self._set_reference(k)

    def _place_keyframe(self, scan: Scan, cloud: Cloud, pose: Array, match: MatchResult | None) -> None:
        """Add a keyframe; without a match it begins a new chain."""
        count, before, new_chain = len(self._keyframes), self._reference, match is None
        if new_chain and count:
            self._finish_submap(self._submaps.close(count))
        variance = None if match is None else worst_variances(match.information)
        k = self._keyframes.add(scan.stamp_ns, cloud, pose, before=None if new_chain else before, variance=variance)
        self._history.add(scan.stamp_ns, k, np.zeros(3))
        self._tracked_ns = self._gate.elapsed_ns
        self.counters["keyframes"] += 1
        if count:
            start = self._keyframes.poses[before]
            step = Pose2.from_array(geometry.relative(start, pose))
            measured = None if match is None else turned(match.information, start[2])
            information = step_information(measured, _ODOMETRY_FLOOR)
            self._record.steps.append(Constraint(before, k, step, information, "odometry"))
        self._finish_submap(self._submaps.add(k, float(self._keyframes.progress[k])))
        self._set_reference(k)
        if self.config.loop_every and self._keyframes.progress[k] >= self._next_query:
            self._query_loops(k)
        elif self.config.loop_every and self._unplaced and (query := self._unplaced.query(self._keyframes)):
            self._submit(query)

    def _finish_submap(self, span: SubmapSpan | None) -> None:
        if span is not None:
            self._record.spans.append(span)

    def _set_reference(self, k: int) -> None:
        """Make keyframe k the reference and build the local map around it."""
        config, self._reference = self.config, k
        self._near = self._keyframes.near(k, config.local_keyframes, _LOCAL_REACH_M)
        poses = self._keyframes.poses
        self._local = build_local_map(
            self._keyframes.pool, poses, self._near, poses[k], _LOCAL_REACH_M, self._near[-_FREE_KEYFRAMES:]
        )

    def _continue_after_break(self, scan: Scan, cloud: Cloud, note: str, correction: Correction | None) -> SlamUpdate:
        """After a long pause the wearer may face any way: search all headings near the last pose.

        A window around the last heading may contain a wrong pose with a similar view, but not the true one.
        """
        poses, near = self._keyframes.poses, self._near
        target = build_local_map(
            self._keyframes.pool, poses, near, poses[self._reference], _LOCAL_REACH_M, near, WHOLE_DEPTH
        )
        found = find_pose_near(KeyframeGroup.of_scan(cloud), target, self.pose, RESTED_M)
        if found is None or not found.is_accepted:
            self.counters["lost"] += 1
            return self._begin_chain(scan, cloud, "elsewhere after a break", correction, is_elsewhere=True)
        self._tracker.restart()
        is_keyframe = self._place(scan, cloud, found.match)
        return self._update(scan, found.match, note, correction, is_keyframe)

    def _handle_loss(
        self, scan: Scan, cloud: Cloud, match: MatchResult, gap_s: float, correction: Correction | None
    ) -> SlamUpdate:
        """A scan that does not match has no pose; after several of them a new chain begins."""
        self.counters["lost"] += 1
        self._tracker.mark_lost(gap_s)
        if self._gate.stepped:  # the search window grows: a later scan would match a similar room
            return self._begin_chain(scan, cloud, "elsewhere after a break", correction, is_elsewhere=True)
        if self._tracker.lost_scans < _LOST_SCANS or gap_s < _LOST_S:
            reason = f"lost: only {match.inlier_ratio:.0%} of the scan lies on the map"
            return self._rejected(scan, reason, correction)
        return self._begin_chain(scan, cloud, "lost for good", correction)

    def _begin_chain(
        self, scan: Scan, cloud: Cloud, why: str, correction: Correction | None, is_elsewhere: bool = False
    ) -> SlamUpdate:
        """A new chain of keyframes; ``is_elsewhere``: it may begin anywhere, not near the last pose."""
        self.counters["chains_begun"] += 1
        self._tracker.restart()
        if is_elsewhere or self._unplaced:
            self._unplaced = UnplacedChain(len(self._keyframes))
        self._place_keyframe(scan, cloud, self.pose.as_array(), None)
        return self._update(
            scan, None, f"{why}: a new chain begins, its pose in the map is not known yet", correction, True
        )

    # ---- loops and pose graph

    def _query_loops(self, k: int) -> None:
        """Search loops for the newest keyframes."""
        self._next_query = float(self._keyframes.progress[k]) + self.config.loop_every
        self._submit(self._newest_query())

    def _newest_query(self) -> LoopQuery | None:
        """The newest keyframes of the chain; None while they are too few or too close together."""
        return self._query_until(len(self._keyframes) - 1)

    def _query_until(self, k: int) -> LoopQuery | None:
        """Keyframes of one chain up to k; None where they are too few or too close together."""
        progress, group = self._keyframes.progress, self.config.loop_group
        first = int(np.searchsorted(progress, progress[k] - group, side="right"))
        first = max(min(first, k + 1 - _FEWEST_KEYFRAMES), self._keyframes.chain_start(k))
        enough = k + 1 - first >= _FEWEST_KEYFRAMES and progress[k] - progress[first] >= group / 2.0
        near = self._near if k == len(self._keyframes) - 1 else np.arange(first, k + 1)
        return LoopQuery(first, k + 1, near) if enough and self.config.loop_every else None

    def _submit(self, query: LoopQuery | None, must_optimise: bool = False) -> None:
        self._backend.submit(self._record.next_job(self._keyframes.snapshot(), query, must_optimise))

    def _correct(self) -> Correction | None:
        """Apply the correction that arrived since the last scan."""
        correction = self._backend.collect()
        if correction is None:
            return None
        self._keyframes.rewrite(correction.poses)
        self._adopt_loops(correction.loops)
        self._set_reference(self._reference)
        return correction

    def _adopt_loops(self, loops: tuple[Loop, ...]) -> None:
        self.loops = loops
        accepted = [loop.constraint for loop in loops if loop.accepted]
        self._keyframes.set_loops((c.from_id, c.to_id) for c in accepted)
        if self._unplaced and self._unplaced.is_joined(self._keyframes):
            self._unplaced = None
        self.counters["loops_found"] = len(loops)
        self.counters["loops_refused"] = len(loops) - len(accepted)

    # ---- results

    def _update(
        self, scan: Scan, match: MatchResult | None, reason: str, correction: Correction | None, map_changed: bool
    ) -> SlamUpdate:
        found = correction.found if correction is not None else ()
        covariance = self._tracker.covariance.copy() if self._relocaliser is None else np.diag(_UNKNOWN_SPREAD**2)
        changed, is_on_map = map_changed or correction is not None, not (self._relocaliser or self._unplaced)
        reason = reason if is_on_map or reason else "the pose in the map is not known yet"
        return SlamUpdate(scan.stamp_ns, self.pose, covariance, match, found, changed, reason, is_on_map)

    def _rejected(self, scan: Scan, reason: str, correction: Correction | None) -> SlamUpdate:
        self.counters["left_out"] += 1
        return self._update(scan, None, reason, correction, False)


def odometry_only(config: SlamConfig) -> Slam:
    """SLAM without loop closure that adds every keyframe, for small maps."""
    return Slam(replace(config, loop_every=0, familiar_views=0))
