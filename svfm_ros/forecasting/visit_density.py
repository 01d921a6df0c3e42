"""Where sampled paths pass, cell by cell: a forecast as a map."""

import numpy as np
from numpy.typing import ArrayLike

from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.types import OccupancyGrid, Pose2

__all__ = ["density_grid"]

_MOST_CELLS = 4_000_000
_MARGIN_M = 0.5  # around all paths


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
                column, row = int(x + look / looks * dx), int(y + look / looks * dy)
                if last[row, column] != s:
                    last[row, column] = s
                    visits[row, column] += 1


def density_grid(samples_xy: ArrayLike, cell_m: float = 0.1) -> OccupancyGrid:
    """Share of the paths (S, K, 2) that visit each cell, on the smallest grid that holds them all."""
    xy = np.asarray(samples_xy, dtype=float)
    if xy.ndim != 3 or xy.shape[-1] != 2 or 0 in xy.shape or not np.isfinite(xy).all():
        raise DataError(f"expected finite paths (S, K, 2), got shape {xy.shape}")
    low = np.floor((xy.min((0, 1)) - _MARGIN_M) / cell_m) * cell_m
    width, height = (int(n) for n in np.ceil((xy.max((0, 1)) + _MARGIN_M - low) / cell_m))
    if width * height > _MOST_CELLS:
        raise DataError(f"expected paths that fit a grid of {_MOST_CELLS} cells, got {width} x {height}")
    visits = np.zeros((height, width), dtype=np.int32)
    _count_visits((xy - low) / cell_m, visits)
    share = (visits / len(xy)).astype(np.float32)
    return OccupancyGrid(share, cell_m, Pose2(float(low[0]), float(low[1]), 0.0))
