"""Habits with noise or partial wandering? Told apart by the entropy of the forecast, from one week of walks.

100 residents drawn at random live a week in the simulated home, each with habits, hours, a pace and ways of their own.
Half of them wander in part: 20 % of their walks go to any place at any hour. A model of their own learns the week;
the score of a resident is the mean entropy of the forecasts from the starts of their walks. Beside it stand the scores
that need no forecast: the entropy of the places alone, and that of the next place counted by origin and time of day.
The true entropy is known, so is how well it tells the two kinds apart, which no score from a week can beat by much.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

import numpy as np
import torch
from benchlib.forecasts.product import Product, as_walks, home_options
from benchlib.forecasts.score_table import Estimate
from numpy.typing import NDArray

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.clock import NS_PER_S, zone
from svfm_ros.config.sim_config import ResidentConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.scores import entropy, shares_of
from svfm_ros.forecasting.wandering import auc, wandering_index
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.resident import Resident, Routine, random_resident, simulate_resident
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.trips import LabelledWalk
from svfm_ros.sim.walker import route_book
from svfm_ros.targets import Check, at_least, at_most, within
from svfm_ros.walks.windows import make_windows

_SEED, _DEVELOPMENT_SEED = 8600, 3600
_RESIDENTS = 50  # of each kind
_DAYS = 7.0
_WANDERS = 0.2  # share of the walks of who wanders in part that go anywhere
_PERSON = ResidentConfig(dwell_s=1800.0)  # some 20 walks a day
_AUC = 0.85  # 100 other residents: true entropy 0.94, counted 0.84, places alone 0.62
_PERIOD_H = 6.0  # of the counted score
_BOOTSTRAPS = 500
_SCORES = {
    "forecast": "entropy of the forecasts (ours)",
    "counted": "next place counted by origin and six hours",
    "places_only": "places alone",
    "true": "true entropy",
}


@dataclass(frozen=True, slots=True)
class Week:
    """One week of one resident; entropies in nats."""

    wanders: bool
    seed: int
    walks: int
    forecast: float  # mean entropy of the forecasts
    low: float
    high: float
    true: float  # mean of the true entropies at the starts of the walks
    counted: float
    places_only: float
    fit_s: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row per score; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four residents of each kind")
    parser.add_argument("--residents", type=int, help=f"of each kind ({_RESIDENTS})")
    parser.add_argument("--days", type=float, default=_DAYS, help=f"walks to learn from ({_DAYS:g})")
    parser.add_argument("--development", action="store_true", help="other residents, to tune on")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    house = load_house()
    book = route_book(house)
    first = _DEVELOPMENT_SEED if args.development else _SEED
    count = args.residents or (4 if args.quick else _RESIDENTS)
    people = [_live(house, book, first + i, i % 2 == 1, args.days) for i in range(2 * count)]
    aucs = {name: _auc(people, name) for name in _SCORES}
    if not args.json:
        rows = [(_SCORES[n], str(aucs[n]), _mean(people, n, False), _mean(people, n, True)) for n in _SCORES]
        title = f"{count} and {count} residents, {args.days:g} days each"
        print_table(title, ("score", "AUC ± standard error", "habits, nats", "wandering in part, nats"), rows)
    payload = {
        "scores": [{"score": _SCORES[n], "auc": aucs[n].mean, "auc_error": aucs[n].error} for n in _SCORES],
        "people": [asdict(p) for p in people],
    }
    return report("wandering", _checks(people, aucs), payload, args.json)


def _checks(people: Sequence[Week], aucs: dict[str, Estimate]) -> list[Check]:
    own = aucs["forecast"]
    simple = max(("counted", "places_only"), key=lambda n: aucs[n].mean)
    gap = _auc(people, "forecast", simple)
    covered = float(np.mean([p.low <= p.true <= p.high for p in people]))
    bias = float(np.mean([p.forecast - p.true for p in people]))
    name = f"AUC, ours minus {_SCORES[simple]} ({aucs[simple]})"
    return [
        at_least("told apart by the entropy of the forecasts, AUC", own.mean, _AUC, own.error),
        Check(
            name, gap.mean, f">= {-2.0 * gap.error:.3g}, two standard errors", gap.mean >= -2.0 * gap.error, gap.error
        ),
        within("interval of the entropy covers the true one, share of residents", covered, 0.9, 0.05),
        at_most("mean entropy, reported minus true, size, nats", abs(bias), 0.1),
    ]


def _auc(people: Sequence[Week], name: str, minus: str = "") -> Estimate:
    """AUC of a score, or the difference of two, with its standard error by drawing residents anew."""
    rng = np.random.default_rng(0)
    kinds = [[p for p in people if p.wanders == kind] for kind in (False, True)]

    def value(chosen: Sequence[Sequence[Week]]) -> float:
        found = [auc(*([getattr(p, n) for p in k] for k in chosen)) for n in (name, minus) if n]
        return found[0] - (found[1] if minus else 0.0)

    drawn = [value([[k[i] for i in rng.integers(len(k), size=len(k))] for k in kinds]) for _ in range(_BOOTSTRAPS)]
    return Estimate(value(kinds), float(np.std(drawn, ddof=1)))


def _mean(people: Sequence[Week], name: str, wanders: bool) -> float:
    return float(np.mean([getattr(p, name) for p in people if p.wanders == wanders]))


def _live(house: House, book: RouteBook, seed: int, wanders: bool, days: float) -> Week:
    """Live a week, learn it, sum up."""
    print(f"resident {seed}{', wanders in part' if wanders else ''}", file=sys.stderr, flush=True)
    resident = random_resident(house, seed, _PERSON, book)
    resident = _wandering(resident) if wanders else resident
    lived = simulate_resident(house, resident, days=days, seed=seed, book=book)
    windows = make_windows([w.walk for w in lived], WindowsConfig(time_zone=resident.time_zone))
    ours = Product(options=home_options(), places=house.places)
    began = time.process_time()
    ours.fit(windows)
    fit_s = time.process_time() - began
    found = wandering_index(ours.forecaster, as_walks(windows))
    low, high = (float("nan") if v is None else v for v in (found.low, found.high))
    return Week(
        wanders=wanders,
        seed=seed,
        walks=len(lived),
        forecast=found.mean,
        low=low,
        high=high,
        true=float(np.mean([_true_entropy(resident, w) for w in lived])),
        counted=_counted_entropy(resident, lived),
        places_only=entropy(shares_of([w.destination for w in lived])),
        fit_s=fit_s,
    )


def _wandering(resident: Resident) -> Resident:
    """The same person, of whose walks a share goes to any other place."""

    def mixed(table: NDArray[np.float64]) -> NDArray[np.float64]:
        count = table.shape[-1]
        anywhere = (1.0 - np.eye(count)) / (count - 1)
        return np.asarray((1.0 - _WANDERS) * table + _WANDERS * anywhere)

    routines = tuple(Routine(r.from_day, mixed(r.weekday), mixed(r.weekend)) for r in resident.routines)
    return replace(resident, routines=routines)


def _when(resident: Resident, walk: LabelledWalk) -> datetime:
    return datetime.fromtimestamp(int(walk.walk.stamps_ns[0]) / NS_PER_S, zone(resident.time_zone))


def _true_entropy(resident: Resident, walk: LabelledWalk) -> float:
    when = _when(resident, walk)
    return resident.entropy(walk.origin, when.hour + when.minute / 60.0, when.date())


def _counted_entropy(resident: Resident, walks: Sequence[LabelledWalk]) -> float:
    """Mean entropy of the next place, counted by origin and period of the day, one walk added to every place."""
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    keys = [(w.origin, int(_when(resident, w).hour // _PERIOD_H)) for w in walks]
    for key, walk in zip(keys, walks, strict=True):
        counts[key][walk.destination] += 1
    others = len(resident.places) - 1

    def value(key: tuple[str, int]) -> float:
        found = counts[key]
        total = sum(found.values()) + others
        return entropy({name: (found[name] + 1.0) / total for name in resident.places if name != key[0]})

    return float(np.mean([value(key) for key in keys]))


if __name__ == "__main__":
    sys.exit(main())
