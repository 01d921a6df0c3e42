"""Plane geometry the simulator needs: polygons, distances to segments."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["contains", "distance_to_segments", "rectangle_around"]

Array = NDArray[np.float64]


def rectangle_around(start: Array, end: Array, thickness: float) -> Array:
    """A bar ``(4, 2)`` with the centre line from start to end."""
    along = (end - start) / np.hypot(*(end - start))
    side = np.array([-along[1], along[0]]) * (thickness / 2.0)
    return np.stack([start - side, end - side, end + side, start + side])


def contains(outline: Array, points: Array) -> NDArray[np.bool_]:
    """Which points ``(N, 2)`` lie within a polygon ``(V, 2)``; even-odd rule."""
    inside = np.zeros(len(points), dtype=bool)
    x, y = points[:, 0], points[:, 1]
    for (x0, y0), (x1, y1) in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if y0 != y1:
            crosses = (y0 > y) != (y1 > y)
            inside ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return inside


def distance_to_segments(points: Array, segments: Array) -> Array:
    """Distance ``(N,)`` of each point ``(N, 2)`` to the nearest of the segments ``(M, 4)``."""
    best = np.full(len(points), np.inf)
    for x0, y0, x1, y1 in segments:
        a, d = np.array([x0, y0]), np.array([x1 - x0, y1 - y0])
        s = np.clip(((points - a) @ d) / max(float(d @ d), 1e-30), 0.0, 1.0)
        np.minimum(best, np.hypot(*(points - a - s[:, None] * d).T), out=best)
    return best
