"""Submaps: stretches of the path, drawn once, that later scans may be recognised in.

Their life cycle is Cartographer's. A submap grows until it holds a given number of keyframes; when it is half full the
next one opens, so that two are growing at any time and every place is inside one rather than on an edge. A full submap
is finished: its drawing, relative to the keyframe in its middle, never changes again. What the pose graph moves is that
keyframe, not the drawing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import se2
from svfm_ros.slam.keyframes import Pool
from svfm_ros.slam.localmap import LocalMap, build_local_map

__all__ = ["Submap", "SubmapSpan", "Submaps", "draw"]

Array = NDArray[np.float64]

_DEPTH = 6  # levels of a finished submap's pyramid: blocks of 3.2 m at the top
_REACH_M = 25.0


@dataclass(frozen=True, slots=True)
class SubmapSpan:
    """Keyframes ``first`` to ``last`` (not included), seen from ``anchor``."""

    submap_id: int
    first: int
    last: int

    @property
    def anchor(self) -> int:
        """The keyframe in the middle: what it is far from, it turns by the least."""
        return (self.first + self.last) // 2

    def keyframes(self) -> NDArray[np.int64]:
        """Ids of its keyframes."""
        return np.arange(self.first, self.last)


@dataclass(frozen=True, slots=True)
class Submap:
    """A finished submap: its span and its drawing in the frame of its anchor."""

    span: SubmapSpan
    target: LocalMap


def draw(span: SubmapSpan, pool: Pool, poses: Array) -> Submap:
    """Finish a submap with the poses ``(K, 3)`` of now."""
    relative = se2.relative(poses[span.anchor], poses[: span.last])
    return Submap(
        span, build_local_map(pool, relative, span.keyframes(), np.zeros(2), _REACH_M, span.keyframes(), _DEPTH)
    )


class Submaps:
    """The life cycle: which keyframes belong together."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._open: list[int] = []  # first keyframes of those still growing
        self._count = 0

    def add(self, keyframe: int) -> SubmapSpan | None:
        """Take in the next keyframe; returns the submap that it completed, if any."""
        if not self._open or (len(self._open) == 1 and keyframe - self._open[0] >= self._size // 2):
            self._open.append(keyframe)
        if keyframe + 1 - self._open[0] < self._size:
            return None
        return self._finish(self._open.pop(0), keyframe + 1)

    def close(self, last: int) -> SubmapSpan | None:
        """End of a chain: what has grown so far is finished, if it is at least half full; the rest is forgotten."""
        first = self._open[0] if self._open else last
        self._open.clear()
        return self._finish(first, last) if last - first >= self._size // 2 else None

    def _finish(self, first: int, last: int) -> SubmapSpan:
        self._count += 1
        return SubmapSpan(self._count - 1, first, last)
