"""A model's networks as tables over the floor: a path then looks its field up instead of computing it.

Fields see the floor alone, so a table of 5 cm is as good as the network (bilinear in between), costs a fraction of a
second when a model is loaded, and makes each step of a path a few memory reads, whatever the size of the networks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SPEEDS_MPS", "FieldTable"]

Array = NDArray[np.float32]

SPEEDS_MPS = np.array([0.0, 0.2, 0.4, 0.7, 1.1, 1.8], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class FieldTable:
    """Rows of ten numbers: velocity (2), spreads across and along (2), logit of ending at six speeds."""

    cells: Array  # (K * NX * NY, 10)
    low: Array  # (2,)
    cell_m: float
    shape: tuple[int, int, int]  # K, NX, NY

    @property
    def parts(self) -> tuple[Array, Array, float, tuple[int, int, int]]:
        """As compiled code takes them."""
        return self.cells, self.low, self.cell_m, self.shape

    def look_up(self, x: Array, y: Array, component: NDArray[np.int64]) -> Array:
        """What the field of each row says at its position: (S, 10)."""
        _, nx, ny = self.shape
        fx = ((x - self.low[0]) / np.float32(self.cell_m)).clip(0.0, nx - 1.001)
        fy = ((y - self.low[1]) / np.float32(self.cell_m)).clip(0.0, ny - 1.001)
        ix, iy = fx.astype(np.int64), fy.astype(np.int64)
        fx, fy = (fx - ix).astype(np.float32)[:, None], (fy - iy).astype(np.float32)[:, None]
        at = (component * nx + ix) * ny + iy
        lower = self.cells[at] * (1.0 - fy) + self.cells[at + 1] * fy
        upper = self.cells[at + ny] * (1.0 - fy) + self.cells[at + ny + 1] * fy
        return np.asarray(lower + fx * (upper - lower))

    @staticmethod
    def end_logit(row: Array, speed_mps: Array) -> Array:
        """Logit of ending (S,), from looked-up rows (S, 10) and the speed of the last step (S,)."""
        i = np.searchsorted(SPEEDS_MPS[1:-1], speed_mps)
        share = ((speed_mps - SPEEDS_MPS[i]) / (SPEEDS_MPS[i + 1] - SPEEDS_MPS[i])).clip(max=1.0)
        each = np.arange(len(row))
        return np.asarray(row[each, 4 + i] * (1.0 - share) + row[each, 5 + i] * share)
