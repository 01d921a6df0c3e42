"""What the online path tells the work beside, and how much of it was told already."""

from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.loop_candidates import Query
from svfm_ros.slam.loops.submap import SubmapSpan
from svfm_ros.slam.mapper import Job
from svfm_ros.types import Constraint

__all__ = ["Ledger"]


class Ledger:
    """Steps between keyframes, finished submaps, and loops that were found by looking at the whole map."""

    def __init__(self) -> None:
        self.steps: list[Constraint] = []
        self.spans: list[SubmapSpan] = []
        self.loops: list[Constraint] = []
        self._told = (0, 0, 0)

    def news(self, view: MapView, query: Query | None, last_one: bool) -> Job:
        """A job with all that was not told yet."""
        steps, spans, loops = self._told
        self._told = (len(self.steps), len(self.spans), len(self.loops))
        return Job(
            view, tuple(self.steps[steps:]), tuple(self.spans[spans:]), tuple(self.loops[loops:]), query, last_one
        )
