"""A drawing at rest, without what follows from the rest of it.

A finished submap is kept for ever and asked for once in a while. Most of it is quickly made again: coarse levels follow
from the finest, where each bucket begins follows from the points. So a map takes a third of the memory.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.slam.matching.local_map import LocalMap, bucket_starts
from svfm_ros.slam.matching.pyramid import Pyramid, pyramid_from_level

__all__ = ["PackedMap"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PackedMap:
    """What cannot be made again."""

    points: Array  # (M, 5), sorted by bucket
    rows: int
    columns: int
    origin: Array  # (2,)
    finest: Pyramid  # level 0 alone
    depth: int

    @classmethod
    def of(cls, drawing: LocalMap) -> "PackedMap":
        """The same drawing, at rest."""
        seen = drawing.pyramid
        finest = Pyramid(seen.levels[:1].copy(), seen.resolution_m, seen.origin, seen.unknown)
        rows = (len(drawing.starts) - 1) // drawing.columns
        return cls(drawing.points, rows, drawing.columns, drawing.origin, finest, len(seen.levels))

    def unpacked(self) -> LocalMap:
        """The drawing, ready for scans; exactly what was packed."""
        starts = bucket_starts(self.points, self.origin, self.rows, self.columns)
        return LocalMap(self.points, starts, self.columns, self.origin, pyramid_from_level(self.finest, self.depth))
