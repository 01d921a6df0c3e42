"""Which sampled paths pass through walls of the map.

Paths that do are drawn again from the same start following the same field, a few times at most; one that still does is
kept. So the shares of the destinations stay as the model gives them, and paths use the doors. A step passes through a
wall if the straight line between its ends touches an occupied cell; cells that are unknown are no walls.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.compiled import kernel
from svfm_ros.types import OCCUPIED_FROM, OccupancyGrid

__all__ = ["Walls"]


@kernel
def _mark_crossing(occupied, cells_xy, looks, crossed):  # type: ignore[no-untyped-def]
    """Mark in ``crossed`` (S,) the paths (S, K, 2), in cells, that touch an occupied cell anywhere."""
    height, width = occupied.shape
    for s in range(len(cells_xy)):
        for k in range(cells_xy.shape[1] - 1):
            x, y = cells_xy[s, k, 0], cells_xy[s, k, 1]
            dx, dy = cells_xy[s, k + 1, 0] - x, cells_xy[s, k + 1, 1] - y
            for look in range(looks):
                share = look / looks
                column, row = int(np.floor(x + share * dx)), int(np.floor(y + share * dy))
                if 0 <= row < height and 0 <= column < width and occupied[row, column]:
                    crossed[s] = True
                    break
            if crossed[s]:
                break


@dataclass(frozen=True, slots=True)
class Walls:
    """Occupied cells of a map."""

    occupied: NDArray[np.bool_]  # (H, W)
    grid: OccupancyGrid

    @classmethod
    def of(cls, grid: OccupancyGrid, threshold: float = OCCUPIED_FROM) -> "Walls":
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
        _mark_crossing(self.occupied, local, looks, crossed)
        return crossed
