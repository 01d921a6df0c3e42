"""SLAM in the simulated houses: a worn LiDAR, all sensor effects on, 40 walks and a free-living hour.

Absolute trajectory error after alignment with the true path of the sensor. Then what a body and a lived-in home bring:
turns at 4 rad/s with a LiDAR of 5.5 Hz, with an IMU and without; people, pets, doors, chairs, windows and mirrors that
change from day to day; a worse LiDAR (180 beams, 5.5 Hz, 6 m, 3 cm of noise, 10 degrees of swing, 30 % of beams lost).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchlib.bodies import LIVED_IN, crowded_share, days, fast_turns, lost_s, tour_of
from benchlib.house_recordings import HOUSES, Worn, living, protocol_walks, tour
from benchlib.slam_memory import peak_mb

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.config.sim_config import WORSE_LIDAR, SimConfig
from svfm_ros.slam.offline import SlamRun, draw_grid, run_slam
from svfm_ros.sources.open_scans import save_scans
from svfm_ros.targets import Check, at_least, at_most


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--houses", nargs="+", default=HOUSES, help="which houses (home bungalow)")
    parser.add_argument("--repeats", type=int, default=10, help="walks per target, four targets (10)")
    parser.add_argument("--minutes", type=float, default=60.0, help="length of free living (60)")
    parser.add_argument("--days", type=int, default=2, help="days per target, four targets, in the lived-in home (2)")
    parser.add_argument("--only-body", action="store_true", help="leave the walks and the hour in the bare house out")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw the maps of free living into this folder")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    checks: list[Check] = []
    payload: dict[str, Any] = {}
    for house in args.houses:
        figures: dict[str, float] = {}
        if not args.only_body:
            figures |= {**_walks(house, args.repeats), **_hour(house, args.minutes, args.pictures)}
            checks += _bare_checks(house, figures)
        body = {**_fast(house), **_lived_in(house, args.days), **_worse(house, args.days)}
        checks += _body_checks(house, body)
        payload[house] = figures | body | {"memory_mb": _memory_mb(house)}
        checks.append(at_most(f"{house}: memory of the whole process, MB", payload[house]["memory_mb"], 150.0))
    if not args.json:
        names = list(next(iter(payload.values())))
        print_table("Simulated houses", ("figure", *payload), [(n, *(p[n] for p in payload.values())) for n in names])
    return report("SLAM in simulated houses", checks, payload, args.json)


def _bare_checks(house: str, figures: dict[str, float]) -> list[Check]:
    return [
        at_most(f"{house}: walks, RMSE, m", figures["walks_rmse_m"], 0.05),
        at_most(f"{house}: walks, RMSE, deg", figures["walks_rmse_deg"], 1.0),
        at_least(f"{house}: walks, share of scans with a pose", figures["walks_placed"], 0.99),
        at_most(f"{house}: free living, RMSE, m", figures["living_rmse_m"], 0.05),
        at_most(f"{house}: free living, RMSE, deg", figures["living_rmse_deg"], 1.0),
        at_least(f"{house}: free living, share of scans with a pose", figures["living_placed"], 0.99),
    ]


def _body_checks(house: str, f: dict[str, float]) -> list[Check]:
    return [
        at_least(f"{house}: turns at 4 rad/s with an IMU, share of scans with a pose", f["fast_imu_placed"], 0.99),
        at_most(f"{house}: turns at 4 rad/s with an IMU, RMSE, m", f["fast_imu_rmse_m"], 0.05),
        at_most(f"{house}: turns at 4 rad/s without an IMU, lost for, s", f["fast_lost_s"], 2.0),
        at_most(f"{house}: turns at 4 rad/s without an IMU, RMSE, m", f["fast_rmse_m"], 0.05),
        at_most(f"{house}: lived-in home, tour, RMSE added, m", f["lived_in_tour_added_m"], 0.02),
        at_most(f"{house}: lived-in home, walks, RMSE added, m", f["lived_in_walks_added_m"], 0.02),
        at_least(f"{house}: lived-in home, share of walks aligned", f["lived_in_placed_share"], 0.99),
        at_most(f"{house}: lived-in home, walks aligned wrongly", f["lived_in_wrong"], 0),
        at_most(f"{house}: worse LiDAR, tour, RMSE, m", f["worse_tour_rmse_m"], 0.10),
        at_most(f"{house}: worse LiDAR, tour, RMSE, deg", f["worse_tour_rmse_deg"], 2.0),
        at_most(f"{house}: worse LiDAR, walks, RMSE, m", f["worse_walks_rmse_m"], 0.10),
        at_most(f"{house}: worse LiDAR, walks, RMSE, deg", f["worse_walks_rmse_deg"], 2.0),
        at_most(f"{house}: worse LiDAR, walks aligned wrongly", f["worse_wrong"], 0),
    ]


def _fast(house: str) -> dict[str, float]:
    """Turns at 4 rad/s on average, 5.5 Hz."""
    figures = {}
    for name, with_imu in (("fast_imu", True), ("fast", False)):
        worn, run = fast_turns(house, with_imu)
        error = worn.error(run.trajectory)
        figures |= {
            f"{name}_placed": len(run.trajectory) / len(worn.scans),
            f"{name}_rmse_m": error.rmse_m,
            f"{name}_rmse_deg": error.rmse_deg,
            f"{name}_lost_s": lost_s(run),
        }
    return figures


def _lived_in(house: str, repeats: int) -> dict[str, float]:
    """The same tour and walks in the bare house and in the lived-in one; each walk on a day of its own."""
    bare, lived_in = SimConfig(), SimConfig(household=LIVED_IN)
    tours = [worn.error(run.trajectory).rmse_m for worn, run in (tour_of(house, c) for c in (bare, lived_in))]
    before, after = (days(house, c, repeats) for c in (bare, lived_in))
    return {
        "lived_in_crowded_share": crowded_share(house),
        "lived_in_tour_rmse_m": tours[1],
        "lived_in_tour_added_m": tours[1] - tours[0],
        "lived_in_walks_rmse_m": after.rmse_m,
        "lived_in_walks_added_m": after.rmse_m - before.rmse_m,
        "lived_in_placed": float(after.placed),
        "lived_in_placed_share": after.placed / (after.placed + len(after.refused)),
        "lived_in_refused": float(len(after.refused)),
        "lived_in_wrong": float(after.wrong),
        "lived_in_worst_m": after.worst_m,
    }


def _worse(house: str, repeats: int) -> dict[str, float]:
    """The worse LiDAR, without an IMU."""
    config = SimConfig(lidar=WORSE_LIDAR)
    worn, run = tour_of(house, config)
    error, walks = worn.error(run.trajectory), days(house, config, repeats)
    for reason in walks.refused:
        print(f"{house}: worse LiDAR, a walk was refused: {reason}", file=sys.stderr, flush=True)
    return {
        "worse_tour_rmse_m": error.rmse_m,
        "worse_tour_rmse_deg": error.rmse_deg,
        "worse_walks_rmse_m": walks.rmse_m,
        "worse_walks_rmse_deg": walks.rmse_deg,
        "worse_placed": float(walks.placed),
        "worse_refused": float(len(walks.refused)),
        "worse_wrong": float(walks.wrong),
        "worse_worst_m": walks.worst_m,
    }


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


def _memory_mb(house: str) -> float:
    """Of SLAM over a tour that shows the house."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tour.npz"
        save_scans(tour(house).scans, path)
        return peak_mb(path)


def _picture(folder: Path, house: str, worn: Worn, run: SlamRun) -> None:
    from svfm_ros.figures.map_figure import draw_map

    folder.mkdir(parents=True, exist_ok=True)
    grid = draw_grid(worn.scans, run.trajectory)
    draw_map(folder / f"{house}-living.png", grid, run.trajectory.poses, run.loops, f"{house}, free living")


if __name__ == "__main__":
    sys.exit(main())
