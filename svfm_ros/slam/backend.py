"""What happens beside the online path: submaps are drawn, loops searched, the pose graph solved.

The graph and the submaps live here and nowhere else. The online path hands over what is new and collects corrections
when it next comes by. Offline the work is done on the spot, so that a run repeats exactly; online a thread does it, and
compiled code lets the other thread run meanwhile. When work piles up, keyframes are never dropped, only old questions.
"""

import queue
import threading
from collections.abc import Sequence

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.mapper import Correction, Job, Mapper

__all__ = ["Backend"]


class Backend:
    """Takes jobs, gives corrections; ``background`` says whether a thread does the work."""

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
        correction = self._mapper.take(jobs) if jobs else None
        if correction is not None:
            self._done.put(correction)
