"""Looking for one's place in a large map by the first steps.

One scan is not enough to tell two rooms apart, let alone two houses. Until the place is known, a small map of its own
is drawn, and that is looked for in the large one.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from svfm_ros.datatypes import Scan, SlamUpdate
from svfm_ros.slam.localmap import LocalMap
from svfm_ros.slam.motion import MotionHint
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.slam.wholemap import Place, find_place

__all__ = ["Seeker"]

_ASK_AFTER_M, _ASK_AGAIN_M = 0.5, 2.0  # in less than the first, too little is seen to tell places apart
_ASK_KEYFRAMES = 12
_NOT_YET = "the place in the map is not known yet"


class _SmallMap(Protocol):
    """SLAM without loop closure."""

    counters: Counter[str]

    def add_scan(self, scan: Scan, hint: MotionHint | None = None) -> SlamUpdate: ...

    def walked_m(self) -> float: ...

    def lately(self, most: int) -> Cloud: ...


class Seeker:
    """Draws a small map of the first steps and looks for it in ``target``."""

    def __init__(self, target: LocalMap, make_map: Callable[[], _SmallMap]) -> None:
        self._target, self._make_map = target, make_map
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
            return None, f"{_NOT_YET}: a few steps are needed"
        self._ask_at_m += min(self.walked_m / 2.0, _ASK_AGAIN_M)
        place = find_place(self._own.lately(_ASK_KEYFRAMES), self._target)
        if place is None:
            return None, f"{_NOT_YET}: nothing in it looks like this"
        return (place, "") if place.is_sure else (None, f"{_NOT_YET}: {place.doubt}")
