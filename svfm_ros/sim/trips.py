"""Trips (origin, destination, start time) and the walks that are drawn for them, one batch per pair of places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import WalkerConfig
from svfm_ros.sim.gait import TimedPaths, WalkingStyle, stand_still, time_paths, walk_poses
from svfm_ros.sim.routes import STOP_SPREAD, RouteBook, draw_paths, draw_stops
from svfm_ros.types import Walk

__all__ = ["LabelledWalk", "Trip", "after_each_other", "exact_spots", "shifted_walks", "tour", "walk_all"]

Array = NDArray[np.float64]

_TOUR_GAP_NS = 12 * NS_PER_S
_MOST_REDRAWS = 12
_LARGEST_BATCH = 1000
_SHORTEST_STAY_NS = 3 * NS_PER_S  # long enough to turn around


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
