"""Looking for one's place in a large map by the first steps.

One scan is not enough to tell two rooms apart, let alone two houses. Until the place is known, a small map of its own
is drawn, and that is looked for in the large one.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from svfm_ros.clock import NS_PER_S
from svfm_ros.slam.loops.global_search import Place, find_place
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.motion_model import MotionHint
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import Pose2, Scan, SlamUpdate

__all__ = ["LastSeen", "Seeker"]

_ASK_AFTER_M, _ASK_AGAIN_M = 0.5, 2.0  # in less than the first, too little is seen to tell places apart
_ASK_KEYFRAMES = 12
_SOON_S = 30.0  # who was seen longer ago may be anywhere
_NEAR_M, _FASTEST_MPS = 1.0, 2.0  # how far someone is from where they were
_NOT_YET = "the place in the map is not known yet"


class _SmallMap(Protocol):
    """SLAM without loop closure."""

    counters: Counter[str]

    def add_scan(self, scan: Scan, hint: MotionHint | None = None) -> SlamUpdate: ...

    def walked_m(self) -> float: ...

    def lately(self, most: int) -> Cloud: ...


@dataclass(frozen=True, slots=True)
class LastSeen:
    """Where the sensor was in the map, and when."""

    T_map_base: Pose2
    stamp_ns: int

    def could_be(self, pose: Pose2, stamp_ns: int) -> bool:
        """Whether it may have come to that pose since, and that not long ago."""
        gap_s = (stamp_ns - self.stamp_ns) / NS_PER_S
        way_m = math.hypot(pose.x - self.T_map_base.x, pose.y - self.T_map_base.y)
        return self.is_recent(stamp_ns) and way_m <= _NEAR_M + _FASTEST_MPS * gap_s

    def is_recent(self, stamp_ns: int) -> bool:
        """Whether that is a short while later."""
        return 0.0 <= (stamp_ns - self.stamp_ns) / NS_PER_S <= _SOON_S


class Seeker:
    """Draws a small map of the first steps and looks for it in ``target``.

    Who was there a moment ago, at ``near``, need not walk first: a place that is sure and near that one counts.
    """

    def __init__(self, target: LocalMap, make_map: Callable[[], _SmallMap], near: LastSeen | None = None) -> None:
        self._target, self._make_map, self._near = target, make_map, near
        self._begin()

    def _begin(self) -> None:
        self._own = self._make_map()
        self._ask_at_m = _ASK_AFTER_M

    @property
    def walked_m(self) -> float:
        """How far the small map reaches by now."""
        return self._own.walked_m()

    def add_scan(self, scan: Scan, hint: MotionHint | None) -> tuple[Place | None, str]:
        """The place of this scan in the target's frame, if it is sure by now; else why not."""
        update = self._own.add_scan(scan, hint)
        if self._own.counters["chains_begun"]:
            self._begin()
            update = self._own.add_scan(scan)
        if not update.map_changed:
            return None, _NOT_YET
        if self.walked_m < self._ask_at_m:
            return self._where_it_was(scan.stamp_ns), f"{_NOT_YET}: a few steps are needed"
        self._ask_at_m += min(self.walked_m / 2.0, _ASK_AGAIN_M)
        place = find_place(self._own.lately(_ASK_KEYFRAMES), self._target)
        if place is None:
            return None, f"{_NOT_YET}: nothing in it looks like this"
        return (place, "") if place.is_sure else (None, f"{_NOT_YET}: {place.doubt}")

    def _where_it_was(self, stamp_ns: int) -> Place | None:
        near = self._near
        if near is None or not near.is_recent(stamp_ns):
            return None
        place = find_place(self._own.lately(_ASK_KEYFRAMES), self._target, lambda pose: near.could_be(pose, stamp_ns))
        return place if place is not None and place.is_sure else None
