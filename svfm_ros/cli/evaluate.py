"""Score a model on walks it never saw.

WALKS is a walk store, a CSV file (walk_id,t,x,y) or recordings of scans. Walks that the model was learnt from are not
scored. Where there are no others, as with the walks that were given to svfm train, a model is learnt without a fifth of
them, in the same way, and scored on that fifth. Each walk is forecast from its own start at its own time; a walk that
has ended stays where it ended. Recordings are aligned to the walks that svfm train kept (--store, or MODEL with
the ending .walks), or to --map.

for example:
  svfm evaluate --model out/model.pt out/walks.csv
  svfm evaluate --model out/model.pt out/next_week.csv --json
  svfm evaluate --model out/model.pt sunday.mcap --png out/calibration.png

NLL: nats per step, lower is better. Share TV: half the sum of differences between forecast and real shares of the
places, 0 to 1. Energy distance: forecast paths to real paths, metres, 0 when they agree. Coverage: how often the 50 %
and 90 % regions hold the truth; --png draws it for regions of every size. minADE20 and minFDE20: the best of 20 paths,
mean and final distance, metres.
"""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.atomic_files import writing
from svfm_ros.cli.output import add_json_argument, check_picture, print_json, print_refused, print_table, seed
from svfm_ros.errors import UsageError
from svfm_ros.pipeline.model_input import forecaster_of
from svfm_ros.pipeline.walk_input import (
    WalkInput,
    align_to_house,
    read_walks,
    recordings_of,
    store_beside,
)
from svfm_ros.progress import progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.types import Walk

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm evaluate``."""
    parser.add_argument(
        "walks", type=Path, nargs="+", metavar="WALKS", help="walk store or CSV file, or recordings of scans"
    )
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL", help="made by svfm train")
    parser.add_argument("--places", type=Path, metavar="FILE", help="named places (YAML) instead of the model's")
    parser.add_argument("--map", type=Path, metavar="FILE", help="map of the house (map_server YAML)")
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="walks whose frame recordings belong to (MODEL.walks)"
    )
    parser.add_argument("--resident", metavar="R", help="whose walks, where there are several people's")
    parser.add_argument("--samples", type=int, default=200, metavar="N", help="sampled paths per walk (200)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the samples (0)")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw how often the regions hold the truth")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Forecast every walk and compare."""
    import numpy as np

    from svfm_ros.forecasting.model_file import load_walk_model
    from svfm_ros.pipeline.evaluation import BEST_OF, evaluate_forecasts
    from svfm_ros.pipeline.learn import scored_on_unseen

    check_picture(args.png)
    if args.samples < BEST_OF:
        raise UsageError(f"expected at least {BEST_OF} samples, got {args.samples}")
    file = load_walk_model(args.model)
    given = _given(args)
    given.check_frame(file.frame)
    known = args.resident in file.residents.names
    scored = scored_on_unseen(file.of_resident(args.resident) if known else file, given.walks, others=given.others)
    forecaster = _forecaster(args, scored.file)
    with progress() as bar:
        task = bar.add_task("forecasting", total=None, note="")
        found = evaluate_forecasts(
            forecaster, scored, args.seed, lambda done, of: bar.update(task, completed=done, total=of)
        )
    if args.png is not None:
        _draw(args.png, np.concatenate(found.levels), f"{found.walks} walks, model {forecaster.model_id}")
    figures = {
        "walks_trained_on": len(given.walks) - len(scored.unseen),
        "samples": args.samples,
        "refused": [{"name": r.name, "reason": r.reason} for r in given.refused],
        **{f.name: getattr(found, f.name) for f in fields(found) if f.name != "levels"},
        "changes": _changes(forecaster, given.walks),
        "model_id": file.model_id,
    }
    _report(args, figures)
    return 0


def _changes(forecaster: "Forecaster", walks: "list[Walk]") -> list[str]:
    """What is new from which day on, such as *from 3 November mostly study at 16:00*."""
    from svfm_ros.report.habit_changes import change_days, describe_changes
    from svfm_ros.report.walk_table import walk_table

    places = forecaster.places
    table = walk_table(walks, places, forecaster.config.place_reach_m, forecaster.file.time_zone)
    days = change_days(table, len(places))
    return [change.text(places.names) for change in describe_changes(table, len(places), days)]


def _forecaster(args: argparse.Namespace, file: "WalkModelFile") -> "Forecaster":
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.mapio import load_map
    from svfm_ros.walks.places import load_places

    config = ForecastConfig(samples=args.samples, seed=args.seed)
    grid = None if args.map is None else load_map(args.map)
    places = None if args.places is None else load_places(args.places)
    return forecaster_of(file, config, places, grid)


def _given(args: argparse.Namespace) -> WalkInput:
    recordings = recordings_of(args.walks)
    if recordings is None:
        return read_walks(args.walks[0], args.resident)
    given = align_to_house(recordings, args.store or store_beside(args.model), args.resident, args.map)
    print_refused(given.refused)
    return given


def _draw(path: Path, levels: "NDArray[np.float64]", title: str) -> None:
    from svfm_ros.figures.forecast_figure import draw_calibration

    with writing(path):
        draw_calibration(path, levels, title)


_ROWS = {
    "coverage_50": ("coverage of the 50 % region", "50 % when forecasts are right"),
    "coverage_90": ("coverage of the 90 % region", "90 % when forecasts are right; less: too sure"),
    "share_tv": ("endpoint share TV", "0: places as often as forecast; 1: never"),
    "destination_log_loss": ("destination log loss (nats)", "surprise at the place reached; 0: none"),
    "nll_per_step": ("NLL per step (nats)", "surprise at each step; lower is better"),
    "energy_distance_m": ("energy distance (m)", "forecast to real paths; 0 when they agree"),
    "min_ade20_m": ("minADE20 (m)", "best of 20 paths, mean distance"),
    "min_fde20_m": ("minFDE20 (m)", "best of 20 paths, distance at the end"),
    "entropy": ("mean entropy (nats)", "how open the forecasts were; 0: certain"),
    "unfamiliar": ("off their habits", "mean probability that a walk follows no habit"),
    "walks": ("walks scored", ""),
    "walks_trained_on": ("not scored: learnt from", ""),
    "walks_with_gaps": ("in the NLL only: gaps", ""),
    "unknown_starts": ("starts far from any walk", ""),
}


def _report(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    from svfm_ros.report.summary import calibration_words

    if args.json:
        print_json({"model": str(args.model), "input": " ".join(str(path) for path in args.walks), **figures})
        return
    rows = [(name, "-" if figures[key] is None else figures[key], means) for key, (name, means) in _ROWS.items()]
    print(calibration_words(figures["coverage_50"], figures["coverage_90"], figures["walks"]))
    if figures["relearnt"]:
        print("All these walks were learnt from: scored is a model learnt in the same way without a fifth of them.")
    for text in figures["changes"]:
        print(f"Habits changed: {text}.")
    given = str(args.walks[0]) + (f" and {len(args.walks) - 1} more" if len(args.walks) > 1 else "")
    print_table(f"model {figures['model_id']} on {given}", ("figure", "value", "meaning"), rows)
    if args.png is not None:
        print(f"{args.png}: calibration drawn")
