"""How likely each spot is to be walked over: a forecast's samples as an occupancy grid, to lay over the map."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.datatypes import Forecast, OccupancyGrid, Pose2

__all__ = ["density_grid"]

Array = NDArray[np.float64]

_MARGIN_M = 0.5
_MOST_CELLS = 500  # on a side; samples gone astray must not take all memory


def density_grid(forecast: Forecast, resolution_m: float = 0.1, blur_m: float = 0.15) -> OccupancyGrid:
    """The share of samples that come by a cell, smoothed a little, 1 where it is highest; 0 where none comes."""
    samples = forecast.samples_xy[np.isfinite(forecast.samples_xy).all(axis=(1, 2))]
    if not forecast.known or not samples.size:
        return OccupancyGrid(np.zeros((1, 1), dtype=np.float32), resolution_m)
    low, size = _frame(samples, resolution_m)
    visited = _visits(samples, low, size, resolution_m)
    smooth = _blur(_blur(visited, blur_m / resolution_m).T, blur_m / resolution_m).T
    return OccupancyGrid((smooth / smooth.max()).astype(np.float32), resolution_m, Pose2(float(low[0]), float(low[1])))


def _frame(samples: Array, resolution_m: float) -> tuple[Array, tuple[int, int]]:
    """The lower left corner and the (rows, columns) of a grid around nearly all samples."""
    flat = samples.reshape(-1, 2)
    low = np.floor((flat.min(axis=0) - _MARGIN_M) / resolution_m) * resolution_m
    columns, rows = np.ceil((flat.max(axis=0) + _MARGIN_M - low) / resolution_m).astype(int)
    return low, (min(int(rows), _MOST_CELLS), min(int(columns), _MOST_CELLS))


def _visits(samples: Array, low: Array, size: tuple[int, int], resolution_m: float) -> Array:
    """Share of samples that come by each cell; a sample counts once for a cell, however long it stays there."""
    rows, columns = size
    cells = np.floor((_fine(samples) - low) / resolution_m).astype(np.int64)  # (S, M, 2): column, row
    inside = (cells >= 0).all(axis=-1) & (cells[..., 0] < columns) & (cells[..., 1] < rows)
    number = cells[..., 1] * columns + cells[..., 0]
    sample = np.broadcast_to(np.arange(len(samples))[:, None], number.shape)
    seen = np.unique(sample[inside] * (rows * columns) + number[inside]) % (rows * columns)
    counts = np.bincount(seen, minlength=rows * columns)
    return np.asarray(counts.reshape(rows, columns) / len(samples))


def _fine(samples: Array, pieces: int = 4) -> Array:
    """Points between the points, so that quick walkers leave no gaps ``(S, (K - 1) * pieces + 1, 2)``."""
    part = np.arange(pieces)[None, None, :, None] / pieces
    steps = samples[:, :-1, None] * (1.0 - part) + samples[:, 1:, None] * part  # (S, K - 1, pieces, 2)
    return np.concatenate([steps.reshape(len(samples), -1, 2), samples[:, -1:]], axis=1)


def _blur(image: Array, sigma_cells: float) -> Array:
    """Smooth along the rows with a Gaussian."""
    reach = max(1, round(2.5 * sigma_cells))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(sigma_cells, 1e-6)) ** 2)
    padded = np.pad(image, ((0, 0), (reach, reach)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=1)
    return np.asarray(windows @ (kernel / kernel.sum()))
