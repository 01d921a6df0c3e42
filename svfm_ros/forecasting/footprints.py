"""The walks that a model was learnt from, on its time step. Forecasts are known near them; training can resume."""

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
    resident: NDArray[np.int64]  # (N,), whose row it is
    residents: tuple[str, ...]  # (R,)

    @classmethod
    def of(cls, rows: WalkRows, names: tuple[str, ...]) -> "Footprints":
        """All positions of all rows."""
        row = np.repeat(np.arange(len(rows)), [len(xy) for xy in rows.xy])
        local = np.concatenate(rows.xy).astype(np.float32)
        people, who = np.unique(rows.resident, return_inverse=True)
        whose = who.reshape(-1).astype(np.int64), tuple(str(name) for name in people)
        return cls(local, rows.origin, row, rows.walk, rows.start_ns, rows.ended, names, *whose)

    @property
    def xy(self) -> Array:
        """Positions (M, 2) in the model's frame, metres."""
        return np.asarray(self.local_xy.astype(float) + self.origin)

    @property
    def longest(self) -> int:
        """Positions of the longest row."""
        return int(np.bincount(self.row).max(initial=0))

    @property
    def passers_by(self) -> bool:
        """Whether some walks do not end with their last row: tracks of people who went out of sight."""
        return len(np.unique(self.walk[self.ended])) < len(self.names)

    @property
    def walks(self) -> int:
        """How many walks there are."""
        return len(self.names)

    def walks_near(self, xy: Array, radius_m: float, rows: NDArray[np.bool_] | None = None) -> tuple[int, float]:
        """How many walks pass within a radius of a position (2,), and how near the nearest position is, metres.

        Only those of ``rows`` (N,) are counted, if given.
        """
        away = np.hypot(*(self.local_xy - (np.asarray(xy, dtype=float) - self.origin).astype(np.float32)).T)
        near = np.unique(self.row[away <= radius_m])
        counted = near if rows is None else near[rows[near]]
        return len(np.unique(self.walk[counted])), float(away.min(initial=np.inf))
