"""Residents who differ: pace, route, side of the corridor, hours, habits, pauses; drawn by seed for one house.

The habits are known exactly, so forecasts can be scored against them: ``Resident.shares`` gives the probability of each
next place by place, hour and date, ``Resident.entropy`` its entropy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S, zone
from svfm_ros.config.sim_config import HabitConfig, ResidentConfig, SimConfig, WalkerConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.sim.house import House
from svfm_ros.sim.routes import VARIANTS, RouteBook
from svfm_ros.sim.trips import LabelledWalk, PauseSpot, Trip, WalkingStyle, after_each_other, exact_spots, walk_all
from svfm_ros.sim.walker import ANCHOR, route_book, simulate_days, span_of_days

__all__ = [
    "Resident",
    "Routine",
    "random_resident",
    "resident_of",
    "simulate_living",
    "simulate_resident",
    "simulate_visits",
]

Array = NDArray[np.float64]

_NIGHT, _PERIODS = 0, 4  # night, morning, afternoon, evening
_BORDERS_H = (7.0, 12.0, 17.5, 22.5)  # median hours at which morning, afternoon, evening and night begin
_BORDER_SPREAD_H = 0.6
_AT_NIGHT = {"bed": 5.0, "bed_2": 5.0, "toilet": 5.0, "landing": 3.0}  # how much more these attract at night
_LEAST_ALPHA = 0.1


@dataclass(frozen=True, slots=True)
class Routine:
    """Habits from one day on: probabilities of the next place, ``(4, P, P)`` by period, origin and destination."""

    from_day: int  # days after the first one
    weekday: Array
    weekend: Array  # the same array where the weekend does not differ


@dataclass(frozen=True, slots=True)
class Resident:
    """One person in one house: how they walk, and where they go when."""

    name: str
    places: tuple[str, ...]  # order of the rows and columns of the habits
    walker: WalkerConfig
    style: WalkingStyle
    borders_h: tuple[float, float, float, float]  # hours at which morning, afternoon, evening and night begin
    routines: tuple[Routine, ...]  # in order of time; the first one from day 0
    dwell_s: float  # median stay at a place by day
    night_dwell_factor: float
    dwell_spread: float
    first_day: date
    time_zone: str

    def shares(self, origin: str, hour: float, on: date | None = None) -> dict[str, float]:
        """Probability of each place to be the next one for who leaves ``origin`` at a local hour of a date.

        Without a date: on the first Monday of the resident's first routine. The origin itself has share 0.
        """
        row = self._row(origin, hour, on or self._first_monday())
        return dict(zip(self.places, row.tolist(), strict=True))

    def is_night(self, hour: float) -> bool:
        """Whether they are in bed at this local hour."""
        return self._period(hour) == _NIGHT

    def _row(self, origin: str, hour: float, on: date) -> Array:
        if origin not in self.places:
            raise DataError(f"{self.name}: expected one of {', '.join(self.places)}, got {origin!r}")
        day = (on - self.first_day).days
        routine = [r for r in self.routines if r.from_day <= max(day, 0)][-1]
        table = routine.weekend if on.weekday() >= 5 else routine.weekday
        return np.asarray(table[self._period(hour), self.places.index(origin)])

    def _period(self, hour: float) -> int:
        return int(np.searchsorted(self.borders_h, hour % 24.0, side="right")) % _PERIODS

    def _first_monday(self) -> date:
        return self.first_day + timedelta(days=-self.first_day.weekday() % 7)


def random_resident(
    house: House,
    seed: int,
    config: ResidentConfig | None = None,
    book: RouteBook | None = None,
    name: str = "",
    walker: WalkerConfig | None = None,
    habits: HabitConfig | None = None,
) -> Resident:
    """Draw a resident of a house; the same house, config and seed give the same person.

    ``walker`` and ``habits`` give what is common to all residents: body, gait, time zone, first day.
    """
    config, habits = config or ResidentConfig(), habits or HabitConfig()
    rng = np.random.default_rng([seed, 41])
    pace = config.pace_mps * float(np.exp(config.pace_between * rng.standard_normal()))
    kappa = config.habit_concentration * float(np.exp(0.5 * rng.standard_normal()))
    borders = np.array(_BORDERS_H) + _BORDER_SPREAD_H * rng.standard_normal(_PERIODS).clip(-1.5, 1.5)
    dwell_s = config.dwell_s * float(np.exp(0.3 * rng.standard_normal()))
    style = WalkingStyle(
        pace_spread=config.pace_spread,
        side_m=float(config.side_m * rng.standard_normal()),
        route_weights=tuple(rng.dirichlet(np.full(VARIANTS, config.route_concentration)).tolist()),
        pauses=_pause_spots(house, book or route_book(house, walker), config, rng),
        arrival_spread=float(config.arrival_spread * np.exp(0.3 * rng.standard_normal())),
        still_s=config.still_s,
    )
    first = date.fromisoformat(habits.first_day)
    return Resident(
        name or f"resident-{seed}",
        house.places.names,
        _with_pace(walker or WalkerConfig(), pace),
        style,
        (float(borders[0]), float(borders[1]), float(borders[2]), float(borders[3])),
        _routines(house.places.names, kappa, config, rng),
        dwell_s,
        habits.night_dwell_factor,
        habits.dwell_spread,
        first,
        habits.time_zone,
    )


def _with_pace(walker: WalkerConfig, pace_mps: float) -> WalkerConfig:
    """The pace of each walk comes from the resident's style, pauses from where they pause."""
    return replace(walker, speed_mps=float(np.clip(pace_mps, 0.4, 1.8)), speed_spread=0.0, pause_share=0.0)


def _routines(
    names: Sequence[str], kappa: float, config: ResidentConfig, rng: np.random.Generator
) -> tuple[Routine, ...]:
    starts = [0] if config.change_day == 0 else [0, config.change_day]
    out = []
    for from_day in starts:
        weekday = _habits(names, kappa, rng)
        weekend = _habits(names, kappa, rng) if config.weekend else weekday
        out.append(Routine(from_day, weekday, weekend))
    return tuple(out)


def _habits(names: Sequence[str], kappa: float, rng: np.random.Generator) -> Array:
    """Shares ``(4, P, P)``: Dirichlet rows around what attracts this person in each period; nobody stays."""
    count = len(names)
    table = np.zeros((_PERIODS, count, count))
    for period in range(_PERIODS):
        pull = rng.dirichlet(np.full(count, 2.0))
        if period == _NIGHT:
            pull = pull * [_AT_NIGHT.get(n, 1.0) for n in names]
        for origin in range(count):
            others = np.arange(count) != origin
            alpha = kappa * (count - 1) * pull[others] / pull[others].sum()
            table[period, origin, others] = rng.dirichlet(np.maximum(alpha, _LEAST_ALPHA))
    return table


def _pause_spots(
    house: House, book: RouteBook, config: ResidentConfig, rng: np.random.Generator
) -> tuple[PauseSpot, ...]:
    """Where this person stops on the way (at a window, at a mirror): spots on ways between two places."""
    spots = []
    names = house.places.names
    for _ in range(config.pause_spots):
        a, b = rng.choice(len(names), size=2, replace=False)
        line = book.lines(names[int(a)], names[int(b)])[0]
        x, y = line[int(rng.uniform(0.3, 0.7) * len(line))].tolist()
        spots.append(PauseSpot(x, y, config.pause_share, config.pause_s))
    return tuple(spots)


def simulate_resident(
    house: House,
    resident: Resident,
    days: float | None = None,
    walks: int | None = None,
    seed: int = 0,
    book: RouteBook | None = None,
    start_hour: float | None = None,
) -> list[LabelledWalk]:
    """Walk, stay, walk on from there, for a number of days or of walks (one of them), in order of time.

    Begins at ``start_hour`` of the resident's first day; without one, when they get up. Each walk ends with the still
    period of the resident's style.
    """
    if (days is None) == (walks is None):
        raise UsageError("expected either days or walks to simulate, got both or neither")
    if start_hour is not None and not 0.0 <= start_hour < 24.0:
        raise UsageError(f"expected an hour of the day, 0 to 24, got {start_hour:g}")
    if house.places.names != resident.places:
        raise DataError(f"{resident.name}: expected the house they were drawn for, got {house.name}")
    book = book or route_book(house, resident.walker)
    rng = np.random.default_rng([seed, 5])
    visits = simulate_visits(resident, days, walks, rng, start_hour)
    names = [visits[0].origin, *(v.destination for v in visits)] if visits else []
    spots = exact_spots(book, names, rng, resident.style.arrival_spread)
    trips = [Trip(v.origin, v.destination, v.start_ns, spots[i], spots[i + 1]) for i, v in enumerate(visits)]
    made = walk_all(book, trips, resident.walker, rng, None, resident.style, resident.name)
    return after_each_other(made)


def simulate_visits(
    resident: Resident,
    days: float | None,
    walks: int | None,
    rng: np.random.Generator,
    start_hour: float | None = None,
) -> list[Trip]:
    """Departures in order of time, without the walks themselves, by the habits of each moment."""
    begin_h = resident.borders_h[0] if start_hour is None else start_hour
    hours = np.inf if days is None else days * 24.0
    midnight = datetime.combine(resident.first_day, datetime.min.time(), zone(resident.time_zone))
    here = next((n for n in ("bed", ANCHOR) if n in resident.places), resident.places[0])
    now_h = begin_h
    out: list[Trip] = []
    while walks is None or len(out) < walks:
        stay_s = resident.dwell_s * float(np.exp(resident.dwell_spread * rng.standard_normal()))
        now_h += stay_s / 3600.0 * (resident.night_dwell_factor if resident.is_night(now_h) else 1.0)
        if now_h >= begin_h + hours:
            break
        when = midnight + timedelta(hours=now_h)  # aware arithmetic is in local time, as people live
        row = resident._row(here, now_h % 24.0, when.date())
        there = resident.places[int(rng.choice(len(row), p=row))]
        out.append(Trip(here, there, round(when.timestamp() * 1e6) * (NS_PER_S // 1_000_000)))
        here = there
    return out


def simulate_living(
    house: House, config: SimConfig, seed: int, days: float, start_hour: float = 8.0
) -> list[LabelledWalk]:
    """Days of living: of the resident that ``config.resident`` draws, or by the profile of ``config.habits``."""
    if config.resident.seed < 0:
        return simulate_days(house, config.walker, seed, days, config.habits, start_hour)
    book = route_book(house, config.walker)
    resident = resident_of(house, config, book)
    walks = simulate_resident(house, resident, days, seed=seed, book=book, start_hour=start_hour)
    _, end_ns = span_of_days(config.habits, days, start_hour)
    return [w for w in walks if w.walk.stamps_ns[-1] <= end_ns]


def resident_of(house: House, config: SimConfig, book: RouteBook | None = None) -> Resident:
    """The resident that the options draw for a house."""
    chosen = config.resident
    return random_resident(house, chosen.seed, chosen, book, walker=config.walker, habits=config.habits)
