"""Submaps: local maps of consecutive keyframes, the targets of loop search.

Their life cycle is Cartographer's. A submap grows until it holds a given number of keyframes; when it is half full the
next one opens, so that every position is well inside one of them. A full submap is finished: its local map, in the
frame of its middle keyframe (the anchor), never changes again. The pose graph moves the anchor.

Submaps are ranked by the similarity of rotation-invariant signatures: pairs of histograms over the wall points within a
few metres of a position, of distances from the position and between the points.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.compiled import kernel
from svfm_ros.slam.keyframes import Pool
from svfm_ros.slam.loops.headings import facing_histogram
from svfm_ros.slam.matching.local_map import LocalMap, bucket_starts, build_local_map
from svfm_ros.slam.matching.pyramid import Pyramid, pyramid_from_level

__all__ = ["PackedMap", "Submap", "SubmapSpan", "Submaps", "draw", "signatures", "similarity"]

Array = NDArray[np.float64]

_SIGNATURE_REACH_M = 6.0
_BINS = 24  # of pairwise distances up to twice the reach, and as many of distances from the position
_MOST_POINTS = 200


def signatures(points: Array, positions: Array) -> Array:
    """Signatures of points ``(N, 2)`` around each position ``(S, 2)``: ``(S, 48)``, each of length one."""
    raw = np.array(
        [_signature(_around(points, position), _SIGNATURE_REACH_M, _BINS) for position in positions]
    ).reshape(len(positions), -1)
    length = np.linalg.norm(raw, axis=1, keepdims=True)
    return np.asarray(raw / np.maximum(length, 1e-12))


def similarity(one: Array, others: Array) -> float:
    """Cosine similarity of a signature ``(48,)`` to the most similar of others ``(S, 48)``: 1 when equal."""
    return float(np.max(others @ one, initial=0.0))


def _around(points: Array, position: Array) -> Array:
    near = points - position
    near = near[np.hypot(near[:, 0], near[:, 1]) < _SIGNATURE_REACH_M]
    return np.ascontiguousarray(near[:: max(1, len(near) // _MOST_POINTS)])


@kernel
def _signature(points: Array, reach_m: float, bins: int) -> Array:
    """Square roots of the histograms (to balance large and small bins), from the position and between points."""
    out = np.zeros(2 * bins)
    n = len(points)
    for i in range(n):
        from_position = np.sqrt(points[i, 0] ** 2 + points[i, 1] ** 2)
        out[min(bins - 1, int(from_position / reach_m * bins))] += 1.0 / max(n, 1)
        for j in range(i):
            apart = np.sqrt((points[i, 0] - points[j, 0]) ** 2 + (points[i, 1] - points[j, 1]) ** 2)
            out[bins + min(bins - 1, int(apart / (2.0 * reach_m) * bins))] += 2.0 / max(n * n, 1)
    return np.sqrt(out)


_DEPTH = 6  # levels of a finished submap's pyramid: blocks of 3.2 m at the top
_REACH_M = 25.0
_FEWEST = 3  # keyframes of a submap at the end of a chain
_SIGNATURE_STEP = 4  # keyframes between two signatures


@dataclass(frozen=True, slots=True)
class SubmapSpan:
    """Keyframes ``first`` to ``last`` (excluded)."""

    submap_id: int
    first: int
    last: int

    @property
    def anchor(self) -> int:
        """The keyframe in the middle, whose frame is that of the submap."""
        return (self.first + self.last) // 2

    def keyframes(self) -> NDArray[np.int64]:
        """Ids of its keyframes."""
        return np.arange(self.first, self.last)


@dataclass(frozen=True, slots=True)
class PackedMap:
    """A local map without what can be recomputed (coarse levels, bucket index): a third of the memory."""

    points: Array  # (M, 5), sorted by bucket
    rows: int
    columns: int
    origin: Array  # (2,)
    finest: Pyramid  # level 0 alone
    depth: int

    @classmethod
    def of(cls, target: LocalMap) -> "PackedMap":
        """The packed form of a local map."""
        seen = target.pyramid
        finest = Pyramid(seen.levels[:1].copy(), seen.resolution_m, seen.origin, seen.unknown)
        rows = (len(target.starts) - 1) // target.columns
        return cls(target.points, rows, target.columns, target.origin, finest, len(seen.levels))

    def unpacked(self) -> LocalMap:
        """The local map, exactly as it was packed."""
        starts = bucket_starts(self.points, self.origin, self.rows, self.columns)
        return LocalMap(self.points, starts, self.columns, self.origin, pyramid_from_level(self.finest, self.depth))


@dataclass(frozen=True, slots=True)
class Submap:
    """A finished submap: its span and its local map in the frame of its anchor."""

    span: SubmapSpan
    packed: PackedMap
    signatures: Array  # (S, D), at positions along the path
    facing: Array  # (B,), histogram of the directions that its walls face

    def target(self) -> LocalMap:
        """The local map, as target of scan matching."""
        return self.packed.unpacked()


def draw(span: SubmapSpan, pool: Pool, poses: Array) -> Submap:
    """A finished submap from the current poses ``(K, 3)``."""
    relative = geometry.relative(poses[span.anchor], poses[: span.last])
    target = build_local_map(pool, relative, span.keyframes(), np.zeros(2), _REACH_M, span.keyframes(), _DEPTH)
    positions = relative[span.first : span.last : _SIGNATURE_STEP, :2]
    facing = facing_histogram(target.points[:, 2:4], target.points[:, 4])
    return Submap(span, PackedMap.of(target), signatures(target.points[:, :2], positions), facing)


class Submaps:
    """Groups keyframes into submaps.

    ``size`` counts keyframes at their usual distance; where they lie farther apart, fewer fill a submap (see
    ``Keyframes.progress``).
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
        """Continue with ``count`` finished submaps and those still growing: first keyframe and its progress."""
        self._count, self._open = count, growing

    def add(self, keyframe: int, progress: float) -> SubmapSpan | None:
        """Add the next keyframe; returns the submap that it completed, if any."""
        if not self._open or (len(self._open) == 1 and progress - self._open[0][1] >= self._size / 2.0):
            self._open.append((keyframe, progress))
        if progress - self._open[0][1] < self._size - 1.0:
            return None
        return self._finish(self._open.pop(0)[0], keyframe + 1)

    def close(self, last: int) -> SubmapSpan | None:
        """End of a chain: finish the open submap if it has a few keyframes, and drop the rest."""
        first = self._open[0][0] if self._open else last
        self._open.clear()
        return self._finish(first, last) if last - first >= _FEWEST else None

    def _finish(self, first: int, last: int) -> SubmapSpan:
        self._count += 1
        return SubmapSpan(self._count - 1, first, last)
