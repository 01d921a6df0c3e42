"""Learn a person's walks.

WALKS is a walk store (the folder that the live pipeline fills), a CSV file with the columns walk_id,t,x,y and, if
wanted, resident (Unix seconds and metres, all in the frame of one house), or recordings of scans: bags, CARMEN logs,
rawlogs, folders of them. A fifth of the walks is held out to judge the model; which walks those are depends on their
names alone, so they stay held out when more walks come in.

Recordings go through SLAM, are cut into walks and laid into the frame of the first of them (or of --map); walks that
cannot be placed with certainty are refused by name. They are kept in a store (--store, or MODEL with the ending
.walks), and the model learns from all walks of that store: with more recordings another day, the house stays the same.

for example:
  svfm simulate --walks 200 --walks-csv out/walks.csv
  svfm train out/walks.csv --out out/model.pt --time-zone Europe/London
  svfm train out/store --out out/model.pt --continue-from out/model.pt
  svfm train monday.mcap tuesday.mcap --out out/model.pt

The model is one file; it is replaced in one step when training is done, so there is a whole one at any moment.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.cli.output import add_json_argument, print_json, print_refused, print_table
from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.walk_input import (
    TRAINED_ON,
    WalkInput,
    fingerprint,
    keep_recordings,
    read_walks,
    recordings_of,
    store_beside,
)
from svfm_ros.progress import progress

if TYPE_CHECKING:
    from svfm_ros.config.forecast_config import PathTrainConfig
    from svfm_ros.forecasting.fit import PathTrained
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.types import Places, WalkWindows
    from svfm_ros.walks.windows import WalkSplit

__all__ = ["add_arguments", "run"]

_HELD_OUT_SHARE = 0.2
_MORE_STEPS = 100  # enough to take in some new walks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm train``."""
    parser.add_argument(
        "walks", type=Path, nargs="+", metavar="WALKS", help="walk store or CSV file, or recordings of scans"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL", help="file for the model")
    parser.add_argument("--store", type=Path, metavar="DIR", help="where walks of recordings are kept (MODEL.walks)")
    parser.add_argument("--map", type=Path, metavar="FILE", help="map to lay recordings on (map_server YAML)")
    parser.add_argument("--places", type=Path, metavar="FILE", help="named places (YAML); others are found")
    parser.add_argument("--time-zone", metavar="Z", help="zone of the home, such as Europe/London (UTC)")
    parser.add_argument("--resident", metavar="R", help="whose walks, where there are several people's")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="first weights and all that is random (0)")
    parser.add_argument("--steps", type=int, metavar="N", help=f"steps of training (300; {_MORE_STEPS} to go on)")
    parser.add_argument(
        "--continue-from",
        type=Path,
        metavar="MODEL",
        help="go on from this model; WALKS holds the old walks too, or they are forgotten",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Read, train, judge, write."""
    from svfm_ros.forecasting.model_file import save_walk_model

    _check_target(args.out)
    config = _config(args)
    given = _given(args)
    old = _old_model(args, given)
    windows = _windows(args, given, old)
    places = _places(args, given, old)
    split = _split(windows, args.walks[0])
    trained = _train(split, config, old)
    new, figures = _judge(given, split, trained, places, old)
    try:
        save_walk_model(args.out, new)
    except OSError as error:
        raise UsageError(f"cannot write {args.out}: {error.strerror}") from error
    _report(args, figures)
    return 0


def _given(args: argparse.Namespace) -> WalkInput:
    recordings = recordings_of(args.walks)
    if recordings is None:
        return read_walks(args.walks[0], args.resident)
    given = keep_recordings(recordings, args.store or store_beside(args.out), args.resident, args.map)
    print_refused(given.refused)
    return given


def _check_target(path: Path) -> None:
    """Before the work, not after it."""
    if path.is_dir():
        raise UsageError(f"expected a file for the model, got the folder {path}")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {path.parent}: {error.strerror}") from error


def _config(args: argparse.Namespace) -> "PathTrainConfig":
    from svfm_ros.config.forecast_config import PathTrainConfig

    if args.steps is not None:
        return PathTrainConfig(seed=args.seed, steps=args.steps)
    if args.continue_from is not None:
        return PathTrainConfig(seed=args.seed, steps=_MORE_STEPS)
    return PathTrainConfig(seed=args.seed)


def _old_model(args: argparse.Namespace, given: WalkInput) -> "WalkModelFile | None":
    from svfm_ros.forecasting.model_file import load_walk_model

    if args.continue_from is None:
        return None
    old = load_walk_model(args.continue_from)
    if given.frame not in (None, old.frame):
        raise DataError(f"expected walks in the model's frame {old.frame!r}, got {given.frame!r}")
    if args.time_zone not in (None, old.time_zone):
        raise UsageError(f"expected the model's time zone {old.time_zone!r}, got {args.time_zone!r}")
    return old


def _windows(args: argparse.Namespace, given: WalkInput, old: "WalkModelFile | None") -> "WalkWindows":
    from svfm_ros.config.walk_config import WindowsConfig
    from svfm_ros.walks.windows import make_windows

    if old is not None:
        config = WindowsConfig(dt_s=old.model.dt_s, time_zone=old.time_zone)
        return make_windows(given.walks, config, old.frame)
    config = WindowsConfig(time_zone=args.time_zone or WindowsConfig().time_zone)
    return make_windows(given.walks, config, given.frame or "map")


def _places(args: argparse.Namespace, given: WalkInput, old: "WalkModelFile | None") -> "Places":
    """Named places first, then those known before, then new ones."""
    from svfm_ros.forecasting.model_places import places_from
    from svfm_ros.walks.places import find_places_of_walks, load_places

    known = load_places(args.places) if args.places else places_from(old.metrics if old else {})
    return find_places_of_walks(given.walks, known)


def _split(windows: "WalkWindows", path: Path) -> "WalkSplit":
    from svfm_ros.walks.windows import split_by_walk

    count = len(set(windows.walk_ids))
    if count < 2:
        raise DataError(f"{path}: expected two or more walks of at least two steps, got {count}")
    return split_by_walk(windows, _HELD_OUT_SHARE)


def _train(split: "WalkSplit", config: "PathTrainConfig", old: "WalkModelFile | None") -> "PathTrained":
    from svfm_ros.forecasting.fit import as_batch, train_paths

    with progress() as bar:
        task = bar.add_task("training", total=config.steps, note="")

        def tick(step: int, loss: float) -> None:
            bar.update(task, completed=step + 1, note=f"{loss:.3f} nats per step")

        batch = as_batch(split.train)
        return train_paths(batch, split.train.dt_s, config=config, start=old.model if old else None, progress=tick)


def _judge(
    given: WalkInput, split: "WalkSplit", trained: "PathTrained", places: "Places", old: "WalkModelFile | None"
) -> "tuple[WalkModelFile, dict[str, Any]]":
    """The file to write and the figures to tell."""
    from svfm_ros.forecasting.fit import as_batch, held_out_nll
    from svfm_ros.forecasting.model_file import Footprints, WalkModelFile
    from svfm_ros.forecasting.model_places import places_to

    judged = as_batch(split.held_out)
    used = set(split.train.walk_ids)
    figures = {
        "walks": len(used) + len(set(split.held_out.walk_ids)),
        "walks_held_out": len(set(split.held_out.walk_ids)),
        "walks_unplaced": given.unplaced,
        "refused": [{"name": r.name, "reason": r.reason} for r in given.refused],
        "fields": trained.model.config.components,
        "held_out_nll": held_out_nll(trained.model, judged),
        "held_out_nll_before": held_out_nll(old.model, judged) if old else None,
        "training_nll": trained.nll,
        "places": list(places.names),
        "seconds": trained.seconds,
    }
    seen = {fingerprint(w) for w in given.walks if w.walk_id in used} | set(
        old.metrics.get(TRAINED_ON, ()) if old else ()
    )
    metrics = {
        "held_out_nll": figures["held_out_nll"],
        "training_nll": trained.nll,
        "walks_seen": len(given.walks),
        TRAINED_ON: sorted(seen),
        **places_to(places),
    }
    windows = split.train
    new = WalkModelFile(trained.model, Footprints.of(windows), windows.frame, windows.time_zone, metrics)
    return new, {**figures, "time_zone": windows.time_zone, "frame": windows.frame, "model_id": new.model_id}


def _report(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    if args.json:
        print_json({**figures, "model": str(args.out)})
        return
    before = figures["held_out_nll_before"]
    nll = f"{figures['held_out_nll']:.3f} nats per step" + ("" if before is None else f" (before: {before:.3f})")
    rows = [
        ("walks", f"{figures['walks']}, {figures['walks_held_out']} of them held out"),
        *([("left out", f"{figures['walks_unplaced']} not placed in the house")] if figures["walks_unplaced"] else []),
        ("fields", figures["fields"]),
        ("places", ", ".join(figures["places"]) or "none found"),
        ("held-out NLL", nll),
        ("training NLL", f"{figures['training_nll']:.3f} nats per step"),
        ("took", f"{figures['seconds']:.1f} s"),
        ("model", f"{args.out} ({figures['model_id']})"),
    ]
    title = str(args.walks[0]) + (f" and {len(args.walks) - 1} more" if len(args.walks) > 1 else "")
    print_table(title, ("what", "value"), rows)
