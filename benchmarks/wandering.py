"""Routine or wandering? Told apart by the entropy of the forecast, from one week of walks of simulated residents.

Each resident lives a week in the simulated home: people with a routine nearly always go on to the same place from where
they are at that time of the day, people who wander go anywhere at any hour. A model of their own learns the week; the
score of a resident is the mean entropy of the forecasts from the starts of their walks. A second score counts places
only (the entropy of where walks end, whatever the start and the hour): it is what one has without a forecast.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.forecast_config import ForecastConfig, PathTrainConfig
from svfm_ros.config.sim_config import HabitConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.fit import as_batch, train_paths
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import Footprints, WalkModelFile
from svfm_ros.forecasting.scores import entropy, shares_of
from svfm_ros.forecasting.wandering import auc, wandering_index
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.walker import route_book, simulate_days
from svfm_ros.targets import at_least
from svfm_ros.walks.windows import make_windows

_SEED = 8600  # no test and no tuning uses these residents
_STAY_S = 1800.0  # median stay at a place: some 25 walks a day
_STEPS = 100


@dataclass(frozen=True, slots=True)
class Resident:
    """One week of one person."""

    profile: str
    seed: int
    walks: int
    mean: float  # entropy of the forecasts, nats
    low: float
    high: float
    places_only: float  # entropy of the places alone, nats
    fit_s: float


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row per resident; 1 when they cannot be told apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--residents", type=int, default=6, help="of each kind (6)")
    parser.add_argument("--days", type=float, default=7.0, help="walks to learn from (7)")
    parser.add_argument("--seed", type=int, default=_SEED, help=f"of the residents ({_SEED})")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    house = load_house()
    book = route_book(house)
    people = [
        _live(house, book, profile, args.seed + i, args.days)
        for profile in ("routine", "wandering")
        for i in range(args.residents)
    ]
    routine, wandering = ([p for p in people if p.profile == name] for name in ("routine", "wandering"))
    if not args.json:
        rows = [tuple(round(v, 3) if isinstance(v, float) else v for v in asdict(p).values()) for p in people]
        columns = ("resident", "seed", "walks", "entropy", "low", "high", "places only", "train s")
        print_table(f"{args.days:g} days of walks", columns, rows)
    checks = [
        at_least("routine and wandering told apart, AUC", _auc(routine, wandering, "mean"), 0.95),
        at_least("gap between the kinds' means, nats", _gap(routine, wandering), 0.3),
    ]
    payload = {"people": [asdict(p) for p in people], "auc_places_only": _auc(routine, wandering, "places_only")}
    return report("wandering", checks, payload, args.json)


def _auc(routine: Sequence[Resident], wandering: Sequence[Resident], name: str) -> float:
    return auc([getattr(p, name) for p in routine], [getattr(p, name) for p in wandering])


def _gap(routine: Sequence[Resident], wandering: Sequence[Resident]) -> float:
    return float(np.mean([p.mean for p in wandering]) - np.mean([p.mean for p in routine]))


def _live(house: House, book: RouteBook, profile: str, seed: int, days: float) -> Resident:
    """Live, learn, sum up."""
    print(f"{profile} {seed}", file=sys.stderr, flush=True)
    habits = HabitConfig(profile=profile, dwell_s=_STAY_S)
    lived = simulate_days(house, seed=seed, days=days, habits=habits, book=book)
    walks = [w.walk for w in lived]
    windows = make_windows(walks, WindowsConfig(time_zone=habits.time_zone))
    began = time.process_time()
    trained = train_paths(as_batch(windows), windows.dt_s, config=PathTrainConfig(seed=seed, steps=_STEPS))
    fit_s = time.process_time() - began
    file = WalkModelFile(trained.model, Footprints.of(windows), windows.frame, windows.time_zone)
    found = wandering_index(Forecaster(file, house.places, ForecastConfig()), walks)
    low, high = (float("nan") if v is None else v for v in (found.low, found.high))
    alone = entropy(shares_of([w.destination for w in lived]))
    return Resident(profile, seed, len(walks), found.mean, low, high, alone, fit_s)


if __name__ == "__main__":
    sys.exit(main())
