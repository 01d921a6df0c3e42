"""Small flats made of straight walls, what a LiDAR sees in them exactly, and walks through them."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.types import OccupancyGrid, Pose2, Scan

Array = NDArray[np.float64]


def polygon(*corners: tuple[float, float]) -> Array:
    """A closed row of walls ``(N, 4)``: x, y, x, y."""
    c = np.array(corners)
    return np.concatenate([c, np.roll(c, -1, axis=0)], axis=1)


def wall(x0: float, y0: float, x1: float, y1: float) -> Array:
    return np.array([[x0, y0, x1, y1]])


# Two rooms and a hall, no part like another; doors are gaps in the walls.
FLAT = np.concatenate(
    [
        polygon((0, 0), (9, 0), (9, 4), (7, 4), (7, 7), (0, 7)),
        wall(4, 0, 4, 2.6),
        wall(4, 3.8, 4, 7),
        wall(4, 4.2, 5.4, 4.2),
        polygon((1, 5.2), (2.4, 5.2), (2.4, 6), (1, 6)),
        polygon((6.5, 0.6), (8, 0.6), (8, 1.2), (6.5, 1.2)),
        wall(0, 2.2, 0.8, 2.2),
    ]
)
# Another flat: one long room with an alcove.
OTHER = np.concatenate(
    [
        polygon((0, 0), (11, 0), (11, 3.2), (6.6, 3.2), (6.6, 5.5), (3.1, 5.5), (3.1, 2.4), (0, 2.4)),
        polygon((8, 1.2), (8.6, 1.2), (8.6, 2.1), (8, 2.1)),
        polygon((4, 1), (5.7, 1), (5.7, 1.6), (4, 1.6)),
    ]
)
CORRIDOR = np.array([[-40.0, -1.0, 40.0, -1.0], [-40.0, 1.0, 40.0, 1.0]])


def ranges_at(walls: Array, poses: Array, angles: Array) -> Array:
    """Distance to the nearest wall from each pose ``(B, 3)`` at each beam's angle ``(B,)``; inf where there is none."""
    heading = poses[:, 2] + angles
    d = np.stack([np.cos(heading), np.sin(heading)], axis=-1)[:, None]  # (B, 1, 2)
    a, edge = walls[:, :2] - poses[:, None, :2], walls[:, 2:] - walls[:, :2]  # (B, W, 2), (W, 2)
    cross = d[..., 0] * edge[:, 1] - d[..., 1] * edge[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (a[..., 0] * edge[:, 1] - a[..., 1] * edge[:, 0]) / cross
        u = (a[..., 0] * d[..., 1] - a[..., 1] * d[..., 0]) / cross
    return np.where((t > 0) & (u >= 0) & (u <= 1), t, np.inf).min(axis=1)


def scan_at(
    walls: Array,
    pose: Pose2 | Array,
    stamp_ns: int,
    *,
    beams: int = 360,
    twist: Array | None = None,
    sweep_s: float = 0.0,
    noise_m: float = 0.0,
    seed: int = 0,
) -> Scan:
    """One sweep, the sensor moving by ``twist`` meanwhile."""
    start = pose.as_array() if isinstance(pose, Pose2) else np.asarray(pose, dtype=float)
    angles = np.linspace(-np.pi, np.pi, beams, endpoint=False)
    beam_s = sweep_s / beams
    moved = geometry.exp(np.arange(beams)[:, None] * beam_s * (np.zeros(3) if twist is None else twist))
    ranges = ranges_at(walls, geometry.compose(start, moved), angles)
    ranges = ranges + np.random.default_rng((seed, stamp_ns)).normal(scale=noise_m or 1e-12, size=beams)
    return Scan(stamp_ns, ranges.astype(np.float32), -np.pi, 2 * np.pi / beams, 0.05, 20.0, sweep_s or 0.1, beam_s)


def walk(*corners: tuple[float, float], speed_m_s: float = 0.8, rate_hz: float = 8.0) -> Array:
    """Poses ``(T, 3)`` along straight lines, turning smoothly towards where one goes."""
    c = np.array(corners, dtype=float)
    lengths = np.hypot(*np.diff(c, axis=0).T)
    along = np.arange(0.0, lengths.sum(), speed_m_s / rate_hz)
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    xy = np.stack([np.interp(along, ends, c[:, k]) for k in (0, 1)], axis=-1)
    step = np.diff(xy, axis=0, append=xy[-1:] + (xy[-1:] - xy[-2:-1]))
    heading = np.unwrap(np.arctan2(step[:, 1], step[:, 0]))
    smooth = np.convolve(np.pad(heading, 4, mode="edge"), np.full(9, 1 / 9), mode="valid")
    return np.column_stack([xy, smooth])


def scans_along(
    walls: Array, poses: Array, *, start_ns: int = 10**9, rate_hz: float = 8.0, noise_m: float = 0.01
) -> list[Scan]:
    """A scan at each pose."""
    return [scan_at(walls, p, start_ns + round(k * 1e9 / rate_hz), noise_m=noise_m) for k, p in enumerate(poses)]


def grid_of(walls: Array, resolution_m: float = 0.05, T_map_grid: Pose2 | None = None) -> OccupancyGrid:
    """A map of the flat as a program would draw it: walls and what can be seen of it free, in the flat's own frame."""
    low, high = walls.reshape(-1, 2).min(axis=0) - 0.5, walls.reshape(-1, 2).max(axis=0) + 0.5
    width, height = np.ceil((high - low) / resolution_m).astype(int)
    corner = T_map_grid or Pose2(float(low[0]), float(low[1]), 0.0)
    prob = np.full((height, width), np.nan, dtype=np.float32)
    angles = np.linspace(-np.pi, np.pi, 720, endpoint=False)
    echoes = []
    for x in np.arange(low[0] + 1.0, high[0], 1.3):
        for y in np.arange(low[1] + 1.0, high[1], 1.3):
            r = ranges_at(walls, np.tile([x, y, 0.0], (720, 1)), angles)
            if not np.isfinite(r).all():  # outside, or in the open
                continue
            way = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
            for share in np.arange(0.0, r.max(), resolution_m / 2):
                seen = np.array([x, y]) + way[share < r - resolution_m] * share
                c, w = ((corner.inverse().apply(seen)) / resolution_m).astype(int).T
                prob[w, c] = 0.05
            echoes.append(np.array([x, y]) + way * r[:, None])
    c, w = (corner.inverse().apply(np.concatenate(echoes)) / resolution_m).astype(int).T
    prob[w, c] = 0.95
    return OccupancyGrid(prob, resolution_m, corner)
