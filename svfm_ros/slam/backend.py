"""Submaps, loop search and pose graph: processes jobs, in a thread or synchronously, and corrects keyframe poses.

A loop closure can match well and still be false. If the optimised graph changes an odometry step by more than its
covariance allows, the new loops are dropped and the graph is restored.

Without a thread, runs are reproducible. With one, the scans are not delayed, because compiled code releases the GIL;
when several jobs are waiting, all keyframes are added and loops are searched for the newest query only.
"""

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.graph.pose_graph import GraphResult, PoseGraph
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.loop_candidates import LoopQuery
from svfm_ros.slam.loops.loop_search import LoopSearch
from svfm_ros.slam.loops.submap import Submap, SubmapSpan, draw
from svfm_ros.slam.matching.pose_covariance import is_break
from svfm_ros.types import Constraint, Pose2

__all__ = ["Backend", "Correction", "GraphRecord", "Job", "Loop", "Mapper"]

Array = NDArray[np.float64]

_FAR_OFF_M, _FAR_OFF_RAD = 1.0, 0.3  # a loop that disagrees by more moves a whole piece first
_MAX_STEP_CHI2 = 4.0  # squared, weighted residual of one odometry step; far below one with true loops


@dataclass(frozen=True, slots=True)
class Job:
    """What scan tracking hands over: the current map, new constraints, finished submaps, perhaps a loop query."""

    view: MapView
    odometry: tuple[Constraint, ...] = ()
    finished: tuple[SubmapSpan, ...] = ()
    loops: tuple[Constraint, ...] = ()  # constraints found by relocalisation
    query: LoopQuery | None = None
    must_optimise: bool = False  # optimise even if no loop is found


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop closure and whether the optimiser accepted it."""

    constraint: Constraint
    accepted: bool


@dataclass(frozen=True, slots=True)
class Correction:
    """New poses of the first n keyframes, new loops, and the state of every loop."""

    poses: Array  # (n, 3)
    found: tuple[Constraint, ...]
    loops: tuple[Loop, ...]


class Mapper:
    """Owns the pose graph and the submaps; not thread-safe."""

    def __init__(self, config: SlamConfig) -> None:
        self._graph = PoseGraph()
        self._odometry: list[Constraint] = []
        self._breaks: list[int] = []  # keyframes after an odometry break
        self._loops: list[Constraint] = []
        self._pieces = np.empty(0, dtype=np.int64)  # piece of each keyframe
        self._search = LoopSearch(config)
        self._submaps: list[Submap] = []

    def process(self, jobs: Sequence[Job]) -> Correction | None:
        """Add everything new, search loops for the newest query, and optimise if something was found."""
        for job in jobs:
            self._add_to_graph(job)
        self._pieces = jobs[-1].view.pieces
        queries = [j.query for j in jobs if j.query is not None]
        found = self._search.find(jobs[-1].view, tuple(self._submaps), queries[-1]) if queries else []
        known = len(self._loops)
        result = self._optimise_with(found) if found else None
        if result is None and any(j.must_optimise for j in jobs):
            result = self._graph.optimise()
        if result is None:
            return None
        loops = tuple(Loop(c, w > 0.5) for c, w in zip(result.loops, result.weights.tolist(), strict=True))
        return Correction(result.poses, tuple(self._loops[known:]), loops)

    def _add_to_graph(self, job: Job) -> None:
        poses = job.view.poses
        for k in range(len(self._graph), len(poses)):
            # The graph may have been optimised since the view was taken: append by the relative motion.
            before = Pose2.from_array(poses[k - 1]).inverse() if k else Pose2()
            start = self._graph.pose(k - 1) if k else Pose2()
            self._graph.add_node(k, start @ (before @ Pose2.from_array(poses[k])))
        for constraint in job.odometry:
            self._odometry.append(constraint)
            self._graph.add(constraint)
            if is_break(constraint):
                self._breaks.append(constraint.to_id)
        for constraint in job.loops:
            self._loops.append(constraint)
            self._graph.add(constraint)
        self._submaps += [draw(span, job.view.pool, poses) for span in job.finished]

    def _optimise_with(self, found: list[Constraint]) -> GraphResult | None:
        """Optimise with the new loops, else with the first of them, else restore the graph."""
        before = self._graph.poses()
        for chosen in (found, found[:1]) if len(found) > 1 else (found,):
            for i, loop in enumerate(chosen):
                self._move_piece(loop, chosen[:i])
                self._graph.add(loop)
            result = self._graph.optimise()
            if result.worst_step_chi2 <= _MAX_STEP_CHI2:
                self._loops += chosen
                return result
            self._rebuild(before)
        return None

    def _move_piece(self, loop: Constraint, tentative: Sequence[Constraint]) -> None:
        """Move one piece rigidly where a loop that joins two pieces, or spans an odometry break, has a large residual.

        Gauss-Newton would not converge from such a distance. The piece of the first keyframe, which is fixed, stays.
        """
        here, wanted = self._graph.pose(loop.to_id), self._graph.pose(loop.from_id) @ loop.T_from_to
        gap = here.inverse() @ wanted
        if np.hypot(gap.x, gap.y) < _FAR_OFF_M and abs(gap.theta) < _FAR_OFF_RAD:
            return
        poses, pieces = self._graph.poses(), self._pieces
        breaks = [k for k in self._breaks if loop.from_id < k <= loop.to_id]
        if pieces[loop.from_id] != pieces[loop.to_id]:
            fixed = pieces[loop.to_id] == pieces[0]
            moves = pieces == pieces[loop.from_id if fixed else loop.to_id]
            by = here @ wanted.inverse() if fixed else wanted @ here.inverse()
        elif breaks:
            moves, by = np.arange(len(poses)) >= max(breaks), wanted @ here.inverse()
        else:
            return
        poses[moves] = geometry.compose(by.as_array(), poses[moves])
        self._rebuild(poses, tentative)

    def _rebuild(self, poses: Array, tentative: Sequence[Constraint] = ()) -> None:
        """The same graph with other initial poses."""
        self._graph = PoseGraph()
        for k, pose in enumerate(poses):
            self._graph.add_node(k, Pose2.from_array(pose))
        for constraint in [*self._odometry, *self._loops, *tentative]:
            self._graph.add(constraint)


class Backend:
    """Accepts jobs and returns corrections; ``background`` runs them in a thread."""

    def __init__(self, config: SlamConfig, background: bool) -> None:
        self._mapper = Mapper(config)
        self._done: queue.SimpleQueue[Correction] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        if background:
            self._thread = threading.Thread(target=self._work, name="svfm-slam-loops", daemon=True)
            self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; without a thread it is done before this returns."""
        if self._thread is None:
            self._process([job])
        else:
            self._jobs.put(job)

    def collect(self) -> Correction | None:
        """The newest correction since the last call, with all loops found since then."""
        if self._failure is not None:
            raise self._failure
        corrections: list[Correction] = []
        while not self._done.empty():
            corrections.append(self._done.get_nowait())
        if not corrections:
            return None
        found = tuple(c for n in corrections for c in n.found)
        return Correction(corrections[-1].poses, found, corrections[-1].loops)

    def close(self) -> None:
        """Wait until all jobs are done; later jobs are done synchronously."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while not self._jobs.empty():
                jobs.append(self._jobs.get_nowait())
            try:
                self._process([j for j in jobs if j is not None])
            except BaseException as error:  # raised by the next collect()
                self._failure = error
            if None in jobs:
                return

    def _process(self, jobs: Sequence[Job]) -> None:
        correction = self._mapper.process(jobs) if jobs else None
        if correction is not None:
            self._done.put(correction)


class GraphRecord:
    """Odometry constraints, finished submaps and relocalisation constraints so far, and which were submitted."""

    def __init__(self) -> None:
        self.steps: list[Constraint] = []
        self.spans: list[SubmapSpan] = []
        self.loops: list[Constraint] = []
        self._submitted = (0, 0, 0)

    def next_job(self, view: MapView, query: LoopQuery | None, must_optimise: bool) -> Job:
        """A job with everything that was not submitted yet."""
        steps, spans, loops = self._submitted
        self._submitted = (len(self.steps), len(self.spans), len(self.loops))
        return Job(
            view, tuple(self.steps[steps:]), tuple(self.spans[spans:]), tuple(self.loops[loops:]), query, must_optimise
        )
