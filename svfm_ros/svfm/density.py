"""Where sampled paths pass, cell by cell: a forecast as a map."""

import numpy as np
from numpy.typing import ArrayLike

from svfm_ros.datatypes import OccupancyGrid, Pose2
from svfm_ros.errors import DataError

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
    points = _filled(xy, cell_m)
    column, row = (((points[..., i] - low[i]) / cell_m).astype(np.int64) for i in (0, 1))
    cell = row * width + column  # (S, P)
    path = np.broadcast_to(np.arange(len(xy))[:, None], cell.shape)
    visits = np.unique(path.ravel() * (width * height) + cell.ravel()) % (width * height)
    share = np.bincount(visits, minlength=width * height).reshape(height, width) / len(xy)
    return OccupancyGrid(share.astype(np.float32), cell_m, Pose2(float(low[0]), float(low[1]), 0.0))


def _filled(xy: np.ndarray, cell_m: float) -> np.ndarray:
    """The paths with points between the ticks, so that no cell on the way is skipped."""
    step = np.diff(xy, axis=1)
    looks = int(np.ceil(np.abs(step).max(initial=0.0) / cell_m)) + 1
    share = np.arange(looks) / looks
    between = xy[:, :-1, None, :] + share[:, None] * step[:, :, None, :]
    return np.concatenate([between.reshape(len(xy), -1, 2), xy[:, -1:]], axis=1)
