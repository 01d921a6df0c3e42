"""What happens beside the online path: submaps are drawn, loops searched, the pose graph solved.

The graph and the submaps live here and nowhere else. The online path hands over what is new and collects corrections
when it next comes by. Offline the work is done on the spot, so that a run repeats exactly; online a thread does it, and
compiled code lets the other thread run meanwhile. When work piles up, keyframes are never dropped, only old questions.
"""

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.slam import SlamConfig
from svfm_ros.datatypes import Constraint, Pose2
from svfm_ros.slam.graph import PoseGraph
from svfm_ros.slam.loops import LoopSearch, MapView, Query
from svfm_ros.slam.submap import Submap, SubmapSpan, draw

__all__ = ["Backend", "Correction", "Job", "Loop"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Job:
    """News from the online path. ``view`` holds the poses of now; its submaps are filled in here."""

    view: MapView
    odometry: tuple[Constraint, ...] = ()
    finished: tuple[SubmapSpan, ...] = ()
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


class Backend:
    """Takes jobs, gives corrections; ``background`` says whether a thread does the work."""

    def __init__(self, config: SlamConfig, background: bool) -> None:
        self._solver = _Solver(config)
        self._done: queue.SimpleQueue[Correction] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        if background:
            self._thread = threading.Thread(target=self._work, name="svfm-slam-loops", daemon=True)
            self._thread.start()

    def submit(self, job: Job) -> None:
        """Hand over news; done before this returns, unless a thread does it."""
        if self._thread is None:
            self._take([job])
        else:
            self._jobs.put(job)

    def collect(self) -> Correction | None:
        """The newest correction since the last time, with all loops found on the way."""
        if self._failure is not None:
            raise self._failure
        news: list[Correction] = []
        while not self._done.empty():
            news.append(self._done.get_nowait())
        if not news:
            return None
        found = tuple(c for n in news for c in n.found)
        return Correction(news[-1].poses, found, news[-1].loops)

    def close(self) -> None:
        """Wait until all work is done; jobs handed over later are done on the spot."""
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
                self._take([j for j in jobs if j is not None])
            except BaseException as error:  # told to the caller at its next visit: a thread must not die in silence
                self._failure = error
            if None in jobs:
                return

    def _take(self, jobs: Sequence[Job]) -> None:
        correction = self._solver.solve(jobs) if jobs else None
        if correction is not None:
            self._done.put(correction)


class _Solver:
    """Jobs in, perhaps one correction out; knows nothing of threads."""

    def __init__(self, config: SlamConfig) -> None:
        self._graph = PoseGraph()
        self._search = LoopSearch(config)
        self._submaps: list[Submap] = []

    def solve(self, jobs: Sequence[Job]) -> Correction | None:
        for job in jobs:
            self._take_in(job)
        newest = jobs[-1]
        queries = [j.query for j in jobs if j.query is not None]
        found = self._search.find(newest.view, tuple(self._submaps), queries[-1]) if queries else []
        for constraint in found:
            self._graph.add(constraint)
        if not found and not any(j.last_one for j in jobs):
            return None
        result = self._graph.optimise()
        loops = tuple(Loop(c, w > 0.5) for c, w in zip(result.loops, result.weights.tolist(), strict=True))
        return Correction(result.poses, tuple(found), loops)

    def _take_in(self, job: Job) -> None:
        poses = job.view.poses
        known = len(self._graph)
        for k in range(known, len(poses)):
            # The graph may have moved on since the view was taken: what counts is the step from the one before.
            before = Pose2.from_array(poses[k - 1]).inverse() if k else Pose2()
            start = self._graph.pose(k - 1) if k else Pose2()
            self._graph.add_node(k, start @ (before @ Pose2.from_array(poses[k])))
        for constraint in job.odometry:
            self._graph.add(constraint)
        self._submaps += [draw(span, job.view.pool, poses) for span in job.finished]
