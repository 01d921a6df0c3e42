"""From a raw scan to a cloud: range gates, motion undistortion, surface normals, thinning along the contour."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.types import Scan

__all__ = ["Cloud", "cloud_from_scan", "filled", "undistorted"]

Array = NDArray[np.float64]

_NORMAL_BEAMS = 8  # neighbours on either side used for a normal
_NORMAL_RADIUS_M = 0.12
GRAZING = 0.5  # length of a normal estimated from beams far apart; others have length 1
_GRAZING_M, _GRAZING_SPREAD_M = 4.0, 0.02
_GAP_M, _WIDEST_GAP_M = 0.08, 2.0  # gaps on a wall are filled to the first, if not wider than the second
_NO_TURNS = np.empty(0)
_ALONG = np.array([1.0, 1.0, 0.0])  # a twist without its turn
_FLATNESS = 0.15  # least over greatest spread of the neighbours; above it the points form no line


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points of one scan in the sensor's frame at the time of its first beam.

    A normal faces the sensor; it is (0, 0) where the neighbours form no line. ``times_s`` counts from the first beam.
    """

    points: Array  # (N, 2)
    normals: Array  # (N, 2)
    times_s: Array  # (N,)
    is_turn_measured: bool = False  # turns during the sweep are taken out already: only translation is left

    def __len__(self) -> int:
        return len(self.points)


def cloud_from_scan(scan: Scan, twist: Array, config: SlamConfig) -> Cloud:
    """Gate, undistort by the motion ``twist`` (3,) (vx, vy, omega per second, sensor's axes), find normals, thin."""
    turned = _NO_TURNS if scan.turned_rad is None else scan.turned_rad
    twist = twist if scan.turned_rad is None else twist * _ALONG
    low = max(float(scan.range_min), config.range_min_m)
    high = min(float(scan.range_max) * 0.999, config.range_max_m)
    ranges = np.asarray(scan.ranges, dtype=np.float64).ravel()
    points, times_s, spacing = _to_points(
        ranges, scan.angle_min, scan.angle_step, low, high, scan.time_increment_s, twist, turned
    )
    normals = _normals(points, spacing)
    thin = _thin(points, normals, times_s, config.thinning_m, config.max_points)
    return Cloud(*thin, is_turn_measured=scan.turned_rad is not None)


def filled(cloud: Cloud) -> Cloud:
    """The cloud with points put between neighbours on one wall, where a coarse scan leaves wide gaps."""
    return Cloud(*_fill(cloud.points, cloud.normals, cloud.times_s, _GAP_M, _WIDEST_GAP_M), cloud.is_turn_measured)


def undistorted(cloud: Cloud, old_twist: Array, new_twist: Array) -> Cloud:
    """The same cloud, had the sensor moved by another twist during the sweep; normals are turned along."""
    if cloud.is_turn_measured:
        old_twist, new_twist = old_twist * _ALONG, new_twist * _ALONG
    points, normals = _re_undistort(cloud.points, cloud.normals, cloud.times_s, old_twist, new_twist)
    return replace(cloud, points=points, normals=normals)


@kernel
def _carry(x: float, y: float, vx: float, vy: float, omega: float, t: float) -> tuple[float, float]:
    """A point seen at time t, in the frame of time zero, under a constant twist."""
    a = omega * t
    if abs(a) < 1e-6:
        sx, sy = vx * t, vy * t
    else:
        s, c = np.sin(a) / omega, (1.0 - np.cos(a)) / omega
        sx, sy = s * vx - c * vy, c * vx + s * vy
    ca, sa = np.cos(a), np.sin(a)
    return sx + ca * x - sa * y, sy + sa * x + ca * y


@kernel
def _to_points(
    ranges: Array,
    angle_min: float,
    angle_step: float,
    low: float,
    high: float,
    beam_s: float,
    twist: Array,
    turned: Array,
) -> tuple[Array, Array, Array]:
    n = len(ranges)
    points, times, spacing = np.empty((n, 2)), np.empty(n), np.empty(n)
    m = 0
    for i in range(n):
        r = ranges[i]
        if not (r >= low and r <= high):  # NaN fails both
            continue
        a, t = angle_min + angle_step * i, beam_s * i
        if len(turned):
            a += turned[i]
        points[m, 0], points[m, 1] = _carry(r * np.cos(a), r * np.sin(a), twist[0], twist[1], twist[2], t)
        times[m], spacing[m] = t, r * abs(angle_step)
        m += 1
    return points[:m], times[:m], spacing[:m]


@kernel
def _line_through(points: Array, i: int, first: int, last: int, radius: float) -> tuple[int, float, float, float]:
    """Line through the points first … last within a radius of point i: how many, spread along, spread across, angle."""
    k, sx, sy, sxx, sxy, syy = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(first, last + 1):
        dx, dy = points[j, 0] - points[i, 0], points[j, 1] - points[i, 1]
        if dx * dx + dy * dy <= radius * radius:
            k += 1
            sx += dx
            sy += dy
            sxx += dx * dx
            sxy += dx * dy
            syy += dy * dy
    cxx, cxy, cyy = sxx / k - (sx / k) ** 2, sxy / k - sx * sy / (k * k), syy / k - (sy / k) ** 2
    half, root = 0.5 * (cxx + cyy), np.sqrt(0.25 * (cxx - cyy) ** 2 + cxy * cxy)
    return k, np.sqrt(half + root), np.sqrt(max(half - root, 0.0)), 0.5 * np.arctan2(2.0 * cxy, cxx - cyy)


@kernel
def _normals(points: Array, spacing: Array) -> Array:
    """From close neighbours; at grazing incidence, where beams lie far apart, from two beams on either side."""
    n = len(points)
    normals = np.zeros((n, 2))
    for i in range(n):
        first, last = max(0, i - _NORMAL_BEAMS), min(n - 1, i + _NORMAL_BEAMS)
        radius = max(_NORMAL_RADIUS_M, 3.0 * spacing[i])
        k, along, across, angle = _line_through(points, i, first, last, radius)
        length = 1.0
        if k < 3 or across > _FLATNESS * along:
            first, last = max(0, i - 2), min(n - 1, i + 2)
            k, along, across, angle = _line_through(points, i, first, last, _GRAZING_M)
            if k < 4 or across > _GRAZING_SPREAD_M or across > _FLATNESS * along:
                continue
            length = GRAZING
        nx, ny = -length * np.sin(angle), length * np.cos(angle)
        sign = -1.0 if nx * points[i, 0] + ny * points[i, 1] > 0.0 else 1.0
        normals[i, 0], normals[i, 1] = sign * nx, sign * ny
    return normals


@kernel
def _unit_scale(nx: float, ny: float, count: int) -> float:
    """Factor that normalises a sum of normals; 0 where they disagree."""
    length = np.sqrt(nx * nx + ny * ny)
    if length < 0.45 * count:
        return 0.0
    return float((1.0 if length > 0.75 * count else GRAZING) / length)


@kernel
def _thin(points: Array, normals: Array, times: Array, step: float, most: int) -> tuple[Array, Array, Array]:
    """Means of runs no longer than ``step`` along the contour; the step grows until at most ``most`` are left."""
    n = len(points)
    out_p, out_n, out_t = np.empty((n, 2)), np.empty((n, 2)), np.empty(n)
    while True:
        m, i = 0, 0
        while i < n:
            x0, y0 = points[i, 0], points[i, 1]
            k, sx, sy, st, snx, sny = 0, 0.0, 0.0, 0.0, 0.0, 0.0
            while i < n and (points[i, 0] - x0) ** 2 + (points[i, 1] - y0) ** 2 < step * step:
                sx += points[i, 0]
                sy += points[i, 1]
                st += times[i]
                snx += normals[i, 0]
                sny += normals[i, 1]
                k += 1
                i += 1
            scale = _unit_scale(snx, sny, k)
            out_p[m, 0], out_p[m, 1], out_t[m] = sx / k, sy / k, st / k
            out_n[m, 0], out_n[m, 1] = scale * snx, scale * sny
            m += 1
        if m <= most or step > 10.0:
            return out_p[:m].copy(), out_n[:m].copy(), out_t[:m].copy()
        step *= max(1.05, m / most * 0.9)


@kernel
def _on_one_wall(points: Array, normals: Array, i: int, widest: float) -> bool:
    """Whether the segment from point i to the next runs along both their surfaces."""
    dx, dy = points[i + 1, 0] - points[i, 0], points[i + 1, 1] - points[i, 1]
    length = np.sqrt(dx * dx + dy * dy)
    a, b = np.hypot(normals[i, 0], normals[i, 1]), np.hypot(normals[i + 1, 0], normals[i + 1, 1])
    if length > widest or a == 0.0 or b == 0.0:
        return False
    alike = (normals[i, 0] * normals[i + 1, 0] + normals[i, 1] * normals[i + 1, 1]) / (a * b)
    off = abs(dx * normals[i, 0] + dy * normals[i, 1]) / a
    off = max(off, abs(dx * normals[i + 1, 0] + dy * normals[i + 1, 1]) / b)
    return bool(alike > 0.95 and off < min(0.2 * length, 0.06))


@kernel
def _fill(points: Array, normals: Array, times: Array, gap: float, widest: float) -> tuple[Array, Array, Array]:
    n = len(points)
    extra = np.zeros(n, dtype=np.int64)
    for i in range(n - 1):
        if _on_one_wall(points, normals, i, widest):
            length = np.sqrt((points[i + 1, 0] - points[i, 0]) ** 2 + (points[i + 1, 1] - points[i, 1]) ** 2)
            extra[i] = int(length / gap)
    m = n + extra.sum()
    out_p, out_n, out_t = np.empty((m, 2)), np.empty((m, 2)), np.empty(m)
    at = 0
    for i in range(n):
        for j in range(extra[i] + 1):
            share = j / (extra[i] + 1)
            k = i + 1 if j else i
            out_p[at] = points[i] + share * (points[k] - points[i])
            out_n[at] = normals[i] if share < 0.5 else normals[k]
            out_t[at] = times[i]
            at += 1
    return out_p, out_n, out_t


@kernel
def _re_undistort(points: Array, normals: Array, times: Array, old: Array, new: Array) -> tuple[Array, Array]:
    out_p, out_n = np.empty_like(points), np.empty_like(normals)
    for i in range(len(points)):
        t = times[i]
        # Back to the sensor's frame at the beam's own time, then forward again with the new twist.
        ox, oy = _carry(0.0, 0.0, old[0], old[1], old[2], t)
        c, s = np.cos(old[2] * t), np.sin(old[2] * t)
        dx, dy = points[i, 0] - ox, points[i, 1] - oy
        x, y = c * dx + s * dy, -s * dx + c * dy
        out_p[i, 0], out_p[i, 1] = _carry(x, y, new[0], new[1], new[2], t)
        a = (new[2] - old[2]) * t
        ca, sa = np.cos(a), np.sin(a)
        out_n[i, 0] = ca * normals[i, 0] - sa * normals[i, 1]
        out_n[i, 1] = sa * normals[i, 0] + ca * normals[i, 1]
    return out_p, out_n
