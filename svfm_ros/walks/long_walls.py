"""Which points lie on long straight surfaces: walls, which stay, unlike furniture, doors and people.

A point counts when an unbroken row of points of at least ``LONG_M`` runs through it along its own surface.
"""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

__all__ = ["LONG_M", "on_long_walls", "surface_normals"]

Array = NDArray[np.float64]

LONG_M = 1.6  # longer than a door leaf, a chair or the side of most tables
_BIN_M = 0.1  # along the surface: two empty bins in a row end it
_ACROSS_M = 0.07  # points nearer than this to the line are on it: noise of a worn LiDAR and half a map cell
_NEIGHBOURS = 10  # points from which a normal is estimated


def surface_normals(points: Array) -> Array:
    """Unit vector across the surface at each point ``(N, 2)``; its sign does not matter."""
    from scipy.spatial import cKDTree

    neighbours = min(_NEIGHBOURS, len(points))
    _, index = cKDTree(points).query(points, neighbours)
    near = points[index.reshape(len(points), neighbours)]  # (N, k, 2)
    centred = near - near.mean(axis=1, keepdims=True)
    covariance = np.einsum("mki,mkj->mij", centred, centred)
    return np.asarray(np.linalg.eigh(covariance)[1][:, :, 0])


def on_long_walls(points: Array, normals: Array) -> NDArray[np.bool_]:
    """Which points ``(N, 2)`` with unit normals ``(N, 2)`` lie on a straight surface of at least ``LONG_M``."""
    order = np.argsort(points[:, 0], kind="stable")
    out = np.empty(len(points), dtype=np.bool_)
    out[order] = _on_long(np.ascontiguousarray(points[order]), np.ascontiguousarray(normals[order]), LONG_M)
    return out


@kernel
def _on_long(points: Array, normals: Array, long_m: float) -> NDArray[np.bool_]:
    """The same for points sorted by x."""
    reach = int(np.ceil(long_m / _BIN_M))
    reach_m = (reach + 0.5) * _BIN_M
    out = np.zeros(len(points), dtype=np.bool_)
    taken = np.zeros(2 * reach + 1, dtype=np.bool_)
    first = 0
    for i in range(len(points)):
        while points[i, 0] - points[first, 0] > reach_m:
            first += 1
        taken[:] = False
        for j in range(first, len(points)):
            dx, dy = points[j, 0] - points[i, 0], points[j, 1] - points[i, 1]
            if dx > reach_m:
                break
            if abs(dx * normals[i, 0] + dy * normals[i, 1]) <= _ACROSS_M:
                at = int(np.floor((dy * normals[i, 0] - dx * normals[i, 1]) / _BIN_M + 0.5))
                if -reach <= at <= reach:
                    taken[reach + at] = True
        out[i] = (_run(taken, reach, 1) + _run(taken, reach, -1)) * _BIN_M >= long_m
    return out


@kernel
def _run(taken: NDArray[np.bool_], middle: int, step: int) -> int:
    """Bins from the middle to the last one before two empty ones in a row."""
    last = 0
    for k in range(1, middle + 1):
        if taken[middle + step * k]:
            last = k
        elif k - last > 1:
            break
    return last
