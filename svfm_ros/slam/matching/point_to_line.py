"""Compiled point-to-line registration: implicit surfaces, Gauss-Newton, inlier counts."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.slam.matching.local_map import BUCKET_M
from svfm_ros.slam.matching.pyramid import BESIDE_WALL, WALL

__all__ = ["count_inliers", "fit_to_surfaces", "share_behind_walls", "share_on_walls"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_INLIER_M, _NEAR_M = 0.06, 0.15  # distances of an inlier to the surface and to a point of it


@kernel
def _surface(
    x: float,
    y: float,
    nx: float,
    ny: float,
    points: Array,
    starts: Ints,
    columns: int,
    origin: Array,
    radius: float,
    width: float,
) -> tuple[float, float, float, float]:
    """Signed distance to the surface near (x, y), its normal, and the weight of its points (0: none near)."""
    rows = (len(starts) - 1) // columns
    c0 = max(0, int(np.floor((x - radius - origin[0]) / BUCKET_M)))
    c1 = min(columns - 1, int(np.floor((x + radius - origin[0]) / BUCKET_M)))
    r0 = max(0, int(np.floor((y - radius - origin[1]) / BUCKET_M)))
    r1 = min(rows - 1, int(np.floor((y + radius - origin[1]) / BUCKET_M)))
    if c0 > c1 or r0 > r1:
        return 0.0, 0.0, 0.0, 0.0
    total, distance, mx, my = 0.0, 0.0, 0.0, 0.0
    for r in range(r0, r1 + 1):
        for k in range(starts[r * columns + c0], starts[r * columns + c1 + 1]):
            dx, dy = x - points[k, 0], y - points[k, 1]
            square = dx * dx + dy * dy
            px, py = points[k, 2], points[k, 3]
            if square > radius * radius or px * nx + py * ny < 0.0:  # normals disagree: the other side of a thin wall
                continue
            w = np.exp(-square / (width * width)) * points[k, 4]
            total += w
            distance += w * (dx * px + dy * py)
            mx += w * px
            my += w * py
    length = np.sqrt(mx * mx + my * my)
    if total <= 1e-9 or length < 0.3 * total:
        return 0.0, 0.0, 0.0, 0.0
    return distance / total, mx / length, my / length, total


@kernel
def _solve(A: Array, b: Array) -> Array:
    """Of three equations with a positive definite matrix, by Cholesky."""
    a = np.sqrt(A[0, 0])
    d, e = A[1, 0] / a, A[2, 0] / a
    c = np.sqrt(max(A[1, 1] - d * d, 1e-12))
    f = (A[2, 1] - e * d) / c
    g = np.sqrt(max(A[2, 2] - e * e - f * f, 1e-12))
    y0 = b[0] / a
    y1 = (b[1] - d * y0) / c
    y2 = (b[2] - e * y0 - f * y1) / g
    x2 = y2 / g
    x1 = (y1 - f * x2) / c
    x0 = (y0 - d * x1 - e * x2) / a
    return np.array([x0, x1, x2])


@kernel
def fit_to_surfaces(
    points: Array,
    normals: Array,
    map_points: Array,
    starts: Ints,
    columns: int,
    origin: Array,
    start: Array,
    prior: Array,
    stages: Array,
) -> tuple[Array, Array, int, bool]:
    """Gauss-Newton with a Geman-McClure kernel; returns pose, information, iterations, converged."""
    pose = start.copy()
    H, g = np.zeros((3, 3)), np.zeros(3)
    iterations, converged = 0, False
    for stage in range(len(stages)):
        radius, width, scale = stages[stage, 0], stages[stage, 1], stages[stage, 2]
        for _ in range(int(stages[stage, 3])):
            iterations += 1
            H[:] = 0.0
            g[:] = 0.0
            c, s = np.cos(pose[2]), np.sin(pose[2])
            for i in range(len(points)):
                ax, ay = c * points[i, 0] - s * points[i, 1], s * points[i, 0] + c * points[i, 1]
                bx, by = c * normals[i, 0] - s * normals[i, 1], s * normals[i, 0] + c * normals[i, 1]
                d, nx, ny, weight = _surface(
                    ax + pose[0], ay + pose[1], bx, by, map_points, starts, columns, origin, radius, width
                )
                if weight == 0.0:
                    continue
                # Less weight for large residuals, and for surfaces seen rarely or from far away.
                w = weight / (1.0 + weight) / (1.0 + (d / scale) ** 2) ** 2
                jt = ny * ax - nx * ay
                H[0, 0] += w * nx * nx
                H[0, 1] += w * nx * ny
                H[0, 2] += w * nx * jt
                H[1, 1] += w * ny * ny
                H[1, 2] += w * ny * jt
                H[2, 2] += w * jt * jt
                g[0] += w * nx * d
                g[1] += w * ny * d
                g[2] += w * jt * d
            H[1, 0], H[2, 0], H[2, 1] = H[0, 1], H[0, 2], H[1, 2]
            A, b = H.copy(), g.copy()
            for k in range(3):
                # The prior on the start pose, in units of squared residuals.
                A[k, k] += prior[k] * scale * scale + 1e-9
                b[k] += prior[k] * scale * scale * (pose[k] - start[k])
            step = _solve(A, b)
            pose -= step
            converged = abs(step[0]) + abs(step[1]) < 2e-4 and abs(step[2]) < 1e-4
            if converged:
                break
    pose[2] = (pose[2] + np.pi) % (2.0 * np.pi) - np.pi
    return pose, H, iterations, converged


@kernel
def _blocked(seen: Bytes, x0: float, y0: float, x1: float, y1: float) -> bool:
    """Whether the segment between two cells crosses a wall: into it and out again, not only along it."""
    dx, dy = x1 - x0, y1 - y0
    steps = int(2.0 * np.sqrt(dx * dx + dy * dy))
    inside = False
    for t in range(2, steps - 4):
        column, row = int(x0 + dx * t / steps), int(y0 + dy * t / steps)
        if not (0 <= column < seen.shape[1] and 0 <= row < seen.shape[0]):
            return inside
        value = seen[row, column]
        if value == WALL:
            inside = True
        elif inside and value < BESIDE_WALL:
            return True
    return False


@kernel
def share_behind_walls(seen: Bytes, origin: Array, seen_m: float, points: Array, pose: Array) -> float:
    """Share of points ``(N, 2)`` that a wall hides from the pose."""
    c, s = np.cos(pose[2]), np.sin(pose[2])
    x0, y0 = (pose[0] - origin[0]) / seen_m, (pose[1] - origin[1]) / seen_m
    count = 0
    for i in range(len(points)):
        x = x0 + (c * points[i, 0] - s * points[i, 1]) / seen_m
        y = y0 + (s * points[i, 0] + c * points[i, 1]) / seen_m
        count += 1 if _blocked(seen, x0, y0, x, y) else 0
    return count / max(len(points), 1)


@kernel
def share_on_walls(seen: Bytes, origin: Array, seen_m: float, unknown: int, points: Array, pose: Array) -> float:
    """Share of points ``(N, 2)`` in or beside a wall cell, among those in known space; at most twice that of all."""
    c, s = np.cos(pose[2]), np.sin(pose[2])
    on_walls, known = 0, 0
    for i in range(len(points)):
        column = int(np.floor((c * points[i, 0] - s * points[i, 1] + pose[0] - origin[0]) / seen_m))
        row = int(np.floor((s * points[i, 0] + c * points[i, 1] + pose[1] - origin[1]) / seen_m))
        if 0 <= row < seen.shape[0] and 0 <= column < seen.shape[1] and seen[row, column] != unknown:
            known += 1
            on_walls += 1 if seen[row, column] >= BESIDE_WALL else 0
    return min(on_walls / max(known, 1), 2.0 * on_walls / max(len(points), 1))


@kernel
def count_inliers(
    points: Array,
    normals: Array,
    map_points: Array,
    starts: Ints,
    columns: int,
    origin: Array,
    seen: Bytes,
    seen_origin: Array,
    seen_m: float,
    unknown: int,
    pose: Array,
) -> tuple[int, int, float]:
    """Numbers of inliers and of points in known space that are none, and the sum of squared distances of inliers."""
    inliers, outliers, squares = 0, 0, 0.0
    c, s = np.cos(pose[2]), np.sin(pose[2])
    for i in range(len(points)):
        x, y = c * points[i, 0] - s * points[i, 1] + pose[0], s * points[i, 0] + c * points[i, 1] + pose[1]
        nx, ny = c * normals[i, 0] - s * normals[i, 1], s * normals[i, 0] + c * normals[i, 1]
        d, _, _, weight = _surface(x, y, nx, ny, map_points, starts, columns, origin, _NEAR_M, _NEAR_M / 2.0)
        column, row = (x - seen_origin[0]) / seen_m, (y - seen_origin[1]) / seen_m
        if weight > 0.0 and abs(d) < _INLIER_M:
            inliers += 1
            squares += d * d
        elif 0 <= row < seen.shape[0] and 0 <= column < seen.shape[1] and seen[int(row), int(column)] != unknown:
            outliers += 1
    return inliers, outliers, squares
