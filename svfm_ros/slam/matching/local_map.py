"""Local map: merged points with normals, and a pyramid for the coarse search; from keyframes or an occupancy grid.

Points of several keyframes in the same small cell with a similar normal are replaced by their mean. This averages the
noise of single scans, and the cost of a match does not depend on how often a wall was seen.

In an occupancy grid the position of a wall inside its cell is taken from a line fit through the wall cells around it. A
wall that is free on both sides has two surfaces.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.slam.keyframes import Pool
from svfm_ros.slam.matching.pyramid import Pyramid, blank, draw_free, draw_walls
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import OCCUPIED_FROM, OccupancyGrid

__all__ = [
    "BUCKET_M",
    "WHOLE_DEPTH",
    "LocalMap",
    "bucket_starts",
    "build_local_map",
    "build_whole_map",
    "local_map_from_grid",
    "local_map_of",
    "merged_cloud",
]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

BUCKET_M = 0.15  # side of the cells of the look-up grid
MERGE_M = 0.05  # side of the cells in which points are merged
_HALF_WEIGHT_M = 4.0  # range at which a point has half the weight of a close one
_MIN_WEIGHT = 0.5  # of a point of a merged cloud
_GRAZING_WEIGHT = 0.02
_COARSE_M = 0.1  # resolution of the coarse search
COARSE_DEPTH = 4
WHOLE_DEPTH = 6  # for windows as large as a map: blocks of 3.2 m at the top
_BEYOND_M = 25.0  # walls up to this far from the path are drawn
UNKNOWN = 90  # score of what was never seen; a wall has 255


@dataclass(frozen=True, slots=True)
class LocalMap:
    """Merged points sorted by bucket; ``starts`` (rows * columns + 1,) says where each bucket begins."""

    points: Array  # (M, 5): x, y, normal x, normal y, weight: how many points it stands for
    starts: Ints
    columns: int
    origin: Array  # (2,), lower left corner of bucket (0, 0)
    pyramid: Pyramid


def merged_cloud(pool: Pool, poses: Array, ids: Ints, centre: Array, reach_m: float, cell_m: float) -> Cloud:
    """Points of several keyframes as one cloud, merged by cells; the frame is that of the poses."""
    merged = _merge(pool.points, pool.starts, poses, ids, centre, reach_m, cell_m)
    merged = merged[merged[:, 4] >= _MIN_WEIGHT]
    return Cloud(merged[:, :2].copy(), merged[:, 2:4].copy(), np.zeros(len(merged)))


def build_local_map(
    pool: Pool, poses: Array, ids: Ints, centre: Array, reach_m: float, free: Ints, depth: int = COARSE_DEPTH
) -> LocalMap:
    """From the keyframes named by ``ids`` with poses ``(K, 3)``; points farther than the reach are left out.

    Free space is drawn from the keyframes ``free``. ``depth`` is the number of levels of the pyramid: more levels make
    the search of wide windows faster.
    """
    merged = _merge(pool.points, pool.starts, poses, ids, centre, reach_m, MERGE_M)
    target = local_map_of(merged, np.array(centre[:2], dtype=float), depth)
    seen = target.pyramid
    _draw_free(seen.levels[0], pool.points, pool.starts, poses, free, seen.origin, seen.resolution_m)
    draw_walls(seen, _in_map(pool.points, pool.starts, poses, ids, centre, reach_m))
    return target


def build_whole_map(pool: Pool, poses: Array, ids: Ints) -> LocalMap:
    """From all of these keyframes, however far apart, with a pyramid for wide search windows."""
    low, high = poses[ids, :2].min(axis=0), poses[ids, :2].max(axis=0)
    reach_m = float((high - low).max()) / 2.0 + _BEYOND_M
    return build_local_map(pool, poses, ids, (low + high) / 2.0, reach_m, ids, WHOLE_DEPTH)


def local_map_of(points: Array, centre: Array, depth: int) -> LocalMap:
    """A map of points ``(M, 5)``, x, y, normal and weight; its pyramid is still blank."""
    low = points[:, :2].min(axis=0) - BUCKET_M if len(points) else centre
    high = points[:, :2].max(axis=0) + BUCKET_M if len(points) else low + BUCKET_M
    columns, rows = (np.ceil((high - low) / BUCKET_M).astype(int) + 1).tolist()
    sorted_points, starts = _sort_into_buckets(points, low, rows, columns)
    pyramid = blank(low - _COARSE_M, high + _COARSE_M, _COARSE_M, depth, UNKNOWN)
    return LocalMap(sorted_points, starts, columns, low, pyramid)


@kernel
def _facing(nx: float, ny: float) -> int:
    """One of eight directions."""
    steep = 1 if abs(ny) > abs(nx) else 0
    return (4 if nx < 0.0 else 0) + (2 if ny < 0.0 else 0) + steep


@kernel
def _merge(
    pool: NDArray[np.float32], starts: Ints, poses: Array, ids: Ints, centre: Array, reach_m: float, cell_m: float
) -> Array:
    """Means of points by cell and by one of eight directions of the normal: ``(M, 5)``. A hash table finds the cell."""
    count = 0
    for k in ids:
        count += starts[k + 1] - starts[k]
    bits = 8
    while (1 << bits) < 2 * count + 2:
        bits += 1
    mask = (1 << bits) - 1
    table, keys, out = np.full(1 << bits, -1, dtype=np.int32), np.empty(count, dtype=np.int64), np.zeros((count, 5))
    m = 0
    for k in ids:
        c, s = np.cos(poses[k, 2]), np.sin(poses[k, 2])
        for i in range(starts[k], starts[k + 1]):
            if pool[i, 2] == 0.0 and pool[i, 3] == 0.0:
                continue
            x = poses[k, 0] + c * pool[i, 0] - s * pool[i, 1]
            y = poses[k, 1] + s * pool[i, 0] + c * pool[i, 1]
            if max(abs(x - centre[0]), abs(y - centre[1])) > reach_m:
                continue
            nx, ny = c * pool[i, 2] - s * pool[i, 3], s * pool[i, 2] + c * pool[i, 3]
            ix, iy = int(np.floor(x / cell_m)) + (1 << 20), int(np.floor(y / cell_m)) + (1 << 20)
            key = ((ix << 24) | iy) << 3 | _facing(nx, ny)
            slot = ((key * 0x9E3779B97F4A7C15) >> 40) & mask
            while table[slot] >= 0 and keys[table[slot]] != key:
                slot = (slot + 1) & mask
            if table[slot] < 0:
                table[slot], keys[m] = m, key
                m += 1
            row = out[table[slot]]
            # A heading error displaces distant points more: they get less weight.
            w = 1.0 / (1.0 + (pool[i, 0] ** 2 + pool[i, 1] ** 2) / _HALF_WEIGHT_M**2)
            if pool[i, 2] ** 2 + pool[i, 3] ** 2 < 0.5:
                w *= _GRAZING_WEIGHT
            row[0] += w * x
            row[1] += w * y
            row[2] += w * nx
            row[3] += w * ny
            row[4] += w
    for i in range(m):
        row = out[i]
        length = np.sqrt(row[2] * row[2] + row[3] * row[3])
        row[0] /= row[4]
        row[1] /= row[4]
        row[2] /= length
        row[3] /= length
    return out[:m]


@kernel
def _in_map(pool: NDArray[np.float32], starts: Ints, poses: Array, ids: Ints, centre: Array, reach_m: float) -> Array:
    """All points of some keyframes in the map's frame, those without a normal as well: ``(N, 2)``."""
    count = 0
    for k in ids:
        count += starts[k + 1] - starts[k]
    out, m = np.empty((count, 2)), 0
    for k in ids:
        c, s = np.cos(poses[k, 2]), np.sin(poses[k, 2])
        for i in range(starts[k], starts[k + 1]):
            x = poses[k, 0] + c * pool[i, 0] - s * pool[i, 1]
            y = poses[k, 1] + s * pool[i, 0] + c * pool[i, 1]
            if max(abs(x - centre[0]), abs(y - centre[1])) <= reach_m:
                out[m, 0], out[m, 1] = x, y
                m += 1
    return out[:m]


@kernel
def _draw_free(
    grid: NDArray[np.uint8],
    pool: NDArray[np.float32],
    starts: Ints,
    poses: Array,
    ids: Ints,
    origin: Array,
    resolution_m: float,
) -> None:
    """Set the cells between each keyframe and its points to zero (free), except the last 1.5 cells before a wall."""
    height, width = grid.shape
    for k in ids:
        c, s = np.cos(poses[k, 2]), np.sin(poses[k, 2])
        x0, y0 = (poses[k, 0] - origin[0]) / resolution_m, (poses[k, 1] - origin[1]) / resolution_m
        for i in range(starts[k], starts[k + 1]):
            dx, dy = c * pool[i, 0] - s * pool[i, 1], s * pool[i, 0] + c * pool[i, 1]
            length = np.sqrt(dx * dx + dy * dy)
            dx, dy = dx / length, dy / length
            for t in range(int(length / resolution_m - 1.5)):
                column, row = int(x0 + dx * t), int(y0 + dy * t)
                if column < 0 or row < 0 or column >= width or row >= height:
                    break
                grid[row, column] = 0


@kernel
def _bucket(points: Array, i: int, origin: Array, columns: int) -> int:
    r, c = int((points[i, 1] - origin[1]) / BUCKET_M), int((points[i, 0] - origin[0]) / BUCKET_M)
    return r * columns + c


@kernel
def bucket_starts(points: Array, origin: Array, rows: int, columns: int) -> Ints:
    """Where each bucket begins ``(rows * columns + 1,)`` when points ``(M, 5)`` are sorted by bucket."""
    starts = np.zeros(rows * columns + 1, dtype=np.int64)
    for i in range(len(points)):
        starts[_bucket(points, i, origin, columns) + 1] += 1
    for b in range(rows * columns):
        starts[b + 1] += starts[b]
    return starts


@kernel
def _sort_into_buckets(points: Array, origin: Array, rows: int, columns: int) -> tuple[Array, Ints]:
    starts = bucket_starts(points, origin, rows, columns)
    fill, out = starts[:-1].copy(), np.empty_like(points)
    for i in range(len(points)):
        b = _bucket(points, i, origin, columns)
        out[fill[b]] = points[i]
        fill[b] += 1
    return out, starts


_FREE = 0.4
_LINE_M = 0.2  # wall cells within this radius are fitted by a line
_SKIN_CELLS = 2  # cells deeper inside a wall are left out: no scan sees them
_FLATNESS = 0.4  # least over greatest spread of these cells; above it the cells form no line
_WEIGHT = 3.0  # of each point: that of three scans from close by


def local_map_from_grid(grid: OccupancyGrid) -> LocalMap:
    """The whole grid as a local map, in the *map's* frame."""
    prob = np.ascontiguousarray(grid.prob, dtype=np.float64)
    known = np.isfinite(prob)
    walls, free = known & (prob >= OCCUPIED_FROM), known & (prob < _FREE)
    surfaces = _surfaces(walls, free, max(2, round(_LINE_M / grid.resolution_m))) if walls.any() else np.empty((0, 4))
    if not len(surfaces) or not free.any():
        raise DataError("expected a map with walls and free space, got one without")
    points = np.empty((len(surfaces), 5))
    points[:, :2] = grid.T_map_grid.apply(surfaces[:, :2] * grid.resolution_m)
    c, s = np.cos(grid.T_map_grid.theta), np.sin(grid.T_map_grid.theta)
    points[:, 2:4] = surfaces[:, 2:4] @ np.array([[c, s], [-s, c]])
    points[:, 4] = _WEIGHT
    target = local_map_of(points, np.zeros(2), WHOLE_DEPTH)
    draw_free(target.pyramid, grid.centres_of(free))
    draw_walls(target.pyramid, grid.centres_of(walls))
    return target


@kernel
def _any_within(cells: NDArray[np.bool_], row: int, column: int, reach: int) -> bool:
    height, width = cells.shape
    for r in range(max(0, row - reach), min(height, row + reach + 1)):
        for c in range(max(0, column - reach), min(width, column + reach + 1)):
            if cells[r, c]:
                return True
    return False


@kernel
def _is_free(free: NDArray[np.bool_], x: float, y: float, dx: float, dy: float, most: int) -> bool:
    """Whether there is free space within ``most`` cells in a direction."""
    height, width = free.shape
    for step in range(1, most + 1):
        i, j = int(np.floor(x + step * dx)), int(np.floor(y + step * dy))
        if 0 <= i < width and 0 <= j < height and free[j, i]:
            return True
    return False


@kernel
def _surfaces(walls: NDArray[np.bool_], free: NDArray[np.bool_], reach: int) -> Array:
    """Points on walls ``(M, 4)``: x and y in cells, and the normal towards free space."""
    height, width = walls.shape
    skin = np.zeros((height, width), dtype=np.bool_)
    count = 0
    for r in range(height):
        for c in range(width):
            if walls[r, c] and _any_within(free, r, c, _SKIN_CELLS):
                skin[r, c] = True
                count += 1
    out, m = np.empty((2 * count, 4)), 0
    for r in range(height):
        for c in range(width):
            if not skin[r, c]:
                continue
            k, sx, sy, sxx, sxy, syy = 0, 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(max(0, r - reach), min(height, r + reach + 1)):
                for i in range(max(0, c - reach), min(width, c + reach + 1)):
                    if skin[j, i] and (i - c) ** 2 + (j - r) ** 2 <= reach * reach:
                        k += 1
                        sx += i - c
                        sy += j - r
                        sxx += (i - c) ** 2
                        sxy += (i - c) * (j - r)
                        syy += (j - r) ** 2
            if k < 3:
                continue
            mx, my = sx / k, sy / k
            cxx, cxy, cyy = sxx / k - mx * mx, sxy / k - mx * my, syy / k - my * my
            half, root = 0.5 * (cxx + cyy), np.sqrt(0.25 * (cxx - cyy) ** 2 + cxy * cxy)
            if max(half - root, 0.0) > _FLATNESS**2 * (half + root):
                continue
            angle = 0.5 * np.arctan2(2.0 * cxy, cxx - cyy)
            nx, ny = -np.sin(angle), np.cos(angle)
            off = nx * mx + ny * my  # from the cell's centre to the line
            x, y = c + 0.5 + off * nx, r + 0.5 + off * ny
            for side in (-1.0, 1.0):
                if _is_free(free, x, y, side * nx, side * ny, _SKIN_CELLS + 1):
                    out[m, 0], out[m, 1], out[m, 2], out[m, 3] = x, y, side * nx, side * ny
                    m += 1
    return out[:m]
