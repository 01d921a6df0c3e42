"""Forecasts on simulated walks: ours and all comparators, from ground truth and through bag, SLAM and alignment.

Every forecaster learns the same N walks from the couch and is asked about the same walks it never saw, from their
starts; sampled paths are scored alike. *NLL/step* is that of whole walks under a forecaster's own density, *NLL ahead*
that of positions under a kernel density of the sampled ones. The paper's models are trained as in the paper, with as
much processor time as ours took. Then, for ours alone (``_forecast_ours``): what the walk so far is worth, day and
night, walls, and learning more walks later. A walk that has ended stays where it ended. Bars are those of the design;
what misses one is printed as a miss.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from benchlib.comparators import (
    Bootstrap,
    ConstantVelocity,
    Forecaster,
    PathLikelihood,
    flattened,
    kernel_density,
)
from benchlib.forecast_home import TICKS, Home, make_home, record, say, training, windows
from benchlib.forecast_ours import day_and_night, going_on, unfolding
from benchlib.forecast_scores import Scores, ask_from_start, score
from benchlib.paper_forecasters import paper_forecasters
from benchlib.step_density import own_nll

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.forecast_config import PathTrainConfig
from svfm_ros.forecasting.scores import energy_distance
from svfm_ros.targets import Check, at_least, at_most, within
from svfm_ros.types import WalkWindows

_SEED = 8100  # of everything here; no test and no tuning uses it
_HELD_OUT = 100  # walks to each target that nobody learns from: coverage is then known to within two or three points


@dataclass
class Book:
    """What was found so far."""

    config: PathTrainConfig
    quiet: bool
    checks: list[Check] = field(default_factory=list)
    payload: dict[str, Any] = field(default_factory=dict)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 walks only, short trainings, nothing through SLAM")
    parser.add_argument("--seed", type=int, default=_SEED, help=f"of the walks ({_SEED})")
    parser.add_argument("--walks", type=int, nargs="+", help="numbers of training walks (10 40 160)")
    parser.add_argument("--no-slam", action="store_true", help="from ground truth alone")
    parser.add_argument("--night-seeds", type=int, default=3, help="trainings for day and night (3)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    counts = args.walks or ([40] if args.quick else [10, 40, 160])
    book = Book(PathTrainConfig(steps=100) if args.quick else PathTrainConfig(), args.json)
    book.payload["seed"] = args.seed
    home = make_home(args.seed, 20 if args.quick else _HELD_OUT)
    for count in counts:
        say(f"{count} walks")
        _from_truth(book, home, windows(training(home, args.seed + 1, count)), count)
    if not (args.quick or args.no_slam):
        _through_slam(book, home, args.seed + 1, counts)
    usual = min(counts, key=lambda c: abs(c - 40))
    unfolding(home, args.seed + 1, usual, book.config, book.checks, book.payload)
    nights = 1 if args.quick else args.night_seeds
    day_and_night(home, args.seed + 2, 160, nights, book.config, book.checks, book.payload)
    going_on(home, args.seed + 3, book.config, book.checks, book.payload)
    return report("forecasts against their bars", book.checks, book.payload, args.json)


def _from_truth(book: Book, home: Home, train: WalkWindows, count: int) -> None:
    """All forecasters on the same walks, and ours against the bars."""
    ours = _judged(PathLikelihood(config=book.config), home, train)
    others = (*_simple(), *paper_forecasters(TICKS, ours.fit_s))
    rows = [ours, *(_judged(other, home, train) for other in others)]
    _note(book, f"{count} walks, ground truth", count, rows, _floors(home, train))


def _through_slam(book: Book, home: Home, seed: int, counts: Sequence[int]) -> None:
    """The same walks as bags, through SLAM and alignment, judged by true walks; and ours on them without SLAM."""
    say(f"SLAM on {max(counts)} recordings")
    recorded = record(home, seed, max(counts))
    share = len(recorded.placed) / len(recorded.walks)
    book.checks.append(at_least("through SLAM: share of the walks placed", share, 0.99))
    book.payload["slam"] = {
        "walks": len(recorded.walks),
        "placed": len(recorded.placed),
        "off_m": recorded.off_m,
        "cpu_s": recorded.cpu_s,
        "refused": [asdict(r) for r in recorded.refused],
    }
    for count in counts:
        train, true = recorded.of(training(home, seed, count))
        ours = PathLikelihood(config=book.config)
        rows = [_judged(forecaster, recorded.home, train) for forecaster in (ours, *_simple())]
        without = PathLikelihood("(ours, the same walks without SLAM)", config=book.config)
        reference = _judged(without, recorded.home, true)
        floors = _floors(recorded.home, train)
        _note(book, f"{count} walks, through SLAM", count, rows, floors, reference)


def _simple() -> tuple[Forecaster, ...]:
    return ConstantVelocity(), kernel_density(), Bootstrap()


def _judged(forecaster: Forecaster, home: Home, train: WalkWindows) -> Scores:
    """Learn, be asked, be scored."""
    began = time.process_time()
    forecaster.fit(train)
    fit_s = time.process_time() - began
    found = score(forecaster, ask_from_start(home.held_out, TICKS), fit_s, home.house.places)
    return replace(found, own_nll=own_nll(forecaster, train, home.held_out))


def _floors(home: Home, train: WalkWindows) -> dict[str, float]:
    """Energy distance of the training walks themselves (the bar), and of two independent held-out sets (the floor)."""
    held_out = flattened(home.held_out, TICKS)
    return {
        "replay_energy_m": energy_distance(flattened(train, TICKS), held_out, replay=True),
        "floor_energy_m": energy_distance(held_out[::2], held_out[1::2]),
    }


def _note(
    book: Book,
    title: str,
    count: int,
    rows: Sequence[Scores],
    floors: dict[str, float],
    without_slam: Scores | None = None,
) -> None:
    """One table: kept, printed, held against the bars."""
    shown, cost = list(rows), {}
    if without_slam is not None:
        shown.append(without_slam)
        compared = ("energy_m", "own_nll", "nll", "share_tv")
        cost = {f"cost_{c}": getattr(rows[0], c) - getattr(without_slam, c) for c in compared}
    book.payload[title] = {"scores": [asdict(r) for r in shown], **floors, **cost}
    book.checks += _bars(title, count, rows, floors)
    if not book.quiet:
        costs = ", ".join(f"{name[5:]} {value:+.3f}" for name, value in cost.items())
        _print(f"{title}; what SLAM costs: {costs}" if cost else title, shown, floors)


_COLUMNS = {
    "energy_m": "energy m",
    "own_nll": "NLL/step",
    "nll": "NLL ahead",
    "share_tv": "share TV",
    "coverage_50": "cov 50",
    "coverage_90": "cov 90",
    "min_ade20_m": "minADE20",
    "min_fde20_m": "minFDE20",
    "fit_s": "train s",
    "ask_ms": "ask ms",
}


def _print(title: str, rows: Sequence[Scores], floors: dict[str, float]) -> None:
    table = [(r.name, *(round(getattr(r, c), 3) for c in _COLUMNS)) for r in rows]
    for name, floor in (("(the training walks themselves)", "replay"), ("(two held-out sets)", "floor")):
        table.append((name, round(floors[f"{floor}_energy_m"], 3), *[""] * (len(_COLUMNS) - 1)))
    print_table(title, ("forecaster", *_COLUMNS.values()), table)


def _bars(title: str, count: int, rows: Sequence[Scores], floors: dict[str, float]) -> list[Check]:
    ours, others = rows[0], rows[1:]
    checks = [
        at_most(f"{title}: NLL per step, ours minus the best comparator's", ours.own_nll - _best(others), 0.0),
    ]
    if count < 40:
        return checks  # the bars below are set for 40 walks and more
    checks += [
        at_most(f"{title}: energy distance, m (bar: replay)", ours.energy_m, round(floors["replay_energy_m"], 4)),
        within(f"{title}: coverage of the 50 % region", ours.coverage_50, 0.5, 0.05),
        within(f"{title}: coverage of the 90 % region", ours.coverage_90, 0.9, 0.05),
    ]
    if count >= 160:
        checks.append(at_most(f"{title}: endpoint shares, total variation", ours.share_tv, 0.05))
    return checks


def _best(others: Sequence[Scores]) -> float:
    return min(o.own_nll for o in others if not np.isnan(o.own_nll))


if __name__ == "__main__":
    sys.exit(main())
