"""Habits with noise or partial wandering? Told apart by the wandering index, from one week of walks.

100 residents drawn at random live a week in the simulated home, each with habits and hours of their own. Half of them
wander in part: 20 % of their walks go to any place at any hour. The score of a resident is the wandering index of the
report: the mean entropy of the next place at the starts of their walks, habits drawn from their posterior. Beside it
stand simple scores: the entropy of the places alone, and that of the next place counted by origin and time of day. The
true entropy is known, so is how well it tells the two kinds apart, which no score from a week can beat by much. Four
weeks of the same residents say whether the interval holds the true entropy as often as it says there, too.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from benchlib.forecasts.score_table import Estimate
from benchlib.visits import Visits, live
from numpy.typing import NDArray

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.sim_config import ResidentConfig
from svfm_ros.forecasting.scores import entropy, shares_of
from svfm_ros.forecasting.wandering import entropy_draws
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.resident import Resident, Routine, random_resident
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.walker import route_book
from svfm_ros.targets import Check, at_least, at_most, within

_SEED, _DEVELOPMENT_SEED = 8600, 3600
_RESIDENTS = 50  # of each kind
_DAYS, _LONGER = 7.0, 4.0
_WANDERS = 0.2  # share of the walks of who wanders in part that go anywhere
_PERSON = ResidentConfig(dwell_s=1800.0)  # some 20 walks a day
_AUC = 0.85  # 100 other residents: true entropy 0.94, counted 0.84, places alone 0.62
_PERIOD_H = 6.0  # of the counted score
_BOOTSTRAPS = 500
_SCORES = {
    "index": "wandering index (ours)",
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
    index: float  # wandering index
    low: float
    high: float
    true: float  # mean of the true entropies at the starts of the walks
    counted: float
    places_only: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row per score; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four residents of each kind")
    parser.add_argument("--residents", type=int, help=f"of each kind ({_RESIDENTS})")
    parser.add_argument("--days", type=float, default=_DAYS, help=f"walks to learn from ({_DAYS:g})")
    parser.add_argument("--development", action="store_true", help="other residents, to tune on")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    house = load_house()
    book = route_book(house)
    first = _DEVELOPMENT_SEED if args.development else _SEED
    count = args.residents or (4 if args.quick else _RESIDENTS)
    people = [_live(house, book, first + i, i % 2 == 1, args.days) for i in range(2 * count)]
    longer = [_live(house, book, first + i, i % 2 == 1, _LONGER * args.days) for i in range(2 * count)]
    aucs = {name: _auc(people, name) for name in _SCORES}
    if not args.json:
        rows = [(_SCORES[n], str(aucs[n]), _mean(people, n, False), _mean(people, n, True)) for n in _SCORES]
        title = f"{count} and {count} residents, {args.days:g} days each"
        print_table(title, ("score", "AUC ± standard error", "habits, nats", "wandering in part, nats"), rows)
    payload = {
        "scores": [{"score": _SCORES[n], "auc": aucs[n].mean, "auc_error": aucs[n].error} for n in _SCORES],
        "people": [asdict(p) for p in people],
    }
    return report("wandering", [*_checks(people, aucs), *_interval_checks(people, longer)], payload, args.json)


def _checks(people: Sequence[Week], aucs: dict[str, Estimate]) -> list[Check]:
    own = aucs["index"]
    simple = max(("counted", "places_only"), key=lambda n: aucs[n].mean)
    gap = _auc(people, "index", simple)
    name = f"AUC, ours minus {_SCORES[simple]} ({aucs[simple]})"
    return [
        at_least("told apart by the wandering index, AUC", own.mean, _AUC, own.error),
        Check(
            name, gap.mean, f">= {-2.0 * gap.error:.3g}, two standard errors", gap.mean >= -2.0 * gap.error, gap.error
        ),
    ]


def _interval_checks(people: Sequence[Week], longer: Sequence[Week]) -> list[Check]:
    checks = []
    for weeks, some in (("one week", people), ("four weeks", longer)):
        held = np.array([p.low <= p.true <= p.high for p in some], dtype=float)
        bias = np.array([p.index - p.true for p in some])
        error = 1.0 / len(some) ** 0.5
        name = f"{weeks}: 90 % interval of the entropy covers the true one, share of residents"
        checks.append(within(name, float(held.mean()), 0.9, 0.05, float(held.std() * error)))
        size = f"{weeks}: mean entropy, reported minus true, size, nats"
        checks.append(at_most(size, abs(float(bias.mean())), 0.1, float(bias.std() * error)))
    return checks


def _area(lower: Sequence[float], higher: Sequence[float]) -> float:
    """How often a score of the second kind is above one of the first, ties half: 0.5 is chance, 1 tells all apart."""
    difference = np.asarray(higher)[:, None] - np.asarray(lower)
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def _auc(people: Sequence[Week], name: str, minus: str = "") -> Estimate:
    """AUC of a score, or the difference of two, with its standard error by drawing residents anew."""
    rng = np.random.default_rng(0)
    kinds = [[p for p in people if p.wanders == kind] for kind in (False, True)]

    def value(chosen: Sequence[Sequence[Week]]) -> float:
        found = [_area(*([getattr(p, n) for p in k] for k in chosen)) for n in (name, minus) if n]
        return found[0] - (found[1] if minus else 0.0)

    drawn = [value([[k[i] for i in rng.integers(len(k), size=len(k))] for k in kinds]) for _ in range(_BOOTSTRAPS)]
    return Estimate(value(kinds), float(np.std(drawn, ddof=1)))


def _mean(people: Sequence[Week], name: str, wanders: bool) -> float:
    return float(np.mean([getattr(p, name) for p in people if p.wanders == wanders]))


def _live(house: House, book: RouteBook, seed: int, wanders: bool, days: float) -> Week:
    """Live some days, sum up."""
    print(f"resident {seed}{', wanders in part' if wanders else ''}", file=sys.stderr, flush=True)
    resident = random_resident(house, seed, _PERSON, book)
    resident = _wandering(resident) if wanders else resident
    lived = live(resident, days, seed)
    mean, low, high = entropy_draws(lived.next_walks()).interval()
    return Week(
        wanders=wanders,
        seed=seed,
        walks=len(lived.hour),
        index=mean,
        low=low,
        high=high,
        true=float(lived.true_entropies(resident).mean()),
        counted=_counted_entropy(resident, lived),
        places_only=entropy(shares_of([resident.places[i] for i in lived.end])),
    )


def _wandering(resident: Resident) -> Resident:
    """The same person, of whose walks a share goes to any other place."""

    def mixed(table: NDArray[np.float64]) -> NDArray[np.float64]:
        count = table.shape[-1]
        anywhere = (1.0 - np.eye(count)) / (count - 1)
        return np.asarray((1.0 - _WANDERS) * table + _WANDERS * anywhere)

    routines = tuple(Routine(r.from_day, mixed(r.weekday), mixed(r.weekend)) for r in resident.routines)
    return replace(resident, routines=routines)


def _counted_entropy(resident: Resident, lived: Visits) -> float:
    """Mean entropy of the next place, counted by origin and period of the day, one walk added to every place."""
    counts: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    keys = [(o, int(hour // _PERIOD_H)) for o, hour in zip(lived.origin.tolist(), lived.hour.tolist(), strict=True)]
    for key, end in zip(keys, lived.end.tolist(), strict=True):
        counts[key][end] += 1
    others = len(resident.places) - 1

    def value(key: tuple[int, int]) -> float:
        found = counts[key]
        total = sum(found.values()) + others
        return entropy({str(i): (found[i] + 1.0) / total for i in range(others + 1) if i != key[0]})

    return float(np.mean([value(key) for key in keys]))


if __name__ == "__main__":
    sys.exit(main())
