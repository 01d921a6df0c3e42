"""SLAM in the simulated houses: a worn LiDAR, all sensor effects on, 40 walks and a free-living hour.

Absolute trajectory error after alignment with the true path of the sensor.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchlib.house_recordings import HOUSES, Worn, living, protocol_walks

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.slam.offline import SlamRun, draw_grid, run_slam
from svfm_ros.targets import Check, at_least, at_most


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--houses", nargs="+", default=HOUSES, help="which houses (home bungalow)")
    parser.add_argument("--repeats", type=int, default=10, help="walks per target, four targets (10)")
    parser.add_argument("--minutes", type=float, default=60.0, help="length of free living (60)")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw the maps of free living into this folder")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    checks: list[Check] = []
    payload: dict[str, Any] = {}
    for house in args.houses:
        figures = {**_walks(house, args.repeats), **_hour(house, args.minutes, args.pictures)}
        payload[house] = figures
        checks += [
            at_most(f"{house}: walks, RMSE, m", figures["walks_rmse_m"], 0.05),
            at_most(f"{house}: walks, RMSE, deg", figures["walks_rmse_deg"], 1.0),
            at_least(f"{house}: walks, share of scans placed", figures["walks_placed"], 0.99),
            at_most(f"{house}: free living, RMSE, m", figures["living_rmse_m"], 0.05),
            at_most(f"{house}: free living, RMSE, deg", figures["living_rmse_deg"], 1.0),
            at_least(f"{house}: free living, share of scans placed", figures["living_placed"], 0.99),
        ]
    if not args.json:
        names = list(next(iter(payload.values())))
        print_table("Simulated houses", ("figure", *payload), [(n, *(p[n] for p in payload.values())) for n in names])
    return report("SLAM in simulated houses", checks, payload, args.json)


def _walks(house: str, repeats: int) -> dict[str, float]:
    errors, placed, scans = [], 0, 0
    begin = time.perf_counter()
    for worn in protocol_walks(house, repeats=repeats):
        run = run_slam(worn.scans)
        errors.append(worn.error(run.trajectory))
        placed += len(run.trajectory)
        scans += len(worn.scans)
    metres, degrees = np.array([e.rmse_m for e in errors]), np.array([e.rmse_deg for e in errors])
    print(f"{house}: {len(errors)} walks in {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return {
        "walks": float(len(errors)),
        "walks_rmse_m": float(np.sqrt(np.mean(metres**2))),
        "walks_rmse_deg": float(np.sqrt(np.mean(degrees**2))),
        "walks_worst_rmse_m": float(metres.max()),
        "walks_worst_rmse_deg": float(degrees.max()),
        "walks_placed": placed / scans,
    }


def _hour(house: str, minutes: float, pictures: Path | None) -> dict[str, float]:
    worn = living(house, minutes)
    run = run_slam(worn.scans)
    error = worn.error(run.trajectory)
    if pictures:
        _picture(pictures, house, worn, run)
    return {
        "living_minutes": minutes,
        "living_rmse_m": error.rmse_m,
        "living_rmse_deg": error.rmse_deg,
        "living_worst_m": error.worst_m,
        "living_placed": len(run.trajectory) / len(worn.scans),
        "living_loops": float(len(run.loops)),
        "living_took_s": run.wall_s,
    }


def _picture(folder: Path, house: str, worn: Worn, run: SlamRun) -> None:
    from svfm_ros.figures.map_figure import draw_map

    folder.mkdir(parents=True, exist_ok=True)
    grid = draw_grid(worn.scans, run.trajectory)
    draw_map(folder / f"{house}-living.png", grid, run.trajectory.poses, run.loops, f"{house}, free living")


if __name__ == "__main__":
    sys.exit(main())
