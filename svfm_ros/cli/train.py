"""Learn a person's walks.

WALKS is a walk store (the folder that the live pipeline fills), a CSV file with the columns walk_id,t,x,y and, if
wanted, resident (Unix seconds and metres, all in the frame of one house), or recordings of scans: bags, CARMEN logs,
rawlogs, folders of them. The model learns from all walks; its score comes from leaving a fifth of them out at a time.

Recordings go through SLAM, are cut into walks and aligned to the first of them (or to --map); walks whose position in
the house is not certain are refused by name. They are kept in a store (--store, or MODEL with the ending
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

from svfm_ros.atomic_files import check_output, check_output_folder, writing
from svfm_ros.cli.output import add_json_argument, print_json, print_refused, print_table, seed
from svfm_ros.errors import UsageError
from svfm_ros.pipeline.walk_input import (
    WalkInput,
    keep_recordings,
    read_walks,
    recordings_of,
    store_beside,
)
from svfm_ros.progress import progress
from svfm_ros.wording import percent

if TYPE_CHECKING:
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.pipeline.learn import Learned
    from svfm_ros.types import Places

__all__ = ["add_arguments", "run"]

_NO_PRIOR = "none"
_ROOM_BYTES = 16 << 20  # for a model: those of the demonstration take 1 to 4 MB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm train``."""
    parser.add_argument(
        "walks", type=Path, nargs="+", metavar="WALKS", help="walk store or CSV file, or recordings of scans"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL", help="file for the model")
    parser.add_argument("--store", type=Path, metavar="DIR", help="where walks of recordings are kept (MODEL.walks)")
    parser.add_argument("--map", type=Path, metavar="FILE", help="map to align recordings to (map_server YAML)")
    parser.add_argument("--places", type=Path, metavar="FILE", help="named places (YAML); others are found")
    parser.add_argument("--time-zone", metavar="Z", help="zone of the home, such as Europe/London (UTC)")
    parser.add_argument(
        "--resident", metavar="R", help="learn from this person's walks alone (one model for all residents)"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of everything random (0)")
    parser.add_argument(
        "--prior",
        metavar="FILE",
        help="made by svfm prior, or none: start from these walks alone (the prior of this package)",
    )
    parser.add_argument(
        "--continue-from",
        type=Path,
        metavar="MODEL",
        help="go on from this model: its walks are kept, new ones are added",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Read, learn, write."""
    from svfm_ros.forecasting.model_file import save_walk_model

    check_output(args.out, _ROOM_BYTES, args.walks)
    given = _given(args)
    old = _old_model(args, given)
    learned = _learn(args, given, old)
    with writing(args.out):
        save_walk_model(args.out, learned.file)
    _report(args, _figures(given, learned, old))
    return 0


def _given(args: argparse.Namespace) -> WalkInput:
    recordings = recordings_of(args.walks)
    if recordings is None:
        return read_walks(args.walks[0], args.resident, several=True)
    store = args.store or store_beside(args.out)
    check_output_folder(store)
    given = keep_recordings(recordings, store, args.resident, args.map)
    print_refused(given.refused)
    return given


def _old_model(args: argparse.Namespace, given: WalkInput) -> "WalkModelFile | None":
    from svfm_ros.forecasting.model_file import load_walk_model

    if args.continue_from is None:
        return None
    old = load_walk_model(args.continue_from)
    given.check_frame(old.frame)
    if args.time_zone not in (None, old.time_zone):
        raise UsageError(f"expected the model's time zone {old.time_zone!r}, got {args.time_zone!r}")
    return old


def _learn(args: argparse.Namespace, given: WalkInput, old: "WalkModelFile | None") -> "Learned":
    from svfm_ros.config.forecast_config import WalkTrainConfig
    from svfm_ros.config.walk_config import WindowsConfig
    from svfm_ros.forecasting.free_walker import FreeWalkerPrior
    from svfm_ros.pipeline.learn import LearnConfig, learn

    config = LearnConfig(
        windows=WindowsConfig(time_zone=args.time_zone or WindowsConfig().time_zone),
        train=WalkTrainConfig(seed=args.seed),
        use_prior=args.prior != _NO_PRIOR,
    )
    prior = None if args.prior in (None, _NO_PRIOR) else FreeWalkerPrior.load(Path(args.prior))
    with progress() as bar:
        task = bar.add_task("training", total=None, note="")
        return learn(
            given.walks,
            config,
            places=_named(args),
            frame=given.frame or "map",
            go_on_from=old,
            prior=prior,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _named(args: argparse.Namespace) -> "Places | None":
    from svfm_ros.walks.places import load_places, places_file

    file = places_file(args.places, args.map)
    return load_places(file) if file else None


def _figures(given: WalkInput, learned: "Learned", old: "WalkModelFile | None") -> dict[str, Any]:
    from svfm_ros.pipeline.learn import change_date

    file, changed = learned.file, change_date(learned.file.metrics)
    return {
        "walks": learned.walks,
        "walks_new": learned.new_walks,
        "walks_unplaced": given.not_aligned,
        "refused": [{"name": r.name, "reason": r.reason} for r in given.refused],
        "fields": file.model.components,
        "held_out_nll": learned.left_out_nll,
        "held_out_nll_before": None if old is None else old.metrics.get("held_out_nll"),
        "free_share": file.metrics["free_share"],
        "change": None if changed is None else str(changed),
        "residents": list(file.residents.names),
        "places": [p["name"] for p in file.metrics["places"]],
        "seconds": learned.seconds,
        "time_zone": file.time_zone,
        "frame": file.frame,
        "model_id": file.model_id,
    }


def _report(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    if args.json:
        print_json({**figures, "model": str(args.out)})
        return
    before = figures["held_out_nll_before"]
    nll = f"{figures['held_out_nll']:.3f} nats per step" + ("" if before is None else f" (before: {before:.3f})")
    rows = [
        ("walks", f"{figures['walks']}, {figures['walks_new']} of them new"),
        *(
            [("left out", f"{figures['walks_unplaced']} not aligned with the house")]
            if figures["walks_unplaced"]
            else []
        ),
        *([("residents", ", ".join(figures["residents"]))] if len(figures["residents"]) > 1 else []),
        ("fields", figures["fields"]),
        ("places", ", ".join(figures["places"]) or "none found"),
        ("NLL of walks left out", nll),
        ("off their habits", f"{percent(figures['free_share'])} of the way"),
        *([("habits changed", f"about {figures['change']}")] if figures["change"] else []),
        ("took", f"{figures['seconds']:.1f} s"),
        ("model", f"{args.out} ({figures['model_id']})"),
    ]
    title = str(args.walks[0]) + (f" and {len(args.walks) - 1} more" if len(args.walks) > 1 else "")
    print_table(title, ("what", "value"), rows)
