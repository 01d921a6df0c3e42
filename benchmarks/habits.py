"""Habits over weeks: a new routine, a weekend that differs, drift, and months in which nothing changes.

Residents drawn at random live in the simulated home. Only their departures are simulated (where from, where to, when),
and habits are learnt from them by the function that training uses. Errors are total variation between learnt and true
shares of the next place, at the start of every walk of the day in question, from that place, at that hour.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date

import numpy as np
from benchlib.forecasts.score_table import Estimate
from benchlib.visits import Visits, fit_visits, live, share_errors
from numpy.typing import NDArray

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.sim_config import ResidentConfig
from svfm_ros.forecasting.habits import is_weekend
from svfm_ros.pipeline.learn import CHANGE_IS_SURE
from svfm_ros.report.habit_changes import change_days
from svfm_ros.report.walk_table import WalkTable
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.resident import Resident, Routine, random_resident
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.walker import route_book
from svfm_ros.targets import Check, at_least, at_most

_SEED, _DEVELOPMENT_SEED = 8700, 3700
_RESIDENTS, _MONTHS = 20, 100
_CHANGE, _WEEK_AFTER, _LATER = 20, 27, 40  # days after the first one
_WEEK_TV, _LATER_TV = 0.15, 0.08
_MONTH, _FOUR_WEEKS = 30, 28
_DATED_DAYS = 2  # a change is dated where it is found this near to the true day
_DRIFT_DAYS = 90
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class NewRoutine:
    """A resident whose routine changes."""

    seed: int
    week_tv: float  # forecasts of the day a week after the change
    later_tv: float
    dated_off: float  # days between the true change and the one that training reports; NaN: none reported
    report_off: float  # and the report


@dataclass(frozen=True, slots=True)
class Months:
    """Alarms of residents without a change."""

    training: int
    report: int
    weekend: int


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row per subject; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four residents, ten months")
    parser.add_argument("--development", action="store_true", help="other residents, to tune on")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    house = load_house()
    book = route_book(house)
    first = _DEVELOPMENT_SEED if args.development else _SEED
    residents, months = (4, 10) if args.quick else (_RESIDENTS, _MONTHS)
    seeds = range(first, first + residents)
    changed = [_new_routine(house, book, seed) for seed in seeds]
    quiet = _quiet_months(house, book, range(first + 1000, first + 1000 + months))
    weekends = np.array([_weekend(house, book, seed) for seed in seeds])  # (R, 3)
    drift = np.array([_drift(house, book, seed) for seed in seeds])  # (R, 3)
    if not args.json:
        rows = [
            ("new routine, a week after", _estimate([c.week_tv for c in changed])),
            ("new routine, three weeks after", _estimate([c.later_tv for c in changed])),
            ("weekend that differs, after four weeks", _estimate(weekends[:, 1])),
            ("the same, all days taken as alike", _estimate(weekends[:, 2])),
            (f"habits that drift for {_DRIFT_DAYS} days", _estimate(drift[:, 0])),
            ("the same, all walks counted alike", _estimate(drift[:, 1])),
        ]
        print_table(f"{residents} residents, error of the shares", ("habits", "total variation"), rows)
    payload = {
        "changed": [asdict(c) for c in changed],
        "months": {"count": months, **asdict(quiet)},
        "weekends": weekends.tolist(),
        "drift": drift.tolist(),
    }
    return report("habits", _checks(changed, quiet, months, weekends, drift), payload, args.json)


def _estimate(values: Sequence[float] | NDArray[np.float64]) -> Estimate:
    each = np.asarray(values, dtype=float)
    return Estimate(float(each.mean()), float(each.std(ddof=1) / len(each) ** 0.5))


def _checks(
    changed: Sequence[NewRoutine],
    quiet: Months,
    months: int,
    weekends: NDArray[np.float64],
    drift: NDArray[np.float64],
) -> list[Check]:
    week, later = _estimate([c.week_tv for c in changed]), _estimate([c.later_tv for c in changed])
    dated = np.mean([c.dated_off <= _DATED_DAYS for c in changed])
    by_report = np.mean([c.report_off <= _DATED_DAYS for c in changed])
    gain = _estimate(drift[:, 1] - drift[:, 0])
    return [
        at_most(f"routine new from day {_CHANGE}: forecasts of day {_WEEK_AFTER}, TV", week.mean, _WEEK_TV, week.error),
        at_most(f"forecasts of day {_LATER}, TV", later.mean, _LATER_TV, later.error),
        at_least(f"change dated within {_DATED_DAYS} days by training, share of residents", dated, 0.9),
        at_least(f"change dated within {_DATED_DAYS} days by the report, share of residents", by_report, 0.9),
        at_most(f"months of {months} without a change in which training reports one", quiet.training, 0.05 * months),
        at_most(f"months of {months} without a change in which the report shows one", quiet.report, 0.05 * months),
        at_least("weekends that differ, told apart after four weeks, share of residents", weekends[:, 0].mean(), 0.9),
        at_most(
            f"months of {months} in which a weekend is told apart that does not differ", quiet.weekend, 0.05 * months
        ),
        at_least("TV gained by forgetting where habits drift", gain.mean, 0.0, gain.error),
    ]


def _person(house: House, book: RouteBook, seed: int, config: ResidentConfig | None = None) -> Resident:
    return random_resident(house, seed, config, book)


def _day_of(visits: Visits, resident: Resident) -> NDArray[np.int64]:
    """Days (N,) since the resident's first."""
    return np.asarray(visits.day - (resident.first_day.toordinal() - _EPOCH))


def _new_routine(house: House, book: RouteBook, seed: int) -> NewRoutine:
    print(f"new routine, resident {seed}", file=sys.stderr, flush=True)
    resident = _person(house, book, seed, ResidentConfig(change_day=_CHANGE))
    lived = live(resident, _LATER + 1.0, seed)
    day = _day_of(lived, resident)
    errors, off = [], float("nan")
    for asked in (_WEEK_AFTER, _LATER):
        fitted = fit_visits(house, lived.select(day < asked), seed)
        errors.append(float(share_errors(house, resident, fitted.habits, lived.select(day == asked)).mean()))
        if fitted.found.change_probability >= CHANGE_IS_SURE:
            off = abs(fitted.found.change_day - int(lived.day[0]) - _CHANGE)
    found = [d - _EPOCH - int(lived.day[0]) - _CHANGE for d in change_days(_table(lived), lived.places)]
    return NewRoutine(seed, errors[0], errors[1], off, float(min(map(abs, found), default=np.nan)))


def _table(visits: Visits) -> WalkTable:
    ordinal = visits.day + _EPOCH
    nothing = np.full(len(ordinal), -1)
    return WalkTable(ordinal, nothing, visits.hour, visits.origin, visits.end, np.full(len(ordinal), np.nan))


def _quiet_months(house: House, book: RouteBook, seeds: Sequence[int]) -> Months:
    training = shown = weekend = 0
    for seed in seeds:
        print(f"month without a change, resident {seed}", file=sys.stderr, flush=True)
        lived = live(_person(house, book, seed), float(_MONTH), seed)
        found = fit_visits(house, lived, seed).found
        training += found.change_probability >= CHANGE_IS_SURE
        weekend += found.weekend_probability > 0.5
        shown += bool(change_days(_table(lived), lived.places))
    return Months(int(training), int(shown), int(weekend))


def _weekend(house: House, book: RouteBook, seed: int) -> tuple[float, float, float]:
    """Whether the weekend is told apart after four weeks; the error on the next weekend; the same with days alike."""
    resident = _person(house, book, seed, ResidentConfig(weekend=True))
    lived = live(resident, _FOUR_WEEKS + 7.0, seed)
    day = _day_of(lived, resident)
    learnt, asked = lived.select(day < _FOUR_WEEKS), lived.select((day >= _FOUR_WEEKS) & is_weekend(lived.day))
    fitted = fit_visits(house, learnt, seed)
    monday = learnt.day - learnt.day % 7 + 4  # every day taken for a Monday of its week
    alike = fit_visits(house, replace(learnt, day=monday), seed)
    return (
        float(fitted.found.weekend_probability > 0.5),
        float(share_errors(house, resident, fitted.habits, asked).mean()),
        float(share_errors(house, resident, alike.habits, asked).mean()),
    )


def _drift(house: House, book: RouteBook, seed: int) -> tuple[float, float, float]:
    """Errors on the last day of a slow change from one routine to another: ours, and with all walks counted alike."""
    drawn = _person(house, book, seed, ResidentConfig(change_day=1))
    before, after = drawn.routines[0].weekday, drawn.routines[1].weekday
    routines = []
    for day in range(_DRIFT_DAYS + 1):
        mixed = after * (day / _DRIFT_DAYS) + before * (1.0 - day / _DRIFT_DAYS)
        routines.append(Routine(day, mixed, mixed))
    resident = replace(drawn, routines=tuple(routines))
    lived = live(resident, _DRIFT_DAYS + 1.0, seed)
    day = _day_of(lived, resident)
    learnt, asked = lived.select(day < _DRIFT_DAYS), lived.select(day == _DRIFT_DAYS)
    fitted = fit_visits(house, learnt, seed)
    alike = fit_visits(house, replace(learnt, day=np.full_like(learnt.day, learnt.day[-1])), seed)
    return (
        float(share_errors(house, resident, fitted.habits, asked).mean()),
        float(share_errors(house, resident, alike.habits, asked).mean()),
        float(fitted.found.weight.sum() / len(fitted.found.weight)),
    )


if __name__ == "__main__":
    sys.exit(main())
