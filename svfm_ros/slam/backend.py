"""Runs the mapper (submaps, loop search, pose graph), in a thread or synchronously.

Synchronously a run repeats exactly; in a thread the scans are not delayed, because compiled code releases the GIL. When
jobs pile up, all keyframes are added and only the newest loop query is answered.
"""

import queue
import threading
from collections.abc import Sequence

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.loop_candidates import LoopQuery
from svfm_ros.slam.loops.submap import SubmapSpan
from svfm_ros.slam.mapper import Correction, Job, Mapper
from svfm_ros.types import Constraint

__all__ = ["Backend", "GraphRecord"]


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
