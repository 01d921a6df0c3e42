"""The walks that a model was learnt from, on its time step: where it knows something, what training goes on from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.fit.walk_steps import WalkRows

__all__ = ["Footprints"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Footprints:
    """Positions of all training walks; M positions of N rows (a walk with a gap has several rows)."""

    local_xy: NDArray[np.float32]  # (M, 2), metres, relative to ``origin``
    origin: Array  # (2,), metres
    row: NDArray[np.int64]  # (M,), in order
    walk: NDArray[np.int64]  # (N,), which walk each row belongs to
    start_ns: NDArray[np.int64]  # (N,)
    ended: NDArray[np.bool_]  # (N,)
    names: tuple[str, ...]  # (W,), a fingerprint of each walk

    @classmethod
    def of(cls, rows: WalkRows, names: tuple[str, ...]) -> "Footprints":
        """All positions of all rows."""
        row = np.repeat(np.arange(len(rows)), [len(xy) for xy in rows.xy])
        local = np.concatenate(rows.xy).astype(np.float32)
        return cls(local, rows.origin, row, rows.walk, rows.start_ns, rows.ended, names)

    @property
    def xy(self) -> Array:
        """Positions (M, 2) in the model's frame, metres."""
        return np.asarray(self.local_xy.astype(float) + self.origin)

    @property
    def longest(self) -> int:
        """Positions of the longest row."""
        return int(np.bincount(self.row).max(initial=0))

    @property
    def walks(self) -> int:
        """How many walks there are."""
        return len(self.names)

    def walks_near(self, xy: Array, radius_m: float) -> tuple[int, float]:
        """How many walks pass within a radius of a position (2,), and how near the nearest position is, metres."""
        away = np.hypot(*(self.local_xy - (np.asarray(xy, dtype=float) - self.origin).astype(np.float32)).T)
        near = np.unique(self.walk[np.unique(self.row[away <= radius_m])])
        return len(near), float(away.min(initial=np.inf))
