"""Occupancy grid from scans at their optimised poses.

Each cell counts the scans with an echo in it and those that passed through it. Counts can be subtracted exactly, which
clamped log-odds cannot: when a loop closure moves some poses, only their scans are removed and drawn again. The
probabilities are computed from the counts by ``grid()``.

Objects that have gone disappear from the map: a cell through which scans passed often enough since its last echo is
free, however many echoes it had before, such as a door that was shut yesterday.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.compiled import kernel
from svfm_ros.config.slam_config import RasterConfig
from svfm_ros.types import OccupancyGrid, Pose2, Scan

__all__ = ["MapRaster", "echoes"]

Array = NDArray[np.float64]
Counts = NDArray[np.int32]

_MARGIN_CELLS = 64  # the grid grows by this many cells more than needed, so that it rarely grows
_GONE_SCANS, _GONE_SHARE = 10, 0.5  # passes since the last echo: at least so many, and this share of all echoes
_LEVER_M = 5.0  # distance of the points by whose displacement a change of heading is measured
_MOST_CELLS = 50_000_000  # limit of memory (1 GB), should a pose be far off


@dataclass(slots=True)
class _Drawn:
    points: NDArray[np.float32]  # (N, 2), echoes in the sensor's frame
    pose: Array  # (3,), where it was drawn


class MapRaster:
    """A grid to which scans are added, moved and removed, each under its own key."""

    def __init__(self, config: RasterConfig | None = None) -> None:
        self.config = config or RasterConfig()
        self._scans: dict[int, _Drawn] = {}
        # (H, W, 4): echoes, passes, one more than the key of the last echo, passes since.
        self._counts: Counts = np.zeros((0, 0, 4), dtype=np.int32)
        self._mark: Counts = np.zeros((0, 0), dtype=np.int32)
        self._stamp = 0
        self._corner = np.zeros(2, dtype=np.int64)  # of cell (0, 0), in cells from the map's origin

    def __len__(self) -> int:
        return len(self._scans)

    def put(self, key: int, T_map_base: Pose2, scan: Scan, twist: Array | None = None) -> None:
        """Draw a scan; one that is there under the same key is replaced. ``twist`` is the motion during the sweep."""
        self.put_points(key, T_map_base, echoes(scan, self.config.range_max_m, twist))

    def put_points(self, key: int, T_map_base: Pose2, points: Array | NDArray[np.float32]) -> None:
        """The same for echoes ``(N, 2)`` in the sensor's frame."""
        self.remove(key)
        near = points[np.hypot(points[:, 0], points[:, 1]) <= self.config.range_max_m]
        drawn = _Drawn(np.ascontiguousarray(near, dtype=np.float32), T_map_base.as_array())
        if self._draw(key, drawn, 1):
            self._scans[key] = drawn

    def remove(self, key: int) -> None:
        """Remove a scan, if it is there."""
        drawn = self._scans.pop(key, None)
        if drawn is not None:
            self._draw(key, drawn, -1)

    def move(self, poses: Mapping[int, Pose2]) -> int:
        """Draw again the scans whose pose moved by half a cell or more; returns how many those were."""
        moved = 0
        for key, T_map_base in poses.items():
            drawn = self._scans.get(key)
            if drawn is not None and self._moved(drawn.pose, T_map_base):
                self._draw(key, drawn, -1)
                drawn.pose = T_map_base.as_array()
                self._draw(key, drawn, 1)
                moved += 1
        return moved

    def grid(self) -> OccupancyGrid:
        """The current map, cropped to the observed part; cells that no beam reached are NaN."""
        hits, misses, since = self._counts[..., 0], self._counts[..., 1], self._counts[..., 3]
        is_gone = (since >= _GONE_SCANS) & (since >= _GONE_SHARE * hits)
        hits = np.where(is_gone, 0, hits)
        seen = (hits > 0) | (misses > 0)
        rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
        if not rows.size:
            return OccupancyGrid(np.full((1, 1), np.nan, dtype=np.float32), self.config.resolution_m)
        part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        corner = (self._corner + np.array([columns[0], rows[0]])) * self.config.resolution_m
        prob = self._probability(hits[part], misses[part], seen[part])
        return OccupancyGrid(prob, self.config.resolution_m, Pose2(float(corner[0]), float(corner[1]), 0.0))

    def _probability(self, hits: Counts, misses: Counts, seen: NDArray[np.bool_]) -> NDArray[np.float32]:
        c = self.config
        limit = math.log(c.clamp / (1.0 - c.clamp))
        odds = hits * math.log(c.hit / (1.0 - c.hit)) + misses * math.log(c.miss / (1.0 - c.miss))
        prob = 1.0 / (1.0 + np.exp(-np.clip(odds, -limit, limit)))
        return np.where(seen, prob, np.nan).astype(np.float32)

    def _moved(self, before: Array, T_map_base: Pose2) -> bool:
        turn = abs(math.remainder(T_map_base.theta - before[2], 2.0 * math.pi))
        way = math.hypot(T_map_base.x - before[0], T_map_base.y - before[1]) + turn * _LEVER_M
        return way >= 0.5 * self.config.resolution_m

    def _draw(self, key: int, drawn: _Drawn, sign: int) -> bool:
        """Add a scan to the counts (sign 1) or subtract it (-1); false if the grid would become too large."""
        c, s = math.cos(drawn.pose[2]), math.sin(drawn.pose[2])
        ends = drawn.points.astype(np.float64) @ np.array([[c, s], [-s, c]]) + drawn.pose[:2]  # (N, 2)
        cells_m = self.config.resolution_m
        box = np.vstack([ends, drawn.pose[None, :2]])
        low = np.floor(box.min(axis=0) / cells_m)
        high = np.floor(box.max(axis=0) / cells_m)
        if not self._grow(low, high):
            return False
        self._stamp += 1
        start = drawn.pose[:2] / cells_m - self._corner
        _cast(self._counts, self._mark, self._stamp, start, ends / cells_m - self._corner, sign, key + 1)
        return True

    def _grow(self, low: Array, high: Array) -> bool:
        """Make room for cells from ``low`` to ``high``."""
        height, width = self._mark.shape
        old_low, old_high = self._corner, self._corner + np.array([width, height]) - 1
        if self._mark.size and np.all(low >= old_low) and np.all(high <= old_high):
            return True
        if not np.all(np.isfinite(low) & np.isfinite(high)):
            return False
        if self._mark.size:
            low, high = np.minimum(low, old_low), np.maximum(high, old_high)
        low, high = low - _MARGIN_CELLS, high + _MARGIN_CELLS
        if np.prod(high - low + 1) > _MOST_CELLS:
            return False
        corner, size = low.astype(np.int64), (high - low + 1).astype(np.int64)
        counts = np.zeros((size[1], size[0], 4), dtype=np.int32)
        if self._mark.size:
            x, y = self._corner - corner
            counts[y : y + height, x : x + width] = self._counts
        self._counts, self._corner = counts, corner
        self._mark, self._stamp = np.zeros((size[1], size[0]), dtype=np.int32), 0
        return True


def echoes(scan: Scan, range_max_m: float, twist: Array | None = None) -> Array:
    """Echoes ``(N, 2)`` in the sensor's frame at the first beam; beams without an echo are left out.

    ``twist`` (3,) is the sensor's motion during the sweep: vx, vy, omega per second, in its own axes.
    """
    ranges = scan.ranges.astype(np.float64)
    with np.errstate(invalid="ignore"):
        good = (ranges >= scan.range_min) & (ranges < min(scan.range_max, range_max_m))
    angles = scan.angles()[good]
    points = np.asarray(ranges[good, None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1))
    if twist is None or not scan.time_increment_s:
        return points
    twist = twist if scan.turned_rad is None else twist * np.array([1.0, 1.0, 0.0])  # turns are taken out already
    moved = geometry.exp(np.flatnonzero(good)[:, None] * scan.time_increment_s * twist)  # (N, 3)
    return geometry.apply(moved, points[:, None])[:, 0]


@kernel
def _cast(counts: Counts, mark: Counts, stamp: int, start: Array, ends: Array, sign: int, when: int) -> None:
    """Count echoes, then the cells between the sensor and each echo; each cell once per scan, echoes first."""
    for n in range(len(ends)):
        x, y = int(np.floor(ends[n, 0])), int(np.floor(ends[n, 1]))
        if mark[y, x] != stamp:
            mark[y, x] = stamp
            counts[y, x, 0] += sign
            if sign > 0 and when >= counts[y, x, 2]:
                counts[y, x, 2], counts[y, x, 3] = when, 0
            elif sign < 0 and when == counts[y, x, 2]:  # when the echo before it was is not known: keep all echoes
                counts[y, x, 2], counts[y, x, 3] = 0, 0
    for n in range(len(ends)):
        _cast_one(counts, mark, stamp, start[0], start[1], ends[n, 0], ends[n, 1], sign, when)


@kernel
def _cast_one(
    counts: Counts, mark: Counts, stamp: int, x0: float, y0: float, x1: float, y1: float, sign: int, when: int
) -> None:
    """All cells a beam crosses, in order (Amanatides and Woo)."""
    x, y = int(np.floor(x0)), int(np.floor(y0))
    last_x, last_y = int(np.floor(x1)), int(np.floor(y1))
    dx, dy = x1 - x0, y1 - y0
    step_x, step_y = (1 if dx > 0 else -1), (1 if dy > 0 else -1)
    per_x = abs(1.0 / dx) if dx != 0.0 else np.inf
    per_y = abs(1.0 / dy) if dy != 0.0 else np.inf
    next_x = ((x + 1 - x0) if dx > 0 else (x0 - x)) * per_x if dx != 0.0 else np.inf
    next_y = ((y + 1 - y0) if dy > 0 else (y0 - y)) * per_y if dy != 0.0 else np.inf
    for _ in range(abs(last_x - x) + abs(last_y - y)):
        if mark[y, x] != stamp:
            mark[y, x] = stamp
            counts[y, x, 1] += sign
            if when > counts[y, x, 2]:
                counts[y, x, 3] = max(0, counts[y, x, 3] + sign)
        if next_x < next_y:
            x += step_x
            next_x += per_x
        else:
            y += step_y
            next_y += per_y
