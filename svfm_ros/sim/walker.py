"""Walks by the paper's protocol, by profiles of habits, and over whole days (see ``resident`` for drawn residents).

All are ground truth in the frame ``map``; the same house, config and seed give the same walks.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S, hours_of_day, parse_local_time
from svfm_ros.config.sim_config import HabitConfig, WalkerConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.sim.house import House
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.trips import LabelledWalk, Trip, after_each_other, exact_spots, tour, walk_all

__all__ = [
    "ANCHOR",
    "is_night",
    "next_place_shares",
    "route_book",
    "simulate_days",
    "simulate_habit",
    "simulate_protocol",
    "simulate_tour",
    "span_of_days",
]

Array = NDArray[np.float64]

ANCHOR = "couch"
"""Where the walks of the paper begin."""

_FAVOURITE = 0.9  # share of the favourite next place in a routine
_PERIOD_H = 4.0  # a routine changes every so many hours
_MARGIN_M = 0.04  # between two nodes of the clearance grid, a wall may be this much nearer than the nodes say
_DAY_S = 86400
_PROTOCOL_HOUR_H = 10
_PROTOCOL_GAP_NS = 60 * NS_PER_S


def route_book(house: House, config: WalkerConfig | None = None) -> RouteBook:
    """The ways through a house; pass it to several simulations to search them only once."""
    config = config or WalkerConfig()
    return RouteBook(house, config.body_radius_m + config.sway_m + _MARGIN_M)


def simulate_protocol(
    house: House,
    config: WalkerConfig | None = None,
    seed: int = 0,
    repeats: int = 10,
    targets: Sequence[str] | None = None,
    habits: HabitConfig | None = None,
    book: RouteBook | None = None,
    and_back: bool = False,
) -> list[LabelledWalk]:
    """The paper's recordings: from the couch to each target, ``repeats`` times each, in random order.

    With ``and_back``, people walk back after each walk, so that all of it can be one recording.
    """
    config, habits = config or WalkerConfig(), habits or HabitConfig()
    book = book or route_book(house, config)
    targets = tuple(targets or (n for n in house.places.names if n != ANCHOR))
    rng = np.random.default_rng([seed, 1])
    order = [targets[k] for k in rng.permutation(np.repeat(np.arange(len(targets)), repeats))]
    first = parse_local_time(f"{habits.first_day}T{_PROTOCOL_HOUR_H:02d}:00", habits.time_zone)
    limits = (config.shortest_s, config.longest_s)
    if and_back:
        stops = [ANCHOR, *(name for target in order for name in (target, ANCHOR))]
        return after_each_other(walk_all(book, tour(book, stops, first, rng), config, rng, limits))
    trips = [Trip(ANCHOR, name, first + i * _PROTOCOL_GAP_NS) for i, name in enumerate(order)]
    return walk_all(book, trips, config, rng, limits)


def simulate_tour(
    house: House,
    stops: Sequence[str],
    config: WalkerConfig | None = None,
    seed: int = 0,
    every_s: float = 15.0,
    start_hour: float = 10.0,
) -> list[LabelledWalk]:
    """From stop to stop, each walk from where the last one ended; one sets off every ``every_s`` seconds."""
    config = config or WalkerConfig()
    book = route_book(house, config)
    rng = np.random.default_rng([seed, 4])
    first, _ = span_of_days(HabitConfig(), 1.0, start_hour)
    trips = tour(book, stops, first, rng, round(every_s * NS_PER_S))
    return after_each_other(walk_all(book, trips, config, rng, (config.shortest_s, config.longest_s)))


def simulate_habit(
    house: House,
    config: WalkerConfig | None = None,
    seed: int = 0,
    count: int = 160,
    habits: HabitConfig | None = None,
    book: RouteBook | None = None,
) -> list[LabelledWalk]:
    """``count`` walks from the couch, about 20 a day, at any hour, which decides where they go (``habits``).

    They are in order of time and last 5 to 10 s like those of the protocol.
    """
    config, habits = config or WalkerConfig(), habits or HabitConfig()
    rng = np.random.default_rng([seed, 2])
    starts = _starts(count, habits, rng)
    clock = hours_of_day(starts, habits.time_zone)
    names = house.places.names
    table = np.stack([_leaving(house, habits, float(h)) for h in clock]) if count else np.empty((0, 1))
    chosen = (rng.uniform(size=(count, 1)) > np.cumsum(table, axis=1)).sum(axis=1)
    trips = [Trip(ANCHOR, names[int(k)], int(t)) for k, t in zip(chosen, starts, strict=True)]
    return walk_all(book or route_book(house, config), trips, config, rng, (config.shortest_s, config.longest_s))


def simulate_days(
    house: House,
    config: WalkerConfig | None = None,
    seed: int = 0,
    days: float = 1.0,
    habits: HabitConfig | None = None,
    start_hour: float = 8.0,
    book: RouteBook | None = None,
) -> list[LabelledWalk]:
    """Free living: walk, stay, walk on from there, for ``days`` (or a part of one) from an hour of the first day on."""
    config, habits = config or WalkerConfig(), habits or HabitConfig()
    book = book or route_book(house, config)
    rng = np.random.default_rng([seed, 3])
    span_ns = span_of_days(habits, days, start_hour)
    visits = _visits(house, habits, span_ns, rng)
    spots = exact_spots(book, [ANCHOR, *(v.destination for v in visits)], rng)
    trips = [Trip(v.origin, v.destination, v.start_ns, spots[i], spots[i + 1]) for i, v in enumerate(visits)]
    walks = after_each_other(walk_all(book, trips, config, rng, None))
    return [w for w in walks if w.walk.stamps_ns[-1] <= span_ns[1]]


def span_of_days(habits: HabitConfig, days: float, start_hour: float = 8.0) -> tuple[int, int]:
    """Unix nanoseconds at which ``simulate_days`` begins and ends."""
    if not 0.0 <= start_hour < 24.0:
        raise UsageError(f"expected an hour of the day, 0 to 24, got {start_hour:g}")
    begin = parse_local_time(f"{habits.first_day}T00:00", habits.time_zone) + round(start_hour * 3600 * NS_PER_S)
    return begin, begin + round(days * _DAY_S * NS_PER_S)


def _starts(count: int, habits: HabitConfig, rng: np.random.Generator) -> NDArray[np.int64]:
    """Unix times in order, at any hour of the days."""
    midnight = parse_local_time(f"{habits.first_day}T00:00", habits.time_zone)
    day = rng.integers(max(1, count // 20), size=count)
    seconds = day * _DAY_S + rng.uniform(0.0, 24.0, size=count) * 3600.0
    return np.sort(midnight + np.rint(seconds * 1e3).astype(np.int64) * 1_000_000)


def _leaving(house: House, habits: HabitConfig, hour: float) -> Array:
    """Shares of the places other than the couch."""
    shares = next_place_shares(house, habits, ANCHOR, hour)
    shares[house.places.names.index(ANCHOR)] = 0.0
    return np.asarray(shares / shares.sum())


def _visits(house: House, habits: HabitConfig, span_ns: tuple[int, int], rng: np.random.Generator) -> list[Trip]:
    """Departures in order of time; drawing the place where they are means a longer stay."""
    names = house.places.names
    here, now = ANCHOR, span_ns[0]
    trips: list[Trip] = []
    while True:
        hour = float(hours_of_day(np.array([now]), habits.time_zone)[0])
        stay = habits.dwell_s * float(np.exp(habits.dwell_spread * rng.standard_normal()))
        night = habits.profile != "wandering" and is_night(hour, habits)
        now += round(stay * (habits.night_dwell_factor if night else 1.0) * NS_PER_S)
        if now >= span_ns[1]:
            return trips
        hour = float(hours_of_day(np.array([now]), habits.time_zone)[0])
        there = names[int(rng.choice(len(names), p=next_place_shares(house, habits, here, hour)))]
        if there != here:
            trips.append(Trip(here, there, now))
            here = there


def is_night(hour: float, habits: HabitConfig) -> bool:
    """Whether an hour of the day belongs to the night, which may pass midnight."""
    start, end = habits.night_from_h, habits.night_to_h
    return start <= hour < end if start <= end else hour >= start or hour < end


def next_place_shares(house: House, habits: HabitConfig, origin: str, hour: float) -> Array:
    """Probability of each place of the house ``(P,)`` to be the next one; the share of the origin means staying."""
    names = house.places.names
    if habits.profile != "wandering" and is_night(hour, habits):
        return _at_night(house, habits)
    shares = np.full(len(names), 1.0 / len(names))
    if habits.profile == "routine":
        here = names.index(origin)
        favourite = (here + 1 + int(hour // _PERIOD_H) % (len(names) - 1)) % len(names)
        shares = np.full(len(names), (1.0 - _FAVOURITE) / (len(names) - 1))
        shares[favourite] = _FAVOURITE
    return shares


def _at_night(house: House, habits: HabitConfig) -> Array:
    names = house.places.names
    for needed in ("landing", "kitchen"):
        if needed not in names:
            raise DataError(
                f"{house.name}: expected a place {needed!r} for walks at night (or a drawn resident), "
                f"got {', '.join(names)}"
            )
    shares = np.zeros(len(names))
    shares[names.index("landing")] = habits.night_landing
    shares[names.index("kitchen")] = 1.0 - habits.night_landing
    return shares
