"""Plane geometry the simulator needs: polygons, distances to segments."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

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


@kernel
def distance_to_segments(points: Array, segments: Array) -> Array:
    """Distance ``(N,)`` of each point ``(N, 2)`` to the nearest of the segments ``(M, 4)``."""
    best = np.full(len(points), np.inf)
    for m in range(len(segments)):
        ax, ay = segments[m, 0], segments[m, 1]
        dx, dy = segments[m, 2] - ax, segments[m, 3] - ay
        length2 = max(dx * dx + dy * dy, 1e-30)
        for i in range(len(points)):
            px, py = points[i, 0] - ax, points[i, 1] - ay
            s = min(max((px * dx + py * dy) / length2, 0.0), 1.0)
            ex, ey = px - s * dx, py - s * dy
            best[i] = min(best[i], ex * ex + ey * ey)
    return np.asarray(np.sqrt(best))
