"""Say where someone is likely to go from here, at this hour.

X,Y are metres in the frame of the walks. The time is local to the home, in the zone the model was trained with. The
walk so far is a CSV file with one walk (walk_id,t,x,y) that ends at X,Y; it changes the probabilities of the places.
With a map, paths that pass through walls are drawn anew.

for example:
  svfm forecast --model out/model.pt --at 3.2,1.5 --time 2026-11-16T14:00
  svfm forecast --model out/model.pt --at 3.2,1.5 --time 2026-11-16T14:00 --what-if 23:00 --png out/forecast.png
  svfm forecast --model out/model.pt --walk-so-far seen.csv --horizon 5 --json

--json prints one object: times_s (K), samples_xy (S x K x 2), shares (place to probability of ending there), entropy
(nats), walks (how many it rests on), known (false: no walk ever came near, so nothing is known), model_id, resident
(whose habits; null: the home's), and with --what-if the same for that hour under what_if. The same seed gives the same
forecast.
"""

import argparse
import json
import math
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.atomic_files import writing
from svfm_ros.cli.output import check_picture, print_table, seed
from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.model_input import open_forecaster
from svfm_ros.wording import percent

if TYPE_CHECKING:
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.types import Forecast, OccupancyGrid, Walk

__all__ = ["add_arguments", "run"]

_FARTHEST_M = 1e7  # from the origin: UTM coordinates go up to this
_APART_M = 1.0  # a walk so far that ends farther than this from the start is another walk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm forecast``."""
    # Otherwise the -1.5,2 of "--at -1.5,2" is taken for an option.
    parser._negative_number_matcher = re.compile(r"^-[\d.]+(e\d+)?(,.*)?$")
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL", help="made by svfm train")
    parser.add_argument("--at", metavar="X,Y", help="where they are, metres (the end of the walk so far)")
    parser.add_argument("--walk-so-far", type=Path, metavar="FILE", help="CSV file with the positions seen")
    parser.add_argument("--time", metavar="T", help="such as 2026-11-16T23:00 (the end of the walk so far, or now)")
    parser.add_argument(
        "--resident", metavar="R", help="whose habits, where the model knows several people (the home's)"
    )
    parser.add_argument("--what-if", metavar="HH:MM", help="forecast for this hour, too")
    parser.add_argument("--horizon", type=float, default=10.0, metavar="S", help="how far ahead, seconds (10)")
    parser.add_argument("--samples", type=int, default=200, metavar="N", help="sampled paths (200)")
    parser.add_argument("--places", type=Path, metavar="FILE", help="named places (YAML) instead of the model's")
    parser.add_argument("--map", type=Path, metavar="FILE", help="map of the house (map_server YAML)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the samples (0)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the forecast as one JSON object")
    output.add_argument("--png", type=Path, metavar="FILE", help="draw the forecast")


def run(args: argparse.Namespace) -> int:
    """Forecast once, or twice with a what-if."""
    from svfm_ros.clock import parse_hour
    from svfm_ros.mapio import load_map

    what_if = None if args.what_if is None else parse_hour(args.what_if, "after --what-if")
    check_picture(args.png)
    grid = None if args.map is None else load_map(args.map)
    forecaster = _forecaster(args, grid)
    seen = None if args.walk_so_far is None else _walk_so_far(args.walk_so_far)
    start = _start(args.at, seen)
    stamp_ns = _stamp(args.time, seen, forecaster.file.time_zone)
    hours = (None,) if what_if is None else (None, what_if)
    found = [forecaster.forecast(start, stamp_ns, walk_so_far=seen, what_if_hour=hour) for hour in hours]
    titles = _titles(args, stamp_ns, forecaster.file.time_zone)
    if args.json:
        _print_object(found)
        return 0
    if args.png:
        _draw(args.png, forecaster, grid, found, titles)
    _print_shares(forecaster, found, titles)
    return 0


def _forecaster(args: argparse.Namespace, grid: "OccupancyGrid | None") -> "Forecaster":
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.walks.places import places_file

    # The config's own checks say what a bad horizon, number of samples or seed should have been.
    asked = ForecastConfig(horizon_s=args.horizon, samples=args.samples, seed=args.seed)
    forecaster = open_forecaster(args.model, asked, places_file(args.places, args.map), grid, args.resident)
    if args.resident is not None and forecaster.resident is None:
        known = ", ".join(name or "no name" for name in forecaster.file.residents.names)
        sys.stderr.write(f"{args.resident!r} is not known here (known: {known}): these are the habits of the home.\n")
    return forecaster


def _walk_so_far(path: Path) -> "Walk":
    from svfm_ros.walks.walk_csv import read_walks_csv

    walks = read_walks_csv(path)
    if len(walks) != 1:
        raise DataError(f"{path}: expected one walk, the one under way, got {len(walks)}")
    return walks[0]


def _start(text: str | None, seen: "Walk | None") -> tuple[float, float]:
    if text is None:
        if seen is None:
            raise UsageError("expected where they are: --at X,Y, or --walk-so-far FILE")
        return float(seen.xy[-1, 0]), float(seen.xy[-1, 1])
    x, y = _position(text)
    if seen is not None and (gap := math.hypot(seen.xy[-1, 0] - x, seen.xy[-1, 1] - y)) > _APART_M:
        raise DataError(f"expected a walk so far that ends at {text}, got one that ends {gap:.1f} m from there")
    return x, y


def _position(text: str) -> tuple[float, float]:
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"expected X,Y in metres after --at, such as 3.2,1.5, got {text!r}") from None
    if not (math.isfinite(x) and math.isfinite(y)):
        raise UsageError(f"expected finite numbers after --at, got {text!r}")
    if max(abs(x), abs(y)) > _FARTHEST_M:
        raise UsageError(f"expected numbers up to {_FARTHEST_M:g} metres after --at, got {text!r}")
    return x, y


def _stamp(text: str | None, seen: "Walk | None", zone_name: str) -> int:
    from svfm_ros.clock import parse_local_time

    if text is not None:
        return parse_local_time(text, zone_name)
    return time.time_ns() if seen is None else int(seen.stamps_ns[-1])


def _titles(args: argparse.Namespace, stamp_ns: int, zone_name: str) -> list[str]:
    from svfm_ros.clock import local_text

    now = local_text(stamp_ns, zone_name)
    return [now] if args.what_if is None else [now, f"what if {args.what_if}"]


def _print_object(found: "list[Forecast]") -> None:
    payload = _as_object(found[0])
    if len(found) > 1:
        payload["what_if"] = _as_object(found[1])
    json.dump(payload, sys.stdout)
    sys.stdout.write("\n")


def _as_object(forecast: "Forecast") -> dict[str, Any]:
    return {
        "times_s": forecast.times_s.round(6).tolist(),
        "samples_xy": forecast.samples_xy.astype(float).round(4).tolist(),
        "shares": dict(forecast.shares),
        "entropy": forecast.entropy,
        "walks": forecast.walks,
        "known": forecast.known,
        "unfamiliar": forecast.unfamiliar,
        "model_id": forecast.model_id,
        "resident": forecast.resident,
    }


def _print_shares(forecaster: "Forecaster", found: "list[Forecast]", titles: list[str]) -> None:
    if not found[0].known:
        far = forecaster.config.known_radius_m
        print(f"Unknown: no walk came within {far:g} m of there, or none at about this hour; this is a guess.")
    names = sorted(found[0].shares, key=lambda name: -found[0].shares[name])
    rows: list[tuple[object, ...]] = [(name, *(percent(f.shares[name]) for f in found)) for name in names]
    rows.append(("entropy (nats)", *("unknown" if f.entropy is None else f"{f.entropy:.2f}" for f in found)))
    rows.append(("off their habits", *(percent(f.unfamiliar) for f in found)))
    rows.append(("walks it rests on", *(f.walks for f in found)))
    print_table(f"where they go, by model {forecaster.model_id}", ("place", *titles), rows)


def _draw(
    path: Path, forecaster: "Forecaster", grid: "OccupancyGrid | None", found: "list[Forecast]", titles: list[str]
) -> None:
    from svfm_ros.figures.forecast_figure import draw_forecasts

    with writing(path):
        draw_forecasts(path, grid, found, forecaster.places, titles)
    print(f"{path}: {'the forecast' if len(found) == 1 else 'both forecasts'} drawn")
