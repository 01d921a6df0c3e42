"""Sampled paths and the walls of the map.

The rule: a path that passes through a wall is drawn anew from the same start with the same field in mind, a few times
at most; one that still does is kept. So the shares of the destinations stay what the model says (a wall does not veto a
place), and paths use the doors. A step passes through a wall if the straight line between its ends touches a cell that
is occupied; cells that are unknown are no walls.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.forecasting.sampler_kernels import crossings
from svfm_ros.types import OccupancyGrid

__all__ = ["Walls"]

_OCCUPIED = 0.65


@dataclass(frozen=True, slots=True)
class Walls:
    """Occupied cells of a map, ready to be asked about paths."""

    occupied: NDArray[np.bool_]  # (H, W)
    grid: OccupancyGrid

    @classmethod
    def of(cls, grid: OccupancyGrid, threshold: float = _OCCUPIED) -> "Walls":
        """Cells at least that likely to be occupied."""
        with np.errstate(invalid="ignore"):
            return cls(np.asarray(grid.prob >= threshold), grid)

    def crossed_by(self, paths: ArrayLike) -> NDArray[np.bool_]:
        """Whether each path (S, K, 2) touches a wall anywhere (S,)."""
        xy = np.asarray(paths, dtype=float)
        local = self.grid.T_map_grid.inverse().apply(xy.reshape(-1, 2)).reshape(xy.shape) / self.grid.resolution_m
        step = np.diff(local, axis=1)
        # One look per cell and step is enough for lines: walls are at least a cell thick.
        looks = int(np.ceil(np.abs(step).max(initial=0.0))) + 1
        crossed = np.zeros(len(xy), dtype=np.bool_)
        crossings(self.occupied, local, looks, crossed)
        return crossed
