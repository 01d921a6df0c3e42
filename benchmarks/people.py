"""Residents of one home help each other, and stay apart where they differ; what other homes tell a new one.

In homes drawn at random live residents drawn at random: each has a route, a side of the corridor and a pace of their
own. *Newcomer*: a resident with 5 walks, in a home where two others have 40 each, against a model of 160 walks of the
newcomer's own; all walk from the couch to every place equally often. *Apart*: two residents with habits of their own
(from the couch, drawn at random), 40 walks each in one model; the shares of each are compared with their own habits.
*New home*: the first 10, and the first 160, walks of someone's days, learnt with the population prior and without it.
Likelihood and shares are those of walks that nobody learnt from.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from benchlib.forecasts.score_table import TIE, Estimate
from numpy.typing import NDArray

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.clock import NS_PER_S, parse_local_time
from svfm_ros.config.sim_config import HabitConfig, ResidentConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.free_walker import FreeWalkerPrior
from svfm_ros.forecasting.model_file import WalkModelFile
from svfm_ros.pipeline.learn import LearnConfig, learn, nll_per_step
from svfm_ros.sim.house import House
from svfm_ros.sim.random_house import random_house
from svfm_ros.sim.resident import Resident, random_resident, simulate_resident
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.trips import Trip, walk_all
from svfm_ros.sim.walker import ANCHOR, route_book
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.types import Walk

Array = NDArray[np.float64]

_SEED, _DEVELOPMENT_SEED = 9500, 4500
_SEEDS = 5
_FEW, _OTHERS, _OWN, _HELD_OUT = 5, 40, 160, 60
_FEW_IN_NEW_HOME = 10
_NLL, _TV, _APART_TV, _PRIOR_NLL = 0.3, 0.05, 0.08, 0.5
_HABITS = HabitConfig()
_CONFIG = LearnConfig(windows=WindowsConfig(time_zone=_HABITS.time_zone))
_GAP_NS = 240 * NS_PER_S
_SAMPLES = 2000


@dataclass(frozen=True, slots=True)
class HomeFigures:
    """One home; likelihood in nats per step, shares in total variation to the true ones."""

    home: int
    newcomer_nll: float
    home_nll: float  # of the newcomer's walks under the home's habits, with their 5 walks learnt but nobody named
    own_nll: float  # with 160 walks of their own
    newcomer_tv: float
    own_tv: float
    apart_tv: float  # mean of two residents whose habits differ
    apart_home_tv: float  # the same if they are taken for one
    new_home_nll: float  # 10 walks, with the prior
    new_home_alone_nll: float  # 10 walks, without
    old_home_nll: float  # 160 walks, with the prior
    old_home_alone_nll: float  # 160 walks, without


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row per home; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one home")
    parser.add_argument("--homes", type=int, help=f"number of homes ({_SEEDS})")
    parser.add_argument("--development", action="store_true", help="other homes, to tune on")
    parser.add_argument("--prior", type=Path, metavar="FILE", help="population prior instead of the one that ships")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    first = _DEVELOPMENT_SEED if args.development else _SEED
    prior = FreeWalkerPrior.load(args.prior)
    homes = [_in_home(first + i, prior) for i in range(args.homes or (1 if args.quick else _SEEDS))]
    if not args.json:
        each = [asdict(h) for h in homes]
        rows = [(name, *(h[name] for h in each)) for name in each[0] if name != "home"]
        print_table("residents of homes drawn at random", ("home", *(str(h["home"]) for h in each)), rows)
    return report("people", _checks(homes), {"homes": [asdict(h) for h in homes]}, args.json)


def _checks(homes: Sequence[HomeFigures]) -> list[Check]:
    nll = _estimate([h.newcomer_nll - h.own_nll for h in homes])
    tv = _estimate([h.newcomer_tv - h.own_tv for h in homes])
    apart = _estimate([h.apart_tv for h in homes])
    new = _estimate([h.new_home_alone_nll - h.new_home_nll for h in homes])
    old = _estimate([h.old_home_alone_nll - h.old_home_nll for h in homes])
    return [
        at_most("newcomer with 5 walks behind 160 walks of their own, nats per step", nll.mean, _NLL, nll.error),
        at_most("the same, total variation of the shares", tv.mean, _TV, tv.error),
        at_most("residents who differ, 40 walks each: shares off their own, TV", apart.mean, _APART_TV, apart.error),
        at_least("new home, 10 walks: the prior ahead of none, nats per step", new.mean, _PRIOR_NLL, new.error),
        Check(
            "160 walks: the prior ahead of none, nats per step",
            old.mean,
            f"0 ± {TIE * old.error:.2g}, two standard errors",
            abs(old.mean) <= TIE * old.error,
            old.error,
        ),
    ]


def _estimate(values: Sequence[float]) -> Estimate:
    each = np.asarray(values, dtype=float)
    error = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else float("nan")
    return Estimate(float(each.mean()), error)


def _in_home(seed: int, prior: FreeWalkerPrior) -> HomeFigures:
    print(f"home {seed}", file=sys.stderr, flush=True)
    house = random_house(seed)
    book = route_book(house)
    config = ResidentConfig()
    ada, ben, new = (
        random_resident(house, 10 * seed + i, config, book, name) for i, name in enumerate(("ada", "ben", "new"))
    )
    targets = [name for name in house.places.names if name != ANCHOR]
    alike = np.full(len(targets), 1.0 / len(targets))
    held_out = _walks(house, book, new, _HELD_OUT, alike, seed + 1)
    others = [w for i, who in enumerate((ada, ben)) for w in _walks(house, book, who, _OTHERS, alike, seed + 2, i)]
    own_walks = _walks(house, book, new, _OWN, alike, seed + 3)
    home = learn([*others, *own_walks[:_FEW]], _CONFIG, places=house.places, prior=prior).file
    own = learn(own_walks, _CONFIG, places=house.places, prior=prior).file
    newcomer = home.of_resident("new")
    return HomeFigures(
        seed,
        nll_per_step(newcomer, held_out),
        nll_per_step(home, held_out),
        nll_per_step(own, held_out),
        _off(newcomer, house, alike),
        _off(own, house, alike),
        *_apart(house, book, (ada, ben), seed, prior),
        *_with_and_without(house, book, new, seed, prior),
    )


def _with_and_without(
    house: House, book: RouteBook, person: Resident, seed: int, prior: FreeWalkerPrior
) -> tuple[float, ...]:
    """NLL per step of later walks, of models of the first 10 and 160 walks, with the prior and without each."""
    days = [w.walk for w in simulate_resident(house, person, walks=_OWN + _HELD_OUT, seed=seed, book=book)]
    later = days[_OWN:]
    alone = replace(_CONFIG, use_prior=False)
    return tuple(
        nll_per_step(learn(days[:count], config, places=house.places, prior=prior).file, later)
        for count in (_FEW_IN_NEW_HOME, _OWN)
        for config in (_CONFIG, alone)
    )


def _apart(
    house: House, book: RouteBook, people: Sequence[Resident], seed: int, prior: FreeWalkerPrior
) -> tuple[float, float]:
    """How far the shares of two residents with habits of their own are from these; and if taken for one."""
    count = len(house.places) - 1
    rng = np.random.default_rng([seed, 11])
    habits = [rng.dirichlet(np.ones(count)) for _ in people]
    walks = [
        w
        for i, (person, own) in enumerate(zip(people, habits, strict=True))
        for w in _walks(house, book, person, _OTHERS, own, seed + 4, i)
    ]
    file = learn(walks, _CONFIG, places=house.places, prior=prior).file
    own = [_off(file.of_resident(p.name), house, h) for p, h in zip(people, habits, strict=True)]
    return float(np.mean(own)), float(np.mean([_off(file, house, h) for h in habits]))


def _walks(
    house: House, book: RouteBook, resident: Resident, count: int, shares: Array, seed: int, person: int = 0
) -> list[Walk]:
    """Walks from the couch from nine in the morning on, as near to these shares as whole walks are, in random order.

    The order depends on ``person``: residents who went to the same places at the same minutes would have habits by the
    hour that nobody gave them.
    """
    rng = np.random.default_rng([seed, 7, person])
    targets = [name for name in house.places.names if name != ANCHOR]
    each = np.floor(count * shares).astype(int)
    rest = np.argsort(each - count * shares)[: count - int(each.sum())]
    each[rest] += 1
    order = rng.permutation(np.repeat(np.arange(len(targets)), each))
    begin = parse_local_time(f"{_HABITS.first_day}T09:00", _HABITS.time_zone)
    trips = [Trip(ANCHOR, targets[k], begin + i * _GAP_NS) for i, k in enumerate(order)]
    return [w.walk for w in walk_all(book, trips, resident.walker, rng, None, resident.style, resident.name)]


def _off(file: WalkModelFile, house: House, shares: Array) -> float:
    """Total variation between the forecast from the couch at ten and true shares; ends in no place are left out."""
    couch = next(p for p in house.places if p.name == ANCHOR)
    stamp_ns = parse_local_time(f"{_HABITS.first_day}T10:00", _HABITS.time_zone)
    found = Forecaster(file, house.places).forecast((couch.x, couch.y), stamp_ns, samples=_SAMPLES).shares
    each = np.array([found[name] for name in house.places.names if name != ANCHOR])
    return float(0.5 * np.abs(each / each.sum() - shares).sum())


if __name__ == "__main__":
    sys.exit(main())
