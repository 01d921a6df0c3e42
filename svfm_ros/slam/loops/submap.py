"""Submaps: stretches of the path, drawn once, that later scans may be recognised in.

Their life cycle is Cartographer's. A submap grows until it holds a given number of keyframes; when it is half full the
next one opens, so that two are growing at any time and every place is inside one rather than on an edge. A full submap
is finished: its drawing, relative to the keyframe in its middle, never changes again. What the pose graph moves is that
keyframe, not the drawing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.slam.keyframes import Pool
from svfm_ros.slam.loops.signatures import signatures
from svfm_ros.slam.matching.local_map import LocalMap, build_local_map
from svfm_ros.slam.matching.packed_map import PackedMap

__all__ = ["Submap", "SubmapSpan", "Submaps", "draw"]

Array = NDArray[np.float64]

_DEPTH = 6  # levels of a finished submap's pyramid: blocks of 3.2 m at the top
_REACH_M = 25.0
_SPOT_STEP = 4  # every so many keyframes the place is looked at


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
    drawing: PackedMap
    signatures: Array  # (S, D), what the place looks like from spots along the path

    def target(self) -> LocalMap:
        """The drawing, ready for scans to be laid onto."""
        return self.drawing.unpacked()


def draw(span: SubmapSpan, pool: Pool, poses: Array) -> Submap:
    """Finish a submap with the poses ``(K, 3)`` of now."""
    relative = geometry.relative(poses[span.anchor], poses[: span.last])
    target = build_local_map(pool, relative, span.keyframes(), np.zeros(2), _REACH_M, span.keyframes(), _DEPTH)
    spots = relative[span.first : span.last : _SPOT_STEP, :2]
    return Submap(span, PackedMap.of(target), signatures(target.points[:, :2], spots))


class Submaps:
    """The life cycle: which keyframes belong together.

    ``size`` counts keyframes that lie one usual distance apart; where a log leaves more between them, fewer fill a
    submap (see ``Keyframes.progress``).
    """

    def __init__(self, size: float) -> None:
        self._size = size
        self._open: list[tuple[int, float]] = []  # those still growing: first keyframe and its progress
        self._count = 0

    @property
    def open(self) -> list[int]:
        """First keyframes of those still growing."""
        return [first for first, _ in self._open]

    def restore(self, count: int, growing: list[tuple[int, float]]) -> None:
        """Go on with so many finished, and with those still growing: first keyframe and its progress."""
        self._count, self._open = count, growing

    def add(self, keyframe: int, progress: float) -> SubmapSpan | None:
        """Take in the next keyframe; returns the submap that it completed, if any."""
        if not self._open or (len(self._open) == 1 and progress - self._open[0][1] >= self._size / 2.0):
            self._open.append((keyframe, progress))
        if progress - self._open[0][1] < self._size - 1.0:
            return None
        return self._finish(self._open.pop(0)[0], keyframe + 1)

    def close(self, last: int, progress: float) -> SubmapSpan | None:
        """End of a chain: what has grown so far is finished, if it is at least half full; the rest is forgotten."""
        grown = bool(self._open) and progress - self._open[0][1] >= self._size / 2.0
        first = self._open[0][0] if self._open else last
        self._open.clear()
        return self._finish(first, last) if grown else None

    def _finish(self, first: int, last: int) -> SubmapSpan:
        self._count += 1
        return SubmapSpan(self._count - 1, first, last)
