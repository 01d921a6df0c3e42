"""A regular grid over the floor: sums of samples onto its nodes, Gaussian smoothing, bilinear lookup.

Positions are metres relative to the model's origin, which is subtracted in double precision before anything else: walks
in UTM coordinates give the same tables as walks near zero.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

__all__ = ["FloorGrid", "corner", "interpolate"]

Array = NDArray[np.float64]

_CELL_M = 0.08  # finest cell; fields are smoothed over 0.2 m and more: with 0.05 m left-out densities are the same
_MOST_NODES = 40_000  # larger floors get larger cells
_FINE = 4.0  # nodes, or blocks of nodes, per standard deviation of a smoothing kernel
_TRUNCATE = 3.5  # standard deviations at which the smoothing kernel is cut


@kernel
def corner(x, y, low_x, low_y, cell_m, nx, ny):  # type: ignore[no-untyped-def]
    """Lower left node (ix, iy) of the cell that holds (x, y), and the position inside of it as shares (0 to 1)."""
    fx = min(max((x - low_x) / cell_m, 0.0), nx - 1.001)
    fy = min(max((y - low_y) / cell_m, 0.0), ny - 1.001)
    ix, iy = int(fx), int(fy)
    return ix, iy, fx - ix, fy - iy


@kernel
def interpolate(table, ix, iy, ax, ay, channel):  # type: ignore[no-untyped-def]
    """Bilinear value of one channel of a table (NX, NY, C)."""
    lower = table[ix, iy, channel] * (1.0 - ay) + table[ix, iy + 1, channel] * ay
    upper = table[ix + 1, iy, channel] * (1.0 - ay) + table[ix + 1, iy + 1, channel] * ay
    return lower * (1.0 - ax) + upper * ax


@kernel
def _add(x, y, values, low_x, low_y, cell_m, out):  # type: ignore[no-untyped-def]
    nx, ny, channels = out.shape
    for i in range(len(x)):
        ix, iy, ax, ay = corner(x[i], y[i], low_x, low_y, cell_m, nx, ny)
        for c in range(channels):
            v = values[i, c]
            out[ix, iy, c] += v * (1.0 - ax) * (1.0 - ay)
            out[ix + 1, iy, c] += v * ax * (1.0 - ay)
            out[ix, iy + 1, c] += v * (1.0 - ax) * ay
            out[ix + 1, iy + 1, c] += v * ax * ay


@kernel
def _look(x, y, low_x, low_y, cell_m, table, out):  # type: ignore[no-untyped-def]
    nx, ny, channels = table.shape
    for i in range(len(x)):
        ix, iy, ax, ay = corner(x[i], y[i], low_x, low_y, cell_m, nx, ny)
        for c in range(channels):
            out[i, c] = interpolate(table, ix, iy, ax, ay, c)


@dataclass(frozen=True, slots=True)
class FloorGrid:
    """Nodes at ``low + cell_m * (i, j)``."""

    low_x: float
    low_y: float
    cell_m: float
    nx: int
    ny: int

    @classmethod
    def around(cls, xy: Array, margin_m: float) -> "FloorGrid":
        """A grid that covers positions (M, 2) with a margin; its cells grow with the floor."""
        low, high = xy.min(0) - margin_m, xy.max(0) + margin_m
        extent = high - low
        cell_m = max(_CELL_M, math.sqrt(float(extent[0] * extent[1]) / _MOST_NODES))
        nx, ny = (int(n) + 2 for n in np.ceil(extent / cell_m))
        return cls(float(low[0]), float(low[1]), cell_m, nx, ny)

    @property
    def nodes(self) -> Array:
        """Positions of the nodes (NX, NY, 2), metres."""
        x = self.low_x + self.cell_m * np.arange(self.nx)
        y = self.low_y + self.cell_m * np.arange(self.ny)
        return np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)

    def look_up(self, xy: Array, table: NDArray[np.floating]) -> Array:
        """Bilinear values (M, C) of a table (NX, NY, C) at positions (M, 2); outside, those of the nearest node."""
        out = np.empty((len(xy), table.shape[2]))
        x, y = np.ascontiguousarray(xy[:, 0]), np.ascontiguousarray(xy[:, 1])
        _look(x, y, self.low_x, self.low_y, self.cell_m, table, out)
        return out

    def smoothed(self, xy: Array, values: Array, width_m: float) -> Array:
        """For every node the sum (NX, NY, C) of values (M, C), each weighted by a Gaussian of its distance, peak 1."""
        from scipy.ndimage import gaussian_filter1d  # slow to load, and forecasts do without it

        out = np.zeros((self.nx, self.ny, values.shape[1]))
        x, y = np.ascontiguousarray(xy[:, 0]), np.ascontiguousarray(xy[:, 1])
        _add(x, y, np.ascontiguousarray(values, dtype=float), self.low_x, self.low_y, self.cell_m, out)
        sigma = width_m / self.cell_m
        block = max(1, int(sigma // _FINE))  # wide kernels are applied to sums over blocks of nodes
        for axis in (0, 1):
            summed = np.add.reduceat(out, np.arange(0, out.shape[axis], block), axis=axis)
            summed = gaussian_filter1d(summed, sigma / block, axis=axis, mode="constant", truncate=_TRUNCATE)
            out = _spread(summed, out.shape[axis], block, axis) / block
        return np.asarray(out * (2.0 * math.pi * sigma * sigma))


def _spread(summed: Array, nodes: int, block: int, axis: int) -> Array:
    """Values at all nodes along an axis from values at the middles of blocks, linear in between."""
    if block == 1:
        return summed
    at = np.clip((np.arange(nodes) - 0.5 * (block - 1)) / block, 0.0, summed.shape[axis] - 1.0)
    low = np.minimum(at.astype(np.int64), max(summed.shape[axis] - 2, 0))
    share = (at - low).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
    high = np.minimum(low + 1, summed.shape[axis] - 1)
    return np.asarray(np.take(summed, low, axis) * (1.0 - share) + np.take(summed, high, axis) * share)
