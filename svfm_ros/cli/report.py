"""Write one page about a person's walks that opens in any browser, offline.

What the walks show in a few sentences; walks a day, night walks, walking speed and wandering index over time beside the
person's own baseline, with the days on which habits changed; weekdays and hours; forecasts on the floor plan with a
slider from day to night; how far the forecasts can be relied on. It prints on A4. Everything is inside the one file; it
holds the person's walks, so treat it as you treat those (docs/privacy.md).

for example:
  svfm report --store out/store --model out/store/model.pt --out report.html
  svfm report --store walks.csv --model model.pt --map maps/house.yaml --out report.html
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.atomic_files import check_output, write_whole, writing
from svfm_ros.cli.output import say
from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.model_input import open_forecaster
from svfm_ros.pipeline.walk_input import read_walks
from svfm_ros.progress import progress

if TYPE_CHECKING:
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.types import OccupancyGrid

__all__ = ["add_arguments", "run"]

_ROOM_BYTES = 8 << 20  # for the page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm report``."""
    parser.add_argument("--store", type=Path, required=True, metavar="WALKS", help="walk store or CSV file")
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL", help="made by svfm train")
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE", help="page to write")
    parser.add_argument("--map", type=Path, metavar="FILE", help="map of the house (map_server YAML)")
    parser.add_argument("--places", type=Path, metavar="FILE", help="named places (YAML) instead of the model's")
    parser.add_argument("--resident", metavar="R", help="whose walks, where there are several people's")


def run(args: argparse.Namespace) -> int:
    """Read walks and model, write the page."""
    from svfm_ros.mapio import load_map
    from svfm_ros.report import gather, render

    check_output(args.out, _ROOM_BYTES, (args.store, args.model))
    if not args.store.exists():
        raise UsageError(f"expected a walk store or a CSV file, got nothing at {args.store}")
    grid = None if args.map is None else load_map(args.map)
    forecaster = _forecaster(args, grid)
    given = read_walks(args.store, args.resident)
    given.check_frame(forecaster.file.frame)
    with progress() as bar:
        task = bar.add_task("report", total=None, note="")
        content = gather(
            forecaster,
            given.walks,
            grid,
            lambda doing: bar.update(task, advance=1, note=doing),
            others=given.others,
        )
    page = render(content)
    with writing(args.out):
        write_whole(args.out, page.encode())
    say(f"{args.out}: {len(given.walks)} walks, {len(page) / 1e6:.1f} MB")
    return 0


def _forecaster(args: argparse.Namespace, grid: "OccupancyGrid | None") -> "Forecaster":
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.walks.places import places_file

    forecaster = open_forecaster(args.model, ForecastConfig(), places_file(args.places, args.map), grid, args.resident)
    if not len(forecaster.places):
        raise DataError(f"{args.model} knows no places: expected some, or a file of them with --places")
    return forecaster
