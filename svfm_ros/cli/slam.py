"""Turn a recording of scans into a map and a trajectory.

INPUT is a rosbag2 folder, an .mcap or .db3 file, a ROS 1 .bag, a CARMEN log, an MRPT rawlog or an .npz of scans.
Scans are all that is needed. An IMU and odometry in a bag are used as hints.
With --map the scans are localised in a given map instead.

for example:
  svfm slam out/walks/walk-00000 --out out/map    map and trajectory of one recording
  svfm slam office.log.gz --out out/office --json
  svfm slam out/walks/walk-00001 --map out/map/map.yaml --out out/again

--out holds trajectory.tum (t x y z qx qy qz qw), map.yaml and map.pgm (map_server's format), map.png (map, trajectory,
loop closures) and summary.json.
"""

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.atomic_files import check_output_folder, write_whole, writing
from svfm_ros.cli.output import add_json_argument, print_json, print_table
from svfm_ros.errors import DataError, UsageError, printable
from svfm_ros.progress import progress

if TYPE_CHECKING:
    from svfm_ros.config.slam_config import RasterConfig, SlamConfig
    from svfm_ros.slam.offline import SlamRun
    from svfm_ros.sources import ScanSource
    from svfm_ros.types import OccupancyGrid, Scan

__all__ = ["add_arguments", "run"]

_ROOM_BYTES = 8 << 20  # for map, picture and trajectory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm slam``."""
    parser.add_argument("input", type=Path, metavar="INPUT", help="recording of scans")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the results")
    parser.add_argument("--topic", metavar="NAME", help="which scans, in a bag with several LiDARs")
    parser.add_argument("--map", type=Path, metavar="FILE", help="map.yaml to localise in; no map is made then")
    parser.add_argument("--resolution", type=float, metavar="M", help="side of a map cell in metres (0.05)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="options of SLAM by name, as YAML")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Map a recording and write the results."""
    from svfm_ros.sources import open_scans

    config, raster = _configs(args)
    given = _given_map(args)
    source = open_scans(args.input, args.topic)
    check_output_folder(args.out, _ROOM_BYTES)
    done = _run(source, config, given)
    grid = _draw(source, done, raster) if given is None else given
    summary = _summary(args, source, done, grid, config)
    _write(args.out, done, grid, summary)
    _report(args, source, summary)
    return 0


def _configs(args: argparse.Namespace) -> "tuple[SlamConfig, RasterConfig]":
    from svfm_ros.config.options import load_yaml
    from svfm_ros.config.slam_config import RasterConfig, SlamConfig

    slam = load_yaml(SlamConfig, args.config) if args.config else SlamConfig()
    return slam, RasterConfig(resolution_m=args.resolution) if args.resolution is not None else RasterConfig()


def _given_map(args: argparse.Namespace) -> "OccupancyGrid | None":
    from svfm_ros.mapio import load_map

    if args.map is not None and args.resolution is not None:
        raise UsageError("--resolution is that of a map to be made: it does not go with --map")
    return load_map(args.map) if args.map is not None else None


def _run(source: "ScanSource", config: "SlamConfig", given: "OccupancyGrid | None") -> "SlamRun":
    from svfm_ros.slam.localise import Localiser
    from svfm_ros.slam.offline import run_slam

    localiser = None if given is None else Localiser(given, config)
    with progress() as bar:
        task = bar.add_task("mapping" if given is None else "localising", total=source.count, note="")
        tick = _ticker(lambda note: bar.update(task, advance=1, note=note))
        done = run_slam(source.messages(), config, on_scan=tick, slam=localiser)
    if done.why_no_path:
        what = "no map could be made" if given is None else "no scan could be localised in the map"
        raise DataError(f"{source.path}: {what}: {done.why_no_path}")
    return done


def _ticker(update: Callable[[str], object]) -> "Callable[[Scan, float], None]":
    """Shows how many times faster than real time the mapping runs."""
    first_ns: list[int] = []

    def tick(scan: "Scan", spent_s: float) -> None:
        first_ns[:] = first_ns or [scan.stamp_ns]
        update(f"{(scan.stamp_ns - first_ns[0]) / 1e9 / max(spent_s, 1e-9):.0f} x real time")

    return tick


def _draw(source: "ScanSource", done: "SlamRun", raster: "RasterConfig") -> "OccupancyGrid":
    from svfm_ros.slam.offline import draw_grid

    with progress() as bar:
        task = bar.add_task("drawing", total=source.count, note="")
        scans = done.scans_used(source.messages())
        return draw_grid(_counted(scans, lambda: bar.advance(task)), done.trajectory, raster)


def _counted(scans: "Iterator[Scan]", tick: Callable[[], None]) -> "Iterator[Scan]":
    for scan in scans:
        tick()
        yield scan


def _summary(
    args: argparse.Namespace, source: "ScanSource", done: "SlamRun", grid: "OccupancyGrid", config: "SlamConfig"
) -> dict[str, Any]:
    import numpy as np

    from svfm_ros.config.options import to_mapping

    stamps, poses = done.trajectory.stamps_ns, done.trajectory.poses
    covered_s = float(stamps[-1] - stamps[0]) / 1e9
    height, width = grid.prob.shape
    median, late, worst = (float(v) for v in 1e3 * np.percentile(done.scan_s, [50, 99, 100]))
    return {
        "input": str(args.input),
        "map": None if args.map is None else str(args.map),
        "kind": source.kind,
        "scans": len(done.scan_s),
        "scans_placed": len(poses),
        "scans_left_out": dict(done.reasons),
        "covered_s": covered_s,
        "path_m": float(np.hypot(*np.diff(poses[:, :2], axis=0).T).sum()),
        "map_m": [width * grid.resolution_m, height * grid.resolution_m],
        "loops_found": len(done.loops),
        "loops_believed": sum(loop.accepted for loop in done.loops),
        "took_s": done.wall_s,
        "times_real_time": covered_s / max(done.wall_s, 1e-9),
        "scan_ms": {"median": median, "p99": late, "worst": worst},
        "counters": done.counters,
        "motion": dataclasses.asdict(done.sensors.report()),
        "warnings": list(source.warnings),
        "options": to_mapping(config),
        "out": str(args.out),
    }


def _write(folder: Path, done: "SlamRun", grid: "OccupancyGrid", summary: dict[str, Any]) -> None:
    from svfm_ros.figures.map_figure import draw_map
    from svfm_ros.mapio import save_map
    from svfm_ros.slam.trajectory import save_tum

    with writing(folder / "summary.json"):
        save_tum(folder / "trajectory.tum", done.trajectory.stamps_ns, done.trajectory.poses)
        if summary["map"] is None:
            save_map(grid, folder / "map.yaml")
        draw_map(folder / "map.png", grid, done.trajectory.poses, done.loops, Path(summary["input"]).name)
        write_whole(folder / "summary.json", (json.dumps(summary, indent=2) + "\n").encode())


def _report(args: argparse.Namespace, source: "ScanSource", summary: dict[str, Any]) -> None:
    for warning in source.warnings:
        print(printable(f"svfm slam: {warning}"), file=sys.stderr)
    if args.json:
        print_json(summary)
        return
    left_out = ", ".join(f"{n} {reason}" for reason, n in summary["scans_left_out"].items()) or "none"
    ms, size = summary["scan_ms"], summary["map_m"]
    rows = [
        ("scans with a pose", f"{summary['scans_placed']} of {summary['scans']}"),
        ("left out", left_out),
        *_piece_rows(summary["counters"]),
        ("recording", f"{summary['covered_s']:.1f} s, {summary['path_m']:.1f} m walked"),
        ("map", f"{size[0]:.1f} x {size[1]:.1f} m"),
        ("loop closures", f"{summary['loops_believed']} accepted of {summary['loops_found']}"),
        *_motion_rows(summary["motion"]),
        ("took", f"{summary['took_s']:.1f} s, {summary['times_real_time']:.0f} times real time"),
        ("per scan", f"{ms['median']:.1f} ms median, {ms['p99']:.1f} at 99 %, {ms['worst']:.1f} worst"),
        ("written to", str(args.out)),
    ]
    print_table(f"{args.input} ({source.kind})", ("what", "value"), rows)


def _piece_rows(counters: dict[str, int]) -> list[tuple[str, str]]:
    """The pieces of the recording that no loop closure joins to the map; their scans have no pose."""
    pieces, scans = (counters.get(name, 0) for name in ("pieces_left_out", "scans_in_pieces_left_out"))
    return [("pieces apart", f"{pieces} with {scans} scans, whose pose in the map is not known")] if pieces else []


def _motion_rows(motion: dict[str, Any]) -> list[tuple[str, str]]:
    """What was used besides scans, and what the scans contradict."""
    names = (("IMU", "imu"), ("odometry", "odometry"))
    used = [name for name, key in names if motion[f"{key}_used"]]
    if not used:
        return [("hints", motion["problem"])] if motion["problem"] else []
    late = f"stamps {1e3 * motion['offset_s']:.0f} ms late, bias {math.degrees(motion['bias_radps']):.2f} deg/s"
    text = f"{' and '.join(used)} ({late})"
    return [("hints", f"{text}; {motion['problem']}" if motion["problem"] else text)]
