"""Where sampled paths pass, cell by cell: a forecast as a map."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.types import OccupancyGrid, Pose2

__all__ = ["DensityRaster"]

_MARGIN_M = 1.0
_MAX_CELLS = 1_000_000


@kernel
def _count_visits(cells_xy, visits):  # type: ignore[no-untyped-def]
    """Add one to each cell (H, W) that a path (S, K, 2), in cells, passes; once for each path, and none is skipped."""
    last = np.full(visits.shape, -1, dtype=np.int32)
    for s in range(len(cells_xy)):
        for k in range(cells_xy.shape[1]):
            x, y = cells_xy[s, k, 0], cells_xy[s, k, 1]
            after = min(k + 1, cells_xy.shape[1] - 1)
            dx, dy = cells_xy[s, after, 0] - x, cells_xy[s, after, 1] - y
            looks = int(np.ceil(max(abs(dx), abs(dy)))) + 1
            for look in range(looks):
                column, row = math.floor(x + look / looks * dx), math.floor(y + look / looks * dy)
                is_inside = 0 <= row < visits.shape[0] and 0 <= column < visits.shape[1]
                if is_inside and last[row, column] != s:
                    last[row, column] = s
                    visits[row, column] += 1


@dataclass(frozen=True, slots=True)
class DensityRaster:
    """A grid of ``shape`` (rows, columns) whose lower left corner is ``low`` (in cells of ``cell_m``)."""

    cell_m: float
    low: tuple[int, int]  # column, row
    shape: tuple[int, int]  # rows, columns

    @classmethod
    def around(cls, points: NDArray[np.floating], cell_m: float) -> "DensityRaster":
        """The grid that holds all points (N, 2) with a margin of 1 m; coarser where it would be too large."""
        low_m, high_m = points.min(axis=0) - _MARGIN_M, points.max(axis=0) + _MARGIN_M
        cell_m = max(cell_m, float(np.sqrt(np.prod(high_m - low_m) / _MAX_CELLS)))
        low = np.floor(low_m / cell_m).astype(int)
        columns, rows = (np.ceil(high_m / cell_m).astype(int) - low).tolist()
        return cls(cell_m, (int(low[0]), int(low[1])), (rows, columns))

    def draw(self, samples_xy: NDArray[np.float64]) -> OccupancyGrid:
        """Share of the paths (S, K, 2) that pass each cell, smoothed; what lies outside of the grid is left out."""
        visits = np.zeros(self.shape, dtype=np.int32)
        _count_visits(samples_xy / self.cell_m - self.low, visits)
        share = np.pad((visits / len(samples_xy)).astype(np.float32), 1)
        rows = share[:-2] + 2.0 * share[1:-1] + share[2:]
        return self._grid((rows[:, :-2] + 2.0 * rows[:, 1:-1] + rows[:, 2:]) / 16.0)  # a 3 x 3 binomial filter

    def empty(self) -> OccupancyGrid:
        """The same grid with zeros."""
        return self._grid(np.zeros(self.shape, dtype=np.float32))

    def _grid(self, cells: NDArray[np.float32]) -> OccupancyGrid:
        return OccupancyGrid(cells, self.cell_m, Pose2(self.low[0] * self.cell_m, self.low[1] * self.cell_m, 0.0))
