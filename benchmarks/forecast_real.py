"""Forecasts of real people: THÖR, Edinburgh and ETH/UCY, the product beside all comparators and published figures.

*In the scene*: the first 70 % of the tracks (by time) are learnt, later ones are asked about. 8 positions are seen
(3.2 s); 4.8 s ahead are asked for, and 12, 20 and 40 s where at least three people were tracked for that long.
*Leave one scene out* (ETH/UCY, 8 positions seen, 12 asked for, best of 20): the product learns the other scenes,
and so does the free walker that it starts from: the one of the package has seen ETH, Univ and Zara2.

The later 30 % of these sets are for reporting only: nothing is tuned on them. ``--development`` leaves them unread
and splits the first 70 % of the tracks again.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchlib.forecasts.cliff_lhmp import CliffForecaster
from benchlib.forecasts.comparators import ConstantVelocity
from benchlib.forecasts.forecast_scores import QuestionScores, score
from benchlib.forecasts.paper_forecasters import paper_forecasters
from benchlib.forecasts.product import Product, ProductOptions, home_options
from benchlib.forecasts.questions import PathForecaster, QuestionSet, ask_from_within
from benchlib.forecasts.real_walks import DT_S, ETH_UCY, as_windows, load_edinburgh, load_eth_ucy, load_thor
from benchlib.forecasts.replay_comparators import PlaceReplay, WalkerFrameReplay, kernel_density
from benchlib.forecasts.score_table import ahead_or_tied, calibrated, print_scores, records
from benchlib.forecasts.track_pieces import fixed_length, split_by_time

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.errors import SvfmError
from svfm_ros.forecasting.fit.free_walker_fit import learn_prior
from svfm_ros.targets import Check, at_most
from svfm_ros.types import Walk, WalkWindows

NEEDS_DATA = "walks"

_SETS = ("thor", "edinburgh", "hotel", "zara1")
_PAST = 8
_TICKS = (12, 30, 50, 100)  # 4.8, 12, 20 and 40 s
_PEOPLE = 3  # least number of people that a horizon is reported for
_HELD_OUT = 0.3
_TRACKS, _QUESTIONS = 120, 400  # learnt from and asked about, at most
_STRIDE = 5  # positions between two questions about one track
_PAPER_STEPS = 5000  # at most, for each of the paper's models
_SCENE_TRACKS, _SCENE_QUESTIONS = 75, 1000  # learnt from each of the other scenes, asked about the one left out
_LEFT_OUT_ADE_M = {"eth": 0.52, "hotel": 0.14, "univ": 0.29, "zara1": 0.25, "zara2": 0.19}
_PUBLISHED_M = {  # Trajectron++ after its correction of 2021: minADE20, minFDE20
    "eth": (0.67, 1.18),
    "hotel": (0.18, 0.28),
    "univ": (0.30, 0.54),
    "zara1": (0.25, 0.41),
    "zara2": (0.18, 0.32),
}


@dataclass(frozen=True, slots=True)
class _Run:
    """What is to be run."""

    data: Path
    sets: tuple[str, ...]
    scenes: tuple[str, ...]
    ticks: tuple[int, ...]
    options: ProductOptions
    development: bool
    paper_steps: int  # at most, for each of the paper's models; 0 leaves them out
    quiet: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; 1 when a target is missed."""
    run = _arguments(argv)
    torch.set_num_threads(1)
    checks: list[Check] = []
    payload: dict[str, Any] = {}
    try:
        for name in run.sets:
            _in_scene(run, name, checks, payload)
        if run.scenes:
            _leave_scenes_out(run, checks, payload)
    except SvfmError as error:
        print(error, file=sys.stderr)
        return 2
    return report("forecasts of real people", checks, payload, run.quiet)


def _arguments(argv: Sequence[str] | None) -> _Run:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with thor/, eth_ucy/ and tracks.01Aug.txt")
    parser.add_argument("--quick", action="store_true", help="THÖR at 4.8 s and one scene left out, short trainings")
    parser.add_argument("--sets", nargs="*", choices=_SETS, help=f"in the scene ({' '.join(_SETS)})")
    parser.add_argument("--scenes", nargs="*", choices=tuple(ETH_UCY), help=f"left out ({' '.join(ETH_UCY)})")
    parser.add_argument("--ticks", nargs="+", type=int, help="time steps of 0.4 s ahead (12 30 50 100)")
    parser.add_argument("--development", action="store_true", help="only the first 70 %% of the tracks, split again")
    parser.add_argument("--no-paper", action="store_true", help="without the paper's models")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    sets = _SETS[:1] if args.quick else _SETS
    scenes = () if args.development else ("hotel",) if args.quick else tuple(ETH_UCY)
    ticks = _TICKS[:1] if args.quick else _TICKS
    return _Run(
        data=args.data,
        sets=sets if args.sets is None else tuple(args.sets),
        scenes=scenes if args.scenes is None else tuple(args.scenes),
        ticks=ticks if args.ticks is None else tuple(args.ticks),
        options=home_options(),
        development=args.development,
        paper_steps=0 if args.no_paper else 50 if args.quick else _PAPER_STEPS,
        quiet=args.json,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _in_scene(run: _Run, name: str, checks: list[Check], payload: dict[str, Any]) -> None:
    """One set at every horizon that people were tracked for."""
    split = split_by_time(as_windows(_load(run.data, name)), _HELD_OUT)
    if run.development:
        split = split_by_time(split.train, _HELD_OUT)
    train = split.train.select(np.sort(np.argsort(-split.train.start_ns)[:_TRACKS]))  # the latest before the others
    ours = Product(options=run.options)
    fit_s = _fitted(ours, train)[1]
    for ticks in run.ticks:
        title = f"{name}, {ticks * DT_S:g} s ahead"
        asked = _questions(split.held_out, ticks)
        if asked is None:
            _say(f"{title}: left out, fewer than {_PEOPLE} people were tracked for so long")
            continue
        _say(title)
        rows = [score(ours, asked, fit_s), score(ours.free_walker_alone(), asked), score(ours.habits_alone(), asked)]
        rows += _compared(run, train, asked, ticks)
        payload[title] = records(rows)
        checks += ahead_or_tied(title, rows) + calibrated(title, rows[0])
        if not run.quiet:
            print_scores(title, rows)


def _load(folder: Path, name: str) -> list[Walk]:
    if name in ETH_UCY:
        return load_eth_ucy(folder, name)
    return load_thor(folder) if name == "thor" else load_edinburgh(folder)


def _questions(tracks: WalkWindows, ticks: int) -> QuestionSet | None:
    pieces = fixed_length(tracks, _PAST + ticks, _STRIDE)
    if len(set(pieces.walk_ids)) < _PEOPLE:
        return None
    return ask_from_within(pieces, _PAST).at_most(_QUESTIONS)


def _fitted(forecaster: PathForecaster, train: WalkWindows) -> tuple[PathForecaster, float]:
    """The forecaster after learning, and the processor time it took."""
    _say(f"  {forecaster.name}: learning {len(train)} tracks")
    began = time.process_time()
    forecaster.fit(train)
    return forecaster, time.process_time() - began


def _compared(run: _Run, train: WalkWindows, asked: QuestionSet, ticks: int) -> list[QuestionScores]:
    """All comparators on the same questions."""
    simple: tuple[PathForecaster, ...] = (
        ConstantVelocity(),
        WalkerFrameReplay(ticks, _PAST, ends=False),
        WalkerFrameReplay(ticks, _PAST, ends=False, positions=2, name="deviations from straight on, replayed"),
        kernel_density(ticks, _PAST, ends=False),
        PlaceReplay(ticks, _PAST, ends=False),
        CliffForecaster(ticks, _PAST),
    )
    rows = [_scored(forecaster, train, asked) for forecaster in simple]
    pieces = fixed_length(train, ticks + 1, 4)
    if run.paper_steps and len(pieces):
        rows += [_scored(forecaster, pieces, asked) for forecaster in paper_forecasters(ticks, run.paper_steps)]
    return rows


def _scored(forecaster: PathForecaster, train: WalkWindows, asked: QuestionSet) -> QuestionScores:
    fitted, fit_s = _fitted(forecaster, train)
    return score(fitted, asked, fit_s)


def _leave_scenes_out(run: _Run, checks: list[Check], payload: dict[str, Any]) -> None:
    """Best of 20 in scenes that no forecaster has seen, beside published figures."""
    tracks = {scene: as_windows(load_eth_ucy(run.data, scene)) for scene in ETH_UCY}
    table = []
    for scene in run.scenes:
        _say(f"{scene} left out")
        train = _mixed([tracks[s] for s in ETH_UCY if s != scene])
        asked = ask_from_within(fixed_length(tracks[scene], _PAST + 12, 1), _PAST, samples=400).at_most(
            _SCENE_QUESTIONS
        )
        prior = learn_prior([_paths(tracks[s]) for s in ETH_UCY if s != scene])
        ours = Product(options=replace(run.options, prior=prior))
        forecasters = (ours, ConstantVelocity(), WalkerFrameReplay(12, _PAST, ends=False))
        rows = [_scored(forecaster, train, asked) for forecaster in forecasters]
        found = records(rows)
        payload[f"{scene} left out"] = found
        name = f"{scene} left out: minADE20, m (minFDE20 {found[0]['min_fde20_m']:.2f})"
        error = found[0]["min_ade20_m_error"]
        checks.append(at_most(name, found[0]["min_ade20_m"], _LEFT_OUT_ADE_M[scene], error))
        figures = [f"{r['min_ade20_m']:.2f}/{r['min_fde20_m']:.2f}" for r in found]
        table.append((scene, *figures, "{:.2f}/{:.2f}".format(*_PUBLISHED_M[scene])))
        if not run.quiet:
            print_scores(f"{scene} left out, 4.8 s ahead", rows)
    if not run.quiet:
        columns = ("scene left out", "ours", "constant velocity", "walker-frame bootstrap", "Trajectron++ (published)")
        print_table("minADE20/minFDE20, m, leave one scene out", columns, table)


def _paths(windows: WalkWindows) -> list[np.ndarray]:
    """Tracks (T, 2) of at least three positions."""
    return [windows.xy[n, :length] for n, length in enumerate(windows.lengths.tolist()) if length >= 3]


def _mixed(tracks: Sequence[WalkWindows]) -> WalkWindows:
    """Equally many whole tracks of each scene, 100 m apart and away from the origin, so that no place is shared."""
    some = [t.select(np.linspace(0, len(t) - 1, min(_SCENE_TRACKS, len(t))).astype(int)) for t in tracks]
    longest = max(t.xy.shape[1] for t in some)
    ids = tuple(f"{i}-{n}-{name}" for i, t in enumerate(some) for n, name in enumerate(t.walk_ids))
    shifted = [np.pad(t.xy, ((0, 0), (0, longest - t.xy.shape[1]), (0, 0)), mode="edge") for t in some]
    return WalkWindows(
        np.concatenate([xy + np.array([100.0 * (i + 1), 0.0]) for i, xy in enumerate(shifted)]),
        np.concatenate([np.pad(t.valid, ((0, 0), (0, longest - t.valid.shape[1]))) for t in some]),
        DT_S,
        np.concatenate([t.start_ns for t in some]),
        np.concatenate([t.start_hour for t in some]),
        ids,
        ids,
    )


if __name__ == "__main__":
    sys.exit(main())
