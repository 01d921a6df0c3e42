"""Where sampled paths pass, cell by cell: a forecast as a map."""

import numpy as np
from numpy.typing import ArrayLike

from svfm_ros.errors import DataError
from svfm_ros.forecasting.sampler_kernels import count_visits
from svfm_ros.types import OccupancyGrid, Pose2

__all__ = ["density_grid"]

_MOST_CELLS = 4_000_000


def density_grid(samples_xy: ArrayLike, cell_m: float = 0.1, margin_m: float = 0.5) -> OccupancyGrid:
    """Share of the paths (S, K, 2) that visit each cell, on the smallest grid that holds them all."""
    xy = np.asarray(samples_xy, dtype=float)
    if xy.ndim != 3 or xy.shape[-1] != 2 or 0 in xy.shape or not np.isfinite(xy).all():
        raise DataError(f"expected finite paths (S, K, 2), got shape {xy.shape}")
    low = np.floor((xy.min((0, 1)) - margin_m) / cell_m) * cell_m
    width, height = (int(n) for n in np.ceil((xy.max((0, 1)) + margin_m - low) / cell_m))
    if width * height > _MOST_CELLS:
        raise DataError(f"expected paths that fit a grid of {_MOST_CELLS} cells, got {width} x {height}")
    visits = np.zeros((height, width), dtype=np.int32)
    count_visits((xy - low) / cell_m, visits)
    share = (visits / len(xy)).astype(np.float32)
    return OccupancyGrid(share, cell_m, Pose2(float(low[0]), float(low[1]), 0.0))
