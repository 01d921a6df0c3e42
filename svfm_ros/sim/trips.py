"""Trips (origin, destination, start time) and the walks that are drawn for them, one batch per pair of places.

The speed is given at every point of a path (bends, pauses, stops) and changes linearly in time between two points, so
the time between them is their distance over their mean speed, also where a walker starts from rest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import WalkerConfig
from svfm_ros.geometry import wrap_angle
from svfm_ros.sim.routes import STOP_SPREAD, RouteBook, draw_paths, draw_stops
from svfm_ros.types import Walk

__all__ = [
    "LabelledWalk",
    "PauseSpot",
    "TimedPaths",
    "Trip",
    "WalkingStyle",
    "after_each_other",
    "exact_spots",
    "shifted_walks",
    "time_paths",
    "tour",
    "walk_all",
    "walk_poses",
]

Array = NDArray[np.float64]

_TOUR_GAP_NS = 12 * NS_PER_S
_MOST_REDRAWS = 12
_LARGEST_BATCH = 1000
_SHORTEST_STAY_NS = 3 * NS_PER_S  # long enough to turn around
_DRIFT_WAVES = 4
_TURN_SMOOTHING_M = 0.2
_PAUSE_SPREAD = 0.4
_SPOT_REACH_M = 0.5  # a path this near to a spot passes it
_STILL_SWAY_M, _STILL_SWAY_HZ = 0.003, 0.4  # of someone who stands


@dataclass(frozen=True, slots=True)
class PauseSpot:
    """A spot on the floor where someone stops on some of the walks past it."""

    x: float
    y: float
    share: float  # of the walks past it
    seconds: float  # median length of the pause


@dataclass(frozen=True, slots=True)
class WalkingStyle:
    """How one person walks; the default is the average walker."""

    pace_spread: float = 0.0  # standard deviation of the log pace per walk; the pace scales the whole speed profile
    side_m: float = 0.0  # to the left of the middle line where there is room
    route_weights: tuple[float, ...] = ()  # shares of the variants of a way; empty: all alike
    pauses: tuple[PauseSpot, ...] = ()
    arrival_spread: float = STOP_SPREAD  # standard deviation of where walks end, share of the place's radius
    still_s: float = 0.0  # how long the record of a walk goes on after the arrival


_AVERAGE = WalkingStyle()


@dataclass(frozen=True, slots=True)
class TimedPaths:
    """Paths with the time at which each point is passed; B walks of N points."""

    xy: Array  # (B, N, 2)
    s_m: Array  # (B, N), length so far
    heading_rad: Array  # (B, N), direction of travel, unwrapped
    speed_mps: Array  # (B, N)
    time_s: Array  # (B, N), arrival at each point
    pause_at: NDArray[np.int64]  # (B,), the point of the pause
    pause_s: Array  # (B,), zero without one
    cruise_mps: Array  # (B,)

    def duration_s(self) -> Array:
        """``(B,)``."""
        return self.time_s[:, -1]

    def replaced(self, rows: NDArray[np.int64], others: "TimedPaths") -> "TimedPaths":
        """The same walks, those of ``rows`` by others."""
        arrays = {f.name: getattr(self, f.name).copy() for f in fields(self)}
        for name, array in arrays.items():
            array[rows] = getattr(others, name)
        return TimedPaths(**arrays)


@dataclass(frozen=True, slots=True)
class LabelledWalk:
    """A walk with its origin and destination."""

    walk: Walk
    origin: str
    destination: str


@dataclass(frozen=True, slots=True)
class Trip:
    """A walk to be drawn: origin, destination, start time and, where given, exact end points."""

    origin: str
    destination: str
    start_ns: int
    start_xy: Array | None = None  # None: draw one
    stop_xy: Array | None = None


def tour(
    book: RouteBook, names: Sequence[str], first_ns: int, rng: np.random.Generator, gap_ns: int = _TOUR_GAP_NS
) -> list[Trip]:
    """Trips from place to place, each from where the last one ended."""
    spots = exact_spots(book, names, rng)
    legs = enumerate(pairwise(names))
    return [Trip(a, b, first_ns + i * gap_ns, spots[i], spots[i + 1]) for i, (a, b) in legs]


def exact_spots(book: RouteBook, names: Sequence[str], rng: np.random.Generator, spread: float = STOP_SPREAD) -> Array:
    """Exact end point of each visit ``(len(names), 2)``, metres."""
    spots = np.empty((len(names), 2))
    for name in sorted(set(names)):
        rows = [i for i, n in enumerate(names) if n == name]
        spots[rows] = draw_stops(book, book.house.place(name), len(rows), rng, spread)
    return spots


def after_each_other(walks: list[LabelledWalk]) -> list[LabelledWalk]:
    """The walks with later start times where needed: each begins at least 3 s after the last one ended."""
    out: list[LabelledWalk] = []
    free_ns = 0
    for labelled in walks:
        walk = labelled.walk
        late = max(0, free_ns - int(walk.stamps_ns[0]))
        if late:
            walk = Walk(walk.walk_id, walk.resident, walk.stamps_ns + late, walk.poses)
        out.append(LabelledWalk(walk, labelled.origin, labelled.destination))
        free_ns = int(walk.stamps_ns[-1]) + _SHORTEST_STAY_NS
    return out


def shifted_walks(walks: Sequence[LabelledWalk], x_m: float, y_m: float) -> list[LabelledWalk]:
    """The same walks in a frame with another origin, such as UTM."""
    by = np.array([x_m, y_m, 0.0])
    return [replace(w, walk=replace(w.walk, poses=w.walk.poses + by)) for w in walks]


def walk_all(
    book: RouteBook,
    trips: Sequence[Trip],
    config: WalkerConfig,
    rng: np.random.Generator,
    duration_s: tuple[float, float] | None,
    style: WalkingStyle | None = None,
    resident: str = "",
) -> list[LabelledWalk]:
    """Draw the walks of all trips, in their order; walks of a named resident carry that name."""
    style = style or WalkingStyle()
    walks: list[LabelledWalk | None] = [None] * len(trips)
    for pair, rows in _batches(trips):
        timed = _time_trips(book, [trips[i] for i in rows], config, rng, duration_s, style)
        for i, (t, poses) in zip(rows, walk_poses(timed, config, rng), strict=True):
            if style.still_s > 0.0:
                t, poses = stand_still(t, poses, style.still_s, config.rate_hz)
            stamps = trips[i].start_ns + np.rint(t * NS_PER_S).astype(np.int64)
            walks[i] = LabelledWalk(Walk(f"{resident or 'walk'}-{i:05d}", resident or "resident", stamps, poses), *pair)
    return [w for w in walks if w is not None]


def _batches(trips: Sequence[Trip]) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Pairs of places, each with the trips between them, not too many at once for the machine's memory."""
    by_pair: dict[tuple[str, str], list[int]] = {}
    for i, trip in enumerate(trips):
        by_pair.setdefault((trip.origin, trip.destination), []).append(i)
    for pair in sorted(by_pair):
        rows = by_pair[pair]
        yield from ((pair, rows[k : k + _LARGEST_BATCH]) for k in range(0, len(rows), _LARGEST_BATCH))


def _time_trips(
    book: RouteBook,
    trips: Sequence[Trip],
    config: WalkerConfig,
    rng: np.random.Generator,
    duration_s: tuple[float, float] | None,
    style: WalkingStyle,
) -> TimedPaths:
    """Paths and speeds of one batch; walks outside of the duration are drawn again, unless the way is that long."""
    low, high = duration_s or (0.0, np.inf)
    timed = _draw_trips(book, trips, config, rng, style)
    for _ in range(_MOST_REDRAWS):
        again = np.flatnonzero((timed.duration_s() < low) | (timed.duration_s() > high))
        if len(again) == 0:
            break
        timed = timed.replaced(again, _draw_trips(book, [trips[i] for i in again.tolist()], config, rng, style))
    return timed


def _draw_trips(
    book: RouteBook, trips: Sequence[Trip], config: WalkerConfig, rng: np.random.Generator, style: WalkingStyle
) -> TimedPaths:
    origin, destination = trips[0].origin, trips[0].destination
    starts = draw_stops(book, book.house.place(origin), len(trips), rng)
    stops = draw_stops(book, book.house.place(destination), len(trips), rng)
    for i, trip in enumerate(trips):
        starts[i] = starts[i] if trip.start_xy is None else trip.start_xy
        stops[i] = stops[i] if trip.stop_xy is None else trip.stop_xy
    paths = draw_paths(
        book, origin, destination, starts, stops, config.lateral_spread_m, rng, style.side_m, style.route_weights
    )
    return time_paths(paths, config, rng, style)


def time_paths(
    paths: Array, config: WalkerConfig, rng: np.random.Generator, style: WalkingStyle = _AVERAGE
) -> TimedPaths:
    """Draw a speed for each path ``(B, N, 2)`` and every point of it."""
    count, nodes = paths.shape[:2]
    step = np.diff(paths, axis=1)
    ds = np.maximum(np.linalg.norm(step, axis=2), 1e-6)  # (B, N-1)
    s = np.concatenate([np.zeros((count, 1)), np.cumsum(ds, axis=1)], axis=1)
    heading = _headings(step, ds)
    cruise = config.speed_mps * np.exp(config.speed_spread * rng.standard_normal(count))
    speed = cruise[:, None] * np.exp(_drift(s, config.speed_drift, rng))
    speed = _softly_below(speed, np.sqrt(config.turn_acceleration_mps2 / _curvature(heading, s)))
    pause_at, pause_s = _pauses_at(paths, style.pauses, rng) if style.pauses else _pauses(count, nodes, config, rng)
    speed = _softly_below(speed, _speed_near_stops(s, pause_at, pause_s, config.acceleration_mps2))
    if style.pace_spread > 0.0:
        pace = np.exp(style.pace_spread * rng.standard_normal(count))
        speed, cruise = speed * pace[:, None], cruise * pace
    dt = 2.0 * ds / (speed[:, :-1] + speed[:, 1:])
    time = np.concatenate([np.zeros((count, 1)), np.cumsum(dt, axis=1)], axis=1)
    time += np.where(np.arange(nodes) > pause_at[:, None], pause_s[:, None], 0.0)
    return TimedPaths(paths, s, heading, speed, time, pause_at, pause_s, cruise)


def _headings(step: Array, ds: Array) -> Array:
    """Direction of travel at each point ``(B, N)``."""
    middle = np.unwrap(np.arctan2(step[..., 1], step[..., 0]), axis=1)
    padded = np.concatenate([middle[:, :1], 0.5 * (middle[:, 1:] + middle[:, :-1]), middle[:, -1:]], axis=1)
    width = _TURN_SMOOTHING_M / float(np.median(ds))
    return np.asarray(gaussian_filter1d(padded, width, axis=1, mode="nearest"))


def _curvature(heading: Array, s: Array) -> Array:
    """Curvature of the path in 1/m, at least 0.001."""
    bend = np.abs(np.diff(heading, axis=1)) / np.diff(s, axis=1)
    bend = np.concatenate([bend[:, :1], np.maximum(bend[:, 1:], bend[:, :-1]), bend[:, -1:]], axis=1)
    return np.asarray(np.maximum(gaussian_filter1d(bend, 4.0, axis=1, mode="nearest"), 1e-3))


def _drift(s: Array, spread: float, rng: np.random.Generator) -> Array:
    """Slow change of the log speed along the path ``(B, N)``: a few waves of random phase."""
    wavelength = rng.uniform(1.5, 6.0, size=(len(s), _DRIFT_WAVES, 1))
    phase = rng.uniform(0.0, 2.0 * np.pi, size=(len(s), _DRIFT_WAVES, 1))
    waves = np.sin(2.0 * np.pi * s[:, None, :] / wavelength + phase)
    return np.asarray(spread * np.sqrt(2.0 / _DRIFT_WAVES) * waves.sum(axis=1))


def _pauses(count: int, nodes: int, config: WalkerConfig, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """Where each walk pauses, and for how long (zero for most)."""
    at = np.rint(rng.uniform(0.25, 0.8, size=count) * (nodes - 1)).astype(np.int64)
    length = config.pause_s * np.exp(_PAUSE_SPREAD * rng.standard_normal(count))
    return at, np.where(rng.uniform(size=count) < config.pause_share, length, 0.0)


def _pauses_at(paths: Array, spots: Sequence[PauseSpot], rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """The point and length of each path's pause: at the first spot drawn of those it passes, away from its ends."""
    count, nodes = paths.shape[:2]
    at, seconds = np.full(count, nodes // 2), np.zeros(count)
    for spot in spots:
        distance = np.hypot(*(paths - [spot.x, spot.y]).transpose(2, 0, 1))  # (B, N)
        nearest = distance.argmin(axis=1)
        passes = (distance.min(axis=1) < _SPOT_REACH_M) & (nearest > nodes // 8) & (nearest < nodes - nodes // 8)
        length = spot.seconds * np.exp(_PAUSE_SPREAD * rng.standard_normal(count))
        chosen = passes & (rng.uniform(size=count) < spot.share) & (seconds == 0.0)
        at[chosen], seconds[chosen] = nearest[chosen], length[chosen]
    return at, seconds


def _speed_near_stops(s: Array, pause_at: NDArray[np.int64], pause_s: Array, acceleration: float) -> Array:
    """The highest speed that still allows for a stop at both ends and at the pause."""
    room = np.minimum(s, s[:, -1:] - s)
    at_pause = np.abs(s - np.take_along_axis(s, pause_at[:, None], axis=1))
    room = np.where(pause_s[:, None] > 0.0, np.minimum(room, at_pause), room)
    return np.sqrt(2.0 * acceleration * room)


def _softly_below(a: Array, b: Array) -> Array:
    """A smooth minimum of two speeds."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(low / (1.0 + (low / np.maximum(high, 1e-12)) ** 4) ** 0.25)


def walk_poses(timed: TimedPaths, config: WalkerConfig, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Sample every walk at the walker's rate: for each, seconds ``(T,)`` and poses ``(T, 3)``."""
    count, nodes = timed.time_s.shape
    samples = np.ceil(timed.duration_s() * config.rate_hz).astype(np.int64) + 1
    which = np.repeat(np.arange(count), samples)  # the walk of each sample
    first = np.concatenate([[0], np.cumsum(samples)[:-1]])
    t = (np.arange(samples.sum()) - first[which]) / config.rate_hz
    step_hz = config.step_hz * np.sqrt(timed.cruise_mps / config.speed_mps)[which]
    phase = np.asarray(rng.uniform(0.0, 2.0 * np.pi, size=count))[which]
    end = timed.duration_s()[which]
    # Each step accelerates and brakes: a periodic warp of time along the speed profile.
    warped = t + config.gait_share / (2 * np.pi * step_hz) * (np.sin(2 * np.pi * step_hz * t + phase) - np.sin(phase))
    warped[first + samples - 1] = timed.duration_s()  # the last pose is the end of the path
    poses, speed = _interpolate(timed, which, np.clip(warped, 0.0, end), nodes)
    swing = np.sin(np.pi * step_hz * t + 0.5 * phase) * np.clip(speed / timed.cruise_mps[which], 0.0, 1.0)
    poses[:, 0] -= config.sway_m * swing * np.sin(poses[:, 2])
    poses[:, 1] += config.sway_m * swing * np.cos(poses[:, 2])
    poses[:, 2] += config.sway_yaw_rad * swing
    poses[:, 2] = wrap_angle(poses[:, 2])
    return [(t[a : a + n], poses[a : a + n]) for a, n in zip(first, samples, strict=True)]


def _interpolate(timed: TimedPaths, which: NDArray[np.int64], t: Array, nodes: int) -> tuple[Array, Array]:
    """Pose ``(Q, 3)`` and speed ``(Q,)`` of walk ``which`` at time ``t``; the speed changes evenly between points."""
    far = timed.time_s.max() + 1.0  # walks laid one after the other, so that one search serves all
    flat = (timed.time_s + far * np.arange(len(timed.time_s))[:, None]).ravel()
    cell = np.searchsorted(flat, t + far * which, side="right") - 1 - which * nodes
    cell = np.clip(cell, 0, nodes - 2)
    waited = np.where(cell == timed.pause_at[which], timed.pause_s[which], 0.0)
    local = np.maximum(t - timed.time_s[which, cell] - waited, 0.0)
    v0, v1 = timed.speed_mps[which, cell], timed.speed_mps[which, cell + 1]
    length = timed.s_m[which, cell + 1] - timed.s_m[which, cell]
    span = 2.0 * length / np.maximum(v0 + v1, 1e-12)
    local = np.minimum(local, span)
    share = np.clip((v0 * local + 0.5 * (v1 - v0) / span * local**2) / length, 0.0, 1.0)
    xy = timed.xy[which, cell] * (1.0 - share)[:, None] + timed.xy[which, cell + 1] * share[:, None]
    heading = timed.heading_rad[which, cell] * (1.0 - share) + timed.heading_rad[which, cell + 1] * share
    return np.column_stack([xy, heading]), v0 + (v1 - v0) * local / span


def stand_still(t: Array, poses: Array, seconds: float, rate_hz: float) -> tuple[Array, Array]:
    """A walk (times ``(T,)``, poses ``(T, 3)``) and the poses of who then stands, swaying by millimetres."""
    after = np.arange(1, round(seconds * rate_hz) + 1) / rate_hz
    sway = _STILL_SWAY_M * np.sin(2.0 * np.pi * _STILL_SWAY_HZ * after)
    side = np.array([-np.sin(poses[-1, 2]), np.cos(poses[-1, 2]), 0.0])
    return np.concatenate([t, t[-1] + after]), np.concatenate([poses, poses[-1] + sway[:, None] * side])
