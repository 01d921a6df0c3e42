"""SLAM from scans alone on public recordings, beside yag-slam (Karto's matcher).

Freiburg 079 is measured by Kümmerle's relations (poses of the laser, nearest scan, offset 1211.43 s), the other
recordings by whether the map closes. One set of defaults for all of them. Published with odometry, on the same
relations: Cartographer 0.0452 m, 0.538 deg, 62 s; Graph Mapping 0.056 m, 0.6 deg.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchlib.false_loops import run_with_false_loops
from benchlib.lidar_logs import (
    LOGS,
    Log,
    corrected_poses,
    cut_and_shuffled,
    degraded,
    error_to_corrected,
    largest_jump,
    loop_precision,
    path_of,
    read_log,
)
from benchlib.localised_starts import localised_starts
from benchlib.relations import RelationError, Relations, load_relations, relation_error, relation_errors
from benchlib.slam_memory import peak_mb
from benchlib.slam_peers import run_peers

from svfm_ros.cli.output import add_json_argument, print_table, report
from svfm_ros.slam.offline import SlamRun, draw_grid, run_slam
from svfm_ros.slam.slam import Slam
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.types import Scan

NEEDS_DATA = "lidar"

_PARTS = ("freiburg", "online", "logs", "degraded", "intel", "cut", "localise", "memory", "false-loops", "peers")
_OFFSET_S = 1211.43
_SHORT_S = 10.0
_JOIN_S = 0.12
_INTEL_OFFSET_S, _INTEL_JOIN_S = 976052857.337, 0.006
_BAD_JOIN_M, _BAD_JOIN_DEG = 0.1, 3.0  # relations that the publisher's poses miss by more are bad joins
_WARM_UP_SCANS = 1500
_SPARSE_S = 1.0  # recordings with fewer scans than one in so many seconds are sparse
_FIRST_POSE_S = 3.0


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA", help="folder with the recordings")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS, help="parts to run (all)")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw every map into this folder")
    parser.add_argument("--pace", type=float, default=10.0, help="speed of the live run, times real time (10)")
    parser.add_argument("--peer-limit", type=float, default=600.0, metavar="S", help="give a peer up after (600)")
    parser.add_argument("--all-guesses", action="store_true", help="try every guess at the motion with the peers")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    checks, payload = measure(args)
    return report("SLAM from scans alone", checks, payload, args.json)


def measure(args: argparse.Namespace) -> tuple[list[Check], dict[str, Any]]:
    """Run the chosen parts."""
    scans = read_log(args.data, LOGS[0])
    relations = load_relations(args.data / "freiburg-079.relations", _OFFSET_S)
    _say("warming up")
    run_slam(scans[:_WARM_UP_SCANS])
    checks: list[Check] = []
    payload: dict[str, Any] = {}
    with _one_core():
        _say("Freiburg")
        run = run_slam(scans)
    sound = relation_error(run.trajectory.stamps_ns, run.trajectory.poses, relations)
    if "freiburg" in args.only:
        checks += _freiburg(run, scans, relations, sound, payload)
    if "online" in args.only:
        checks += _online(scans, args.pace, payload)
    if "logs" in args.only:
        checks += _logs(args, run, payload)
    if "degraded" in args.only:
        checks += _degraded(scans, relations, run, payload)
    if "intel" in args.only:
        checks += _intel_relations(args.data, payload)
    if "cut" in args.only:
        checks += _cut(args.data / LOGS[0].file, scans, run, payload)
    if "localise" in args.only:
        checks += _localise(scans, run, payload)
    if "memory" in args.only:
        checks += _memory(args.data, payload)
    if "false-loops" in args.only:
        checks += _false_loops(scans, relations, sound, payload)
    if "peers" in args.only:
        checks += _peers(args, scans, relations, sound, run.wall_s, payload)
    return checks, payload


class _one_core:  # noqa: N801
    """One core means one core, whatever libraries would like."""

    def __enter__(self) -> None:
        self.before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(self.before)})

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self.before)


def _freiburg(
    run: SlamRun, scans: list[Scan], relations: Relations, sound: RelationError, payload: dict[str, Any]
) -> list[Check]:
    short = relation_error(run.trajectory.stamps_ns, run.trajectory.poses, relations.within(_SHORT_S))
    live = relation_error(run.live.stamps_ns, run.live.poses, relations.within(_SHORT_S))
    payload["freiburg"] = {
        "all": _plain(sound),
        "within_10_s": _plain(short),
        "live_within_10_s": _plain(live),
        "wall_s": run.wall_s,
        "times_real_time": path_of(scans) / run.wall_s,
        "scan_ms": _percentiles(run.scan_s),
        "counters": run.counters,
    }
    return [
        at_most("Freiburg, relations, translation, m", sound.translation_m, 0.0411),
        at_most("Freiburg, relations, rotation, deg", sound.rotation_deg, 0.422),
        at_most("Freiburg, live pose, relations within 10 s, m", live.translation_m, 0.0275),
        at_most("Freiburg, live pose, relations within 10 s, deg", live.rotation_deg, 0.365),
        at_most("Freiburg, wall time on one core, s", run.wall_s, 12.0),
    ]


def _online(scans: list[Scan], pace: float, payload: dict[str, Any]) -> list[Check]:
    """The live set-up: scans arrive at their times, loops are searched in a thread."""
    _say(f"Freiburg live, {pace:g} times real time: {path_of(scans) / pace:.0f} s")
    slam = Slam(background=True)
    begin, first_ns = time.perf_counter(), scans[0].stamp_ns

    def in_time() -> Any:
        for scan in scans:
            due = begin + (scan.stamp_ns - first_ns) / 1e9 / pace
            time.sleep(max(0.0, due - time.perf_counter()))
            yield scan

    run = run_slam(in_time(), slam=slam)
    ms = _percentiles(run.scan_s)
    # The first tenth of the walk has a tenth of the map; the first scans of all still fill their first local map.
    tenth = len(run.scan_s) // 10
    early, late = np.median(run.scan_s[tenth // 2 : tenth + tenth // 2]), np.median(run.scan_s[-tenth:])
    payload["online"] = {"scan_ms": ms, "early_ms": 1e3 * early, "late_ms": 1e3 * late, "pace": pace}
    return [
        at_most("per scan, live, median, ms", ms["median"], 1.5),
        at_most("per scan, live, 99th percentile, ms", ms["p99"], 15.0),
        at_most("per scan, live, worst, ms", ms["worst"], 50.0),
        at_most("per scan, live, late over early as the map grows tenfold", float(late / early), 1.2),
    ]


def _logs(args: argparse.Namespace, freiburg: SlamRun, payload: dict[str, Any]) -> list[Check]:
    checks, rows = [], []
    for log in LOGS:
        _say(log.name)
        scans = read_log(args.data, log)
        run = freiburg if log.name == "freiburg" else run_slam(scans)
        figures = _log_figures(args.data, log, scans, run)
        payload.setdefault("logs", {})[log.name] = figures
        rows.append((log.name, *figures.values()))
        checks += _log_checks(log, figures)
        if args.pictures:
            _picture(args.pictures, log, scans, run)
    if not args.json:
        print_table("Recordings", ("log", *next(iter(payload["logs"].values()))), rows)
    return checks


def _log_figures(folder: Path, log: Log, scans: list[Scan], run: SlamRun) -> dict[str, Any]:
    corrected = corrected_poses(folder / log.file)
    rmse = error_to_corrected(run, corrected) if corrected else (float("nan"), float("nan"))
    return {
        "scans": len(scans),
        "period_s": path_of(scans) / len(scans),
        "placed": len(run.trajectory) / len(scans),
        "took_s": run.wall_s,
        "loops": sum(loop.accepted for loop in run.loops),
        "loops_refused": sum(not loop.accepted for loop in run.loops),
        "loops_right": loop_precision(run, corrected) if corrected else float("nan"),
        "rmse_m": rmse[0],
        "rmse_deg": rmse[1],
        "jump_m": largest_jump(run, corrected),
    }


def _log_checks(log: Log, figures: dict[str, Any]) -> list[Check]:
    checks = [
        at_least(f"{log.name}: share of scans in the map", figures["placed"], 0.95),
        at_most(f"{log.name}: largest jump, m", figures["jump_m"], 0.5),
    ]
    if np.isfinite(figures["rmse_m"]):
        checks.append(at_most(f"{log.name}: to the publisher's corrected poses, RMSE m", figures["rmse_m"], 0.5))
    if np.isfinite(figures["loops_right"]):
        checks.append(at_least(f"{log.name}: loops that are right", figures["loops_right"], 0.99))
    if figures["period_s"] > _SPARSE_S:
        checks.append(at_most(f"{log.name}: per scan, ms", 1e3 * figures["took_s"] / figures["scans"], 50.0))
    return checks


def _degraded(scans: list[Scan], relations: Relations, run: SlamRun, payload: dict[str, Any]) -> list[Check]:
    """Translation error over that of the whole recording, at the relations that both have scans for."""
    checks, rows = [], []
    for worse in degraded(scans):
        _say(f"Freiburg, {worse.name}")
        done = run_slam(worse.scans)
        stamps = worse.true_stamps(done.trajectory)
        at = _with_scans_near(relations, stamps)
        error = relation_error(stamps, done.trajectory.poses, at)
        whole = relation_error(run.trajectory.stamps_ns, run.trajectory.poses, at)
        placed = len(stamps) / len(worse.scans)
        rows.append((worse.name, placed, error.translation_m, whole.translation_m, error.rotation_deg, done.wall_s))
        checks += [
            at_most(f"{worse.name}: translation, times that of all", error.translation_m / whole.translation_m, 1.25),
            at_least(f"{worse.name}: share of scans in the map", placed, 0.99),
        ]
    columns = ("version", "placed", "translation_m", "whole_m", "rotation_deg", "took_s")
    payload["degraded"] = [dict(zip(columns, row, strict=True)) for row in rows]
    return checks


def _with_scans_near(relations: Relations, stamps_ns: np.ndarray) -> Relations:
    """Relations with both ends within ``_JOIN_S`` of a scan."""
    ordered = np.sort(stamps_ns)
    near = np.ones(len(relations.from_ns), dtype=bool)
    for ends in (relations.from_ns, relations.to_ns):
        after = np.clip(np.searchsorted(ordered, ends), 1, len(ordered) - 1)
        gap_ns = np.minimum(np.abs(ordered[after] - ends), np.abs(ordered[after - 1] - ends))
        near &= gap_ns <= _JOIN_S * 1e9
    return Relations(relations.from_ns[near], relations.to_ns[near], relations.T_from_to[near])


def _intel_relations(folder: Path, payload: dict[str, Any]) -> list[Check]:
    """Relations that join within 6 ms; also without those that the publisher's own poses miss (bad joins)."""
    _say("Intel, relations")
    log = next(log for log in LOGS if log.name == "intel sparse")
    run, corrected = run_slam(read_log(folder, log)), corrected_poses(folder / log.file)
    assert corrected is not None
    relations = load_relations(folder / "intel.relations", _INTEL_OFFSET_S)
    every = relation_error(run.trajectory.stamps_ns, run.trajectory.poses, relations, _INTEL_JOIN_S)
    published = relation_errors(corrected.stamps_ns, corrected.poses, relations, _INTEL_JOIN_S)
    good = published.rows[(published.metres < _BAD_JOIN_M) & (published.degrees < _BAD_JOIN_DEG)]
    sound = Relations(relations.from_ns[good], relations.to_ns[good], relations.T_from_to[good])
    without = relation_error(run.trajectory.stamps_ns, run.trajectory.poses, sound, _INTEL_JOIN_S)
    theirs = relation_error(corrected.stamps_ns, corrected.poses, sound, _INTEL_JOIN_S)
    payload["intel_relations"] = {"all": _plain(every), "without": _plain(without), "publisher": _plain(theirs)}
    return [
        at_most("Intel, all joined relations, translation, m", every.translation_m, 0.0229),
        at_most("Intel, all joined relations, rotation, deg", every.rotation_deg, 0.453),
        at_most("Intel, without bad joins, translation, m", without.translation_m, 0.0229),
        at_most("Intel, without bad joins, rotation, deg", without.rotation_deg, 0.453),
    ]


def _cut(path: Path, scans: list[Scan], run: SlamRun, payload: dict[str, Any]) -> list[Check]:
    """Five pieces in random order: one map, about as good as that of the whole recording."""
    _say("Freiburg cut into five pieces in random order")
    corrected = corrected_poses(path)
    assert corrected is not None
    cut = run_slam(cut_and_shuffled(scans))
    whole_m, cut_m = error_to_corrected(run, corrected)[0], error_to_corrected(cut, corrected)[0]
    placed = len(cut.trajectory) / len(scans)
    payload["cut"] = {"placed": placed, "ate_m": cut_m, "whole_ate_m": whole_m, "counters": cut.counters}
    return [
        at_least("cut into five: share of scans in one map", placed, 0.99),
        at_most("cut into five: ATE, times that of the whole", cut_m / whole_m, 1.2),
    ]


def _localise(scans: list[Scan], run: SlamRun, payload: dict[str, Any]) -> list[Check]:
    """Ten starts in the map of the whole recording, each with nothing known."""
    _say("Freiburg, localised in its map from ten starts")
    starts = localised_starts(scans, run)
    columns = ("first_pose_s", "placed", "wrong")
    payload["localised"] = [{name: getattr(start, name) for name in columns} for start in starts]
    soon = sum(start.first_pose_s <= _FIRST_POSE_S for start in starts)
    return [
        at_least("localised, first pose within 3 s of motion, of ten starts", soon, 9),
        at_least("localised, least share of scans with a pose from there on", min(s.placed for s in starts), 0.99),
        at_most("localised, poses more than 0.5 m off", sum(s.wrong for s in starts), 0),
    ]


def _memory(folder: Path, payload: dict[str, Any]) -> list[Check]:
    _say("Freiburg, memory")
    payload["memory_mb"] = {"freiburg": peak_mb(folder / LOGS[0].file)}
    return [at_most("Freiburg, memory of the whole process, MB", payload["memory_mb"]["freiburg"], 250.0)]


def _picture(folder: Path, log: Log, scans: list[Scan], run: SlamRun) -> None:
    from svfm_ros.figures.map_figure import draw_map

    folder.mkdir(parents=True, exist_ok=True)
    name = log.name.replace(" ", "-")
    draw_map(folder / f"{name}.png", draw_grid(scans, run.trajectory), run.trajectory.poses, run.loops, log.what)


def _false_loops(scans: list[Scan], relations: Relations, sound: RelationError, payload: dict[str, Any]) -> list[Check]:
    _say("Freiburg with one loop in five false")
    run, false = run_with_false_loops(scans, seed=0)
    error = relation_error(run.trajectory.stamps_ns, run.trajectory.poses, relations)
    payload["false_loops"] = {"put_in": false, "error": _plain(error), "counters": run.counters}
    return [
        at_most(
            "one loop in five false, translation, times that without", error.translation_m / sound.translation_m, 1.2
        ),
        at_most("one loop in five false, rotation, times that without", error.rotation_deg / sound.rotation_deg, 1.2),
    ]


def _peers(
    args: argparse.Namespace,
    scans: list[Scan],
    relations: Relations,
    sound: RelationError,
    our_s: float,
    payload: dict[str, Any],
) -> list[Check]:
    _say("peers on Freiburg")
    stamps = np.array([s.stamp_ns for s in scans], dtype=np.int64)
    checks, rows = [], [("svfm_ros", sound.translation_m, sound.rotation_deg, our_s, "")]
    with _one_core():
        peers = run_peers(scans, args.peer_limit, args.all_guesses)
    for peer in peers:
        if not peer.came:
            rows.append((peer.name, "", "", "", peer.note))
            continue
        error = relation_error(stamps[: len(peer.poses)], peer.poses, relations)
        rows.append((peer.name, error.translation_m, error.rotation_deg, peer.wall_s, peer.note))
        checks += [
            at_least(f"{peer.name}: translation error, times ours", error.translation_m / sound.translation_m, 1.0),
            at_least(f"{peer.name}: rotation error, times ours", error.rotation_deg / sound.rotation_deg, 1.0),
            at_least(f"{peer.name}: wall time, times ours", peer.wall_s / our_s, 1.0),
        ]
    columns = ("who", "translation_m", "rotation_deg", "wall_s", "note")
    payload["peers"] = [dict(zip(columns, row, strict=True)) for row in rows]
    if not args.json:
        print_table("Freiburg 079, scans only", columns, rows)
    return checks


def _percentiles(seconds: np.ndarray) -> dict[str, float]:
    median, late, worst = 1e3 * np.percentile(seconds, [50, 99, 100])
    return {"median": float(median), "p99": float(late), "worst": float(worst)}


def _plain(error: RelationError) -> dict[str, float]:
    return {name: getattr(error, name) for name in error.__slots__}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
