"""Lay a scan onto the local map: a coarse search that survives fast turns, then a fine fit of points to lines.

The surface under a scan point is the weighted mean of the lines through the map's points near it (implicit moving
least squares): smooth, and the noise of single scans is averaged away. What a wall cannot tell, it does not pretend to:
the information matrix has no entry along a bare corridor but that of the motion guess.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.correlative import Window, search
from svfm_ros.datatypes import MatchResult, Pose2
from svfm_ros.slam.localmap import BUCKET_M, LocalMap
from svfm_ros.slam.preprocess import Cloud

__all__ = ["Guess", "coarse", "refine"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_COARSE_POINTS = 120
# Each stage of the fine fit: how far to look for the map, width of the average, residual at which trust fades, steps.
_STAGES = np.array([[0.30, 0.12, 0.20, 6], [0.15, 0.06, 0.06, 12]])
_INLIER_M = 0.1
_NOISE_FLOOR_M = 0.01
_CORRELATION = 4.0  # neighbouring points err together: so many of them tell as much as one


@dataclass(frozen=True, slots=True)
class Guess:
    """Where a scan is thought to be, and how far off that may be."""

    T_map_scan: Pose2
    reach_m: float
    turn_rad: float

    def widened(self) -> "Guess":
        """The same with a window several times as large."""
        return Guess(self.T_map_scan, min(2.0 * self.reach_m + 0.5, 3.0), min(2.0 * self.turn_rad + 0.3, np.pi))


def coarse(cloud: Cloud, target: LocalMap, guess: Guess) -> Pose2:
    """The best pose in the guess's window at the grid's resolution; the guess itself where nothing fits."""
    window = Window(
        guess.T_map_scan,
        guess.reach_m,
        guess.turn_rad,
        penalty_per_m2=0.1 / max(guess.reach_m, 0.3) ** 2,
        penalty_per_rad2=0.1 / max(guess.turn_rad, 0.3) ** 2,
    )
    fit = search(target.pyramid, cloud.points, window, min_score=0.1, most_points=_COARSE_POINTS)
    return guess.T_map_scan if fit is None else fit.T_target_source


def refine(cloud: Cloud, target: LocalMap, start: Pose2, guess: Guess) -> MatchResult:
    """Fit points to lines from ``start``; the guess holds the pose weakly where the map says nothing."""
    spread = np.array([guess.reach_m, guess.reach_m, guess.turn_rad]) + np.array([0.05, 0.05, 0.02])
    pose, information, used, squares, iterations, converged = _fit(
        cloud.points,
        cloud.normals,
        target.points,
        target.starts,
        target.columns,
        target.origin,
        start.as_array(),
        guess.T_map_scan.as_array(),
        1.0 / spread**2,
        _STAGES,
    )
    rmse = float(np.sqrt(squares / max(used, 1)))
    noise = _CORRELATION * max(rmse, _NOISE_FLOOR_M) ** 2
    return MatchResult(
        T_target_source=Pose2.from_array(pose),
        converged=bool(converged),
        iterations=int(iterations),
        inlier_ratio=used / max(len(cloud), 1),
        rmse_m=rmse,
        information=information / noise,
    )


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
    """Signed distance to the surface near (x, y), its normal, and the weight behind it (0: nothing near)."""
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
            if square > radius * radius or px * nx + py * ny < 0.0:  # the far side of a thin wall is another surface
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
def _fit(
    points: Array,
    normals: Array,
    map_points: Array,
    starts: Ints,
    columns: int,
    origin: Array,
    start: Array,
    guess: Array,
    prior: Array,
    stages: Array,
) -> tuple[Array, Array, int, float, int, bool]:
    """Gauss-Newton with fading trust; returns pose, information, inliers, their squares, iterations, converged."""
    pose = start.copy()
    H, g = np.zeros((3, 3)), np.zeros(3)
    used, squares, iterations, converged = 0, 0.0, 0, False
    for stage in range(len(stages)):
        radius, width, scale = stages[stage, 0], stages[stage, 1], stages[stage, 2]
        for _ in range(int(stages[stage, 3])):
            iterations += 1
            H[:] = 0.0
            g[:] = 0.0
            used, squares = 0, 0.0
            c, s = np.cos(pose[2]), np.sin(pose[2])
            for i in range(len(points)):
                ax, ay = c * points[i, 0] - s * points[i, 1], s * points[i, 0] + c * points[i, 1]
                bx, by = c * normals[i, 0] - s * normals[i, 1], s * normals[i, 0] + c * normals[i, 1]
                d, nx, ny, weight = _surface(
                    ax + pose[0], ay + pose[1], bx, by, map_points, starts, columns, origin, radius, width
                )
                if weight == 0.0:
                    continue
                if abs(d) < _INLIER_M:
                    used += 1
                    squares += d * d
                w = 1.0 / (1.0 + (d / scale) ** 2) ** 2
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
                delta = pose[k] - guess[k]
                if k == 2:
                    delta = (delta + np.pi) % (2.0 * np.pi) - np.pi
                # The prior speaks in the unit of a residual squared: that of the inliers' noise.
                A[k, k] += prior[k] * scale * scale + 1e-9
                b[k] += prior[k] * scale * scale * delta
            step = _solve(A, b)
            pose -= step
            converged = abs(step[0]) + abs(step[1]) < 2e-4 and abs(step[2]) < 1e-4
            if converged:
                break
    pose[2] = (pose[2] + np.pi) % (2.0 * np.pi) - np.pi
    return pose, H, used, squares, iterations, converged
