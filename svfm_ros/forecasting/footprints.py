"""Where the walks that a model learned from set foot."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.types import WalkWindows

__all__ = ["Footprints"]


@dataclass(frozen=True, slots=True)
class Footprints:
    """Where the training walks set foot."""

    xy: NDArray[np.float32]  # (M, 2), metres
    walk: NDArray[np.int64]  # (M,), which walk

    @classmethod
    def of(cls, windows: WalkWindows) -> "Footprints":
        """All positions of all rows; pieces of one walk count as one."""
        number = {name: i for i, name in enumerate(dict.fromkeys(windows.walk_ids))}
        rows = np.array([number[name] for name in windows.walk_ids], dtype=np.int64)
        walk = np.broadcast_to(rows[:, None], windows.valid.shape)[windows.valid]
        return cls(windows.xy[windows.valid].astype(np.float32), walk)

    @property
    def longest(self) -> int:
        """Positions of the longest walk."""
        return int(np.unique(self.walk, return_counts=True)[1].max(initial=0))

    @property
    def walks(self) -> int:
        """How many walks there are."""
        return len(np.unique(self.walk))
