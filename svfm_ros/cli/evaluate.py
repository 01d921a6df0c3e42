"""Score a model on walks it never saw.

WALKS is a walk store, a CSV file (walk_id,t,x,y) or recordings of scans. Walks that the model was learnt from are not
scored. Where there are no others, as with the walks that were given to svfm train, a model is learnt without a fifth of
them, in the same way, and scored on that fifth. Each walk is forecast from its own start at its own time; a walk that
has ended stays where it ended. Recordings are laid into the frame of the walks that svfm train kept (--store, or
MODEL with the ending .walks), or onto --map.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.cli.output import add_json_argument, print_json, print_refused, print_table
from svfm_ros.errors import DataError, UsageError
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
    from svfm_ros.pipeline.learn import Scored
    from svfm_ros.types import Forecast, Walk, WalkWindows

__all__ = ["add_arguments", "run"]

_BEST_OF = 20
_POOLED = 2000  # paths in the energy distance: their distances to each other must fit into memory


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whole walks on the model's tick and a forecast from the start of each."""

    paths: "NDArray[np.float64]"  # (N, K, 2)
    lengths: "NDArray[np.int64]"  # (N,), positions until the walk ends or the forecast does
    forecasts: "list[Forecast]"
    ends: list[str]  # place each walk really ends at


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
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the samples (0)")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw how often the regions hold the truth")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Forecast every walk and compare."""
    from svfm_ros.forecasting.model_file import load_walk_model
    from svfm_ros.pipeline.learn import scored_on_unseen

    _check_picture(args.png)
    if args.samples < _BEST_OF:
        raise UsageError(f"expected at least {_BEST_OF} samples, got {args.samples}")
    file = load_walk_model(args.model)
    given = _given(args)
    if given.frame not in (None, file.frame):
        raise DataError(f"expected walks in the model's frame {file.frame!r}, got {given.frame!r}")
    scored = scored_on_unseen(file, given.walks)
    forecaster = _forecaster(args, scored.file)
    windows = _windows(scored.unseen, scored.file)
    asked = _ask(forecaster, windows, args.seed)
    levels = _levels(asked)
    if args.png is not None:
        _draw(args.png, levels, f"{len(asked.forecasts)} walks, model {forecaster.model_id}")
    figures = {
        "walks": len(asked.forecasts),
        "walks_trained_on": len(given.walks) - len(scored.unseen),
        "walks_with_gaps": len(set(windows.walk_ids)) - len(asked.forecasts),
        "unknown_starts": sum(not f.known for f in asked.forecasts),
        "samples": args.samples,
        "refused": [{"name": r.name, "reason": r.reason} for r in given.refused],
        **_scores(scored, asked, levels),
        "unfamiliar": _unfamiliar(forecaster, scored.unseen),
        "relearnt": scored.relearnt,
        "model_id": file.model_id,
    }
    _report(args, figures)
    return 0


def _forecaster(args: argparse.Namespace, file: "WalkModelFile") -> "Forecaster":
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.mapio import load_map

    config = ForecastConfig(samples=args.samples, seed=args.seed)
    grid = None if args.map is None else load_map(args.map)
    return forecaster_of(file, config, args.places, grid)


def _given(args: argparse.Namespace) -> WalkInput:
    recordings = recordings_of(args.walks)
    if recordings is None:
        return read_walks(args.walks[0], args.resident)
    given = align_to_house(recordings, args.store or store_beside(args.model), args.resident, args.map)
    print_refused(given.refused)
    return given


def _windows(unseen: "list[Walk]", file: "WalkModelFile") -> "WalkWindows":
    from svfm_ros.config.walk_config import WindowsConfig
    from svfm_ros.walks.windows import make_windows

    config = WindowsConfig(dt_s=file.model.dt_s, time_zone=file.time_zone)
    windows = make_windows(unseen, config, file.frame)
    if not len(windows):
        raise DataError(f"expected walks of at least two steps of {file.model.dt_s} s, got none")
    return windows


def _ask(forecaster: "Forecaster", windows: "WalkWindows", seed: int) -> _Asked:
    """A forecast for each walk without gaps: the pieces of a split one neither start nor end where it did."""
    from collections import Counter

    import numpy as np

    pieces = Counter(windows.walk_ids)
    whole = windows.select(np.array([pieces[name] == 1 for name in windows.walk_ids], dtype=np.bool_))
    if not len(whole):
        raise DataError("expected walks without gaps, got none")
    most = round(forecaster.config.longest_s / whole.dt_s)
    ticks = min(int(whole.lengths.max()) - 1, most)
    found = []
    with progress() as bar:
        task = bar.add_task("forecasting", total=len(whole), note="")
        for n, (path, stamp_ns) in enumerate(zip(whole.xy, whole.start_ns.tolist(), strict=True)):
            found.append(forecaster.forecast(path[0], stamp_ns, horizon_s=ticks * whole.dt_s, seed=seed + n))
            bar.advance(task)
    names = (*forecaster.places.names, forecaster.config.elsewhere)
    ends = [names[i] for i in forecaster.places.assign(whole.end_xy).tolist()]
    return _Asked(whole.xy[:, : ticks + 1], np.minimum(whole.lengths, ticks + 1), found, ends)


def _check_picture(path: Path | None) -> None:
    """Before the work, not after it."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise UsageError(f"expected a file that ends in .png after --png, got {path}")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {path.parent}: {error.strerror}") from error


def _levels(asked: _Asked) -> "NDArray[np.float64]":
    """Where the truth lies in each forecast, all walks and times together."""
    import numpy as np

    from svfm_ros.forecasting.scores import region_levels

    return np.concatenate(_per_walk(asked, lambda paths, truth: region_levels(paths[:, 1:], truth[1:])))


def _draw(path: Path, levels: "NDArray[np.float64]", title: str) -> None:
    from svfm_ros.figures.calibration_figure import draw_calibration

    try:
        draw_calibration(path, levels, title)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _scores(scored: "Scored", asked: _Asked, levels: "NDArray[np.float64]") -> dict[str, float | None]:
    import numpy as np

    from svfm_ros.forecasting import scores
    from svfm_ros.pipeline.learn import nll_per_step

    shares = [f.shares for f in asked.forecasts]
    known = [f.entropy for f in asked.forecasts if f.entropy is not None]
    mean_shares = {name: float(np.mean([s[name] for s in shares])) for name in shares[0]}
    best = _per_walk(asked, lambda paths, truth: scores.min_displacement(paths[:_BEST_OF, 1:], truth[1:]))
    return {
        "nll_per_step": nll_per_step(scored.file, scored.unseen),
        "share_tv": scores.total_variation(mean_shares, scores.shares_of(asked.ends)),
        "destination_log_loss": scores.destination_log_loss(shares, asked.ends),
        "energy_distance_m": _energy_distance(asked),
        "coverage_50": scores.coverage(levels, 0.5),
        "coverage_90": scores.coverage(levels, 0.9),
        "min_ade20_m": float(np.mean([b.min_ade_m for b in best])),
        "min_fde20_m": float(np.mean([b.min_fde_m for b in best])),
        "entropy": float(np.mean(known)) if known else None,
    }


def _unfamiliar(forecaster: "Forecaster", walks: "list[Walk]") -> float | None:
    """Mean probability of being off the habits at the end of each walk."""
    import numpy as np

    found = [p.unfamiliar for walk in walks if (p := forecaster.posterior(walk)) is not None]
    return float(np.mean(found)) if found else None


def _per_walk(asked: _Asked, score: Any) -> list[Any]:
    """A score for each walk, over the time it lasted; the start itself is given, not forecast."""
    triples = zip(asked.forecasts, asked.paths, asked.lengths.tolist(), strict=True)
    return [score(f.samples_xy[:, :length], path[:length]) for f, path, length in triples]


def _energy_distance(asked: _Asked) -> float | None:
    """Over all starts together, equally many paths from each; None where one walk tells nothing about a spread."""
    import numpy as np

    from svfm_ros.forecasting.scores import energy_distance

    if len(asked.paths) < 2:
        return None
    each = max(1, _POOLED // len(asked.paths))
    pooled = np.concatenate([f.samples_xy[:each] for f in asked.forecasts])
    return energy_distance(pooled, asked.paths)


_ROWS = {
    "nll_per_step": "NLL per step (nats)",
    "share_tv": "endpoint share TV",
    "destination_log_loss": "destination log loss (nats)",
    "energy_distance_m": "energy distance (m)",
    "coverage_50": "coverage of the 50 % region",
    "coverage_90": "coverage of the 90 % region",
    "min_ade20_m": "minADE20 (m)",
    "min_fde20_m": "minFDE20 (m)",
    "entropy": "mean entropy (nats)",
    "unfamiliar": "off their habits (mean probability)",
    "walks": "walks scored",
    "walks_trained_on": "not scored: learnt from",
    "walks_with_gaps": "in the NLL only: gaps",
    "unknown_starts": "starts far from any walk",
}


def _report(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    if args.json:
        print_json({"model": str(args.model), "input": " ".join(str(path) for path in args.walks), **figures})
        return
    rows = [(label, "-" if figures[key] is None else figures[key]) for key, label in _ROWS.items()]
    if figures["relearnt"]:
        print("All these walks were learnt from: scored is a model learnt in the same way without a fifth of them.")
    given = str(args.walks[0]) + (f" and {len(args.walks) - 1} more" if len(args.walks) > 1 else "")
    print_table(f"model {figures['model_id']} on {given}", ("figure", "value"), rows)
