"""Density of sampled paths on one fixed grid, for maps in RViz and for costmaps."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from svfm_ros.types import OccupancyGrid, Pose2

__all__ = ["DensityRaster"]

_MARGIN_M = 1.0
_MAX_CELLS = 1_000_000
_SMOOTHING = np.array([0.25, 0.5, 0.25])  # weights along rows and columns


@dataclass(frozen=True)
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
        from svfm_ros.forecasting.visit_density import density_grid  # compiled code

        visited = density_grid(samples_xy, self.cell_m)
        cells = np.zeros(self.shape, dtype=np.float32)
        column = round(visited.T_map_grid.x / self.cell_m) - self.low[0]
        row = round(visited.T_map_grid.y / self.cell_m) - self.low[1]
        height, width = visited.prob.shape
        top, left = max(row, 0), max(column, 0)
        bottom, right = min(row + height, self.shape[0]), min(column + width, self.shape[1])
        if top < bottom and left < right:
            part = _smoothed(visited.prob)
            cells[top:bottom, left:right] = part[top - row : bottom - row, left - column : right - column]
        return OccupancyGrid(cells, self.cell_m, self._T_map_grid)

    def empty(self) -> OccupancyGrid:
        """The same grid with zeros."""
        return OccupancyGrid(np.zeros(self.shape, dtype=np.float32), self.cell_m, self._T_map_grid)

    @cached_property
    def _T_map_grid(self) -> Pose2:
        return Pose2(self.low[0] * self.cell_m, self.low[1] * self.cell_m, 0.0)


def _smoothed(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cells after a 3 x 3 binomial filter."""
    for axis in (0, 1):
        padded = np.pad(cells, [(1, 1) if a == axis else (0, 0) for a in (0, 1)])
        parts = [np.take(padded, np.arange(cells.shape[axis]) + k, axis=axis) for k in range(3)]
        cells = np.asarray(sum(w * p for w, p in zip(_SMOOTHING, parts, strict=True)), dtype=np.float32)
    return cells
