"""The map behind the scenes: submaps, loop closures and the pose graph; jobs in, perhaps a correction out.

A loop closure can be false although it fits. It is therefore put on trial: if the graph can only hold it by bending the
way in between more than the way allows, it is dropped, and all is as it was before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.graph.pose_graph import GraphResult, PoseGraph
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.loop_candidates import Query
from svfm_ros.slam.loops.loop_search import LoopSearch
from svfm_ros.slam.loops.submap import Submap, SubmapSpan, draw
from svfm_ros.slam.matching.pose_covariance import is_leap
from svfm_ros.types import Constraint, Pose2

__all__ = ["Correction", "Job", "Loop", "Mapper"]

Array = NDArray[np.float64]

_FAR_OFF_M, _FAR_OFF_RAD = 1.0, 0.3
_MOST_STRAIN = 4.0  # squared residual of a step over its variance; true closures stay far below one


@dataclass(frozen=True, slots=True)
class Job:
    """News from the online path. ``view`` holds the poses of now; its submaps are filled in here."""

    view: MapView
    odometry: tuple[Constraint, ...] = ()
    finished: tuple[SubmapSpan, ...] = ()
    loops: tuple[Constraint, ...] = ()  # that were found elsewhere
    query: Query | None = None
    last_one: bool = False  # settle the graph in any case


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop closure and whether it is believed."""

    constraint: Constraint
    believed: bool


@dataclass(frozen=True, slots=True)
class Correction:
    """News for the online path: new poses of the first keyframes, and what is thought of every loop by now."""

    poses: Array  # (n, 3)
    found: tuple[Constraint, ...]
    loops: tuple[Loop, ...]


class Mapper:
    """Knows nothing of threads."""

    def __init__(self, config: SlamConfig) -> None:
        self._graph = PoseGraph()
        self._odometry: list[Constraint] = []
        self._leaps: list[int] = []  # keyframes after a step whose motion is hardly known
        self._loops: list[Constraint] = []
        self._search = LoopSearch(config)
        self._submaps: list[Submap] = []

    def take(self, jobs: Sequence[Job]) -> Correction | None:
        """Take in all that is new, look for loops once, and settle the graph if something was found."""
        for job in jobs:
            self._take_in(job)
        queries = [j.query for j in jobs if j.query is not None]
        found = self._search.find(jobs[-1].view, tuple(self._submaps), queries[-1]) if queries else []
        known = len(self._loops)
        result = self._try(found) if found else None
        if result is None and any(j.last_one for j in jobs):
            result = self._graph.optimise()
        if result is None:
            return None
        loops = tuple(Loop(c, w > 0.5) for c, w in zip(result.loops, result.weights.tolist(), strict=True))
        return Correction(result.poses, tuple(self._loops[known:]), loops)

    def _take_in(self, job: Job) -> None:
        poses = job.view.poses
        for k in range(len(self._graph), len(poses)):
            # The graph may have moved on since the view was taken: what counts is the step from the one before.
            before = Pose2.from_array(poses[k - 1]).inverse() if k else Pose2()
            start = self._graph.pose(k - 1) if k else Pose2()
            self._graph.add_node(k, start @ (before @ Pose2.from_array(poses[k])))
        for constraint in job.odometry:
            self._odometry.append(constraint)
            self._graph.add(constraint)
            if is_leap(constraint):
                self._leaps.append(constraint.to_id)
        for constraint in job.loops:
            self._loops.append(constraint)
            self._graph.add(constraint)
        self._submaps += [draw(span, job.view.pool, poses) for span in job.finished]

    def _try(self, found: list[Constraint]) -> GraphResult | None:
        """Settle with the new loops, or with the first of them alone, or leave all as it was."""
        before = self._graph.poses()
        for chosen in (found, found[:1]) if len(found) > 1 else (found,):
            for i, loop in enumerate(chosen):
                self._bridge(loop, chosen[:i])
                self._graph.add(loop)
            result = self._graph.optimise()
            if result.strain <= _MOST_STRAIN:
                self._loops += chosen
                return result
            self._rebuild(before)
        return None

    def _bridge(self, loop: Constraint, on_trial: Sequence[Constraint]) -> None:
        """Where a loop spans a leap and disagrees widely, carry all that came after the leap to where the loop says.

        Least squares would not find its way there: it follows straight lines, and this is a turn of a whole wing.
        """
        here, wanted = self._graph.pose(loop.to_id), self._graph.pose(loop.from_id) @ loop.T_from_to
        gap = here.inverse() @ wanted
        leaps = [k for k in self._leaps if loop.from_id < k <= loop.to_id]
        if not leaps or (np.hypot(gap.x, gap.y) < _FAR_OFF_M and abs(gap.theta) < _FAR_OFF_RAD):
            return
        poses = self._graph.poses()
        poses[max(leaps) :] = geometry.compose((wanted @ here.inverse()).as_array(), poses[max(leaps) :])
        self._rebuild(poses, on_trial)

    def _rebuild(self, poses: Array, on_trial: Sequence[Constraint] = ()) -> None:
        """The same graph from other poses."""
        self._graph = PoseGraph()
        for k, pose in enumerate(poses):
            self._graph.add_node(k, Pose2.from_array(pose))
        for constraint in [*self._odometry, *self._loops, *on_trial]:
            self._graph.add(constraint)
