"""The live pipeline in real processes on real DDS: how fast it answers while training runs, and what it survives.

latency: scans of a simulated house, replayed at their own pace (10 Hz), while training runs without a pause.
kills: nodes are killed (SIGKILL) in turn during such a replay and started again as launch would.
long: half an hour of free living, replayed five times as fast; walks are kept and learnt from as they come.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchlib.live_processes import NODES, Processes, Watch, learn_first, record_life, record_tour, wait

from svfm_ros.cli.output import add_json_argument, report
from svfm_ros.targets import at_least, at_most

PARTS = ("latency", "kills", "long")
TRAIN_ALWAYS = {"min_new_walks": 1, "min_interval_s": 0.0}


def main(argv=None):
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; all without it")
    parser.add_argument("--seconds", type=float, default=120.0, help="length of the replay for latency (120)")
    parser.add_argument("--kills", type=int, default=20, help="how often a node is killed (20)")
    parser.add_argument("--minutes", type=float, default=30.0, help="length of the long recording (30)")
    parser.add_argument("--rate", type=float, default=5.0, help="times faster it is replayed (5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave recordings, stores and logs here")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
    checks, payload = [], {}
    for part in args.only or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            out = (args.keep or Path(folder)) / part
            out.mkdir(parents=True, exist_ok=True)
            found, payload[part] = {"latency": latency, "kills": kills, "long": long}[part](out, args)
            checks += found
    return report("the live pipeline, as processes", checks, payload, args.json)


def latency(out, args):
    """How long after a scan its pose and its forecast are there."""
    scans = record_tour(out / "bag", args.seconds, args.seed)
    learn_first(out / "lessons")
    with Watch() as watch, Processes(out, {"trainer_node": TRAIN_ALWAYS}) as nodes:
        player = begin(watch, nodes, out, 1.0)
        busy = 0
        rounds = 0
        while player.poll() is None:
            keep_training(watch)
            rounds, busy = rounds + 1, busy + (watch.figures.get("trainer_node", {}).get("state") == "training")
            time.sleep(0.2)
        time.sleep(1.0)
    pose, forecast = watch.latencies_ms(watch.pose_s), watch.latencies_ms(watch.forecast_s)
    checks = [
        at_least("share of scans with a pose", len(watch.pose_s) / scans, 0.999),
        at_most("scan to pose, 99 %, ms", quantile(pose), 40.0),
        at_most("scan to forecast markers, 99 %, ms", quantile(forecast), 100.0),
        at_least("share of scans with a forecast", len(watch.forecast_s) / scans, 0.9),
        at_most("markers, MB/s", watch.marker_bytes / 1e6 / (scans / 10.0), 1.0),
    ]
    payload = {
        "scans": scans,
        "pose_ms": spread(pose),
        "forecast_ms": spread(forecast),
        "training_share": busy / max(1, rounds),
    }
    return checks, payload


def kills(out, args):
    """What a kill costs."""
    every_s = 6.0
    record_tour(out / "bag", 10.0 + every_s * (args.kills + 1), args.seed)
    learn_first(out / "lessons")
    away, maps = [], []
    rng = random.Random(args.seed)
    with Watch() as watch, Processes(out, {"trainer_node": TRAIN_ALWAYS}) as nodes:
        player = begin(watch, nodes, out, 1.0)
        next_s = time.monotonic() + 8.0
        while player.poll() is None:
            nodes.revive()
            keep_training(watch)
            if len(away) < args.kills and time.monotonic() >= next_s:
                name = NODES[len(away) % len(NODES)]
                before = watch.map
                away.append((name, gone_for(watch, nodes, name)))
                if name == "slam_node":
                    wait(lambda: watch.map != before, 5.0)  # noqa: B023
                    maps.append((known_cells(before), known_cells(watch.map)))
                next_s = max(next_s + every_s, time.monotonic() + 1.0) + rng.uniform(-1.0, 1.0)
            time.sleep(0.02)
        watch.call("/slam_node/finish_walk")
        time.sleep(2.0)
        announced, model = watch.walks, watch.figures.get("forecast_node", {}).get("model", "none")
        last = watch.models[-1] if watch.models else ""
    kept = walks_in(out)
    worst = {n: max((s for m, s in away if m == n), default=float("nan")) for n in NODES}
    checks = [
        at_least("kills", len(away), args.kills),
        *(at_most(f"{n} away at most, s", s, 3.0) for n, s in worst.items()),
        at_least("walks in the store, less those announced", kept - announced, 0),
        at_least("the model announced last is in use", float(model != "none" and model in last), 1),
        at_least("map kept after a kill, least share of cells", min((b / a for a, b in maps if a), default=0.0), 0.95),
    ]
    payload = {"away_s": away, "walks_announced": announced, "walks_kept": kept, "map_cells": maps}
    return checks, payload


def long(out, args):
    """Half an hour: does memory stay, do all scans count, is a forecast ever old?"""
    scans = record_life(out / "bag", 60.0 * args.minutes, args.seed)
    learn_first(out / "lessons")
    memory, ages = [], []
    with Watch() as watch, Processes(out, {"trainer_node": {"store": out / "store"}}) as nodes:
        player = begin(watch, nodes, out, args.rate)
        while player.poll() is None:
            memory.append((time.monotonic(), nodes.megabytes()))
            ages.append(age_s(watch))
            time.sleep(0.1)
        time.sleep(2.0)
        figures = watch.figures.get("slam_node", {})
        died = [n for n in NODES if nodes.running[n].poll() is not None]
    grown = {n: growth(memory, n) for n in NODES}
    heard = len(watch.scan_s)
    checks = [
        at_least("nodes alive at the end", len(NODES) - len(died), len(NODES)),
        at_most("scans dropped", float(figures.get("scans_dropped", "nan")), 0),
        at_least("scans placed, of all", float(figures.get("scans_placed", "nan")) / scans, 1.0),
        *(at_most(f"{n}: memory over that after a third", g, 1.05) for n, g in grown.items()),
        at_most("oldest forecast, s", max(a for a in ages if a is not None), 0.5),
        at_least("models learnt meanwhile and announced", len(watch.models), 1),
    ]
    payload = {
        "scans": scans,
        "scans_heard_by_the_watch": heard,
        "forecasts": len(watch.forecast_s),
        "walks": watch.walks,
        "memory_mb": [memory[i][1] for i in np.linspace(0, len(memory) - 1, 7).astype(int)],
        "slam": figures,
        "forecaster": watch.figures.get("forecast_node", {}),
        "trainer": watch.figures.get("trainer_node", {}),
    }
    return checks, payload


def begin(watch, nodes, out, rate):
    """Start the replay when there is a model to forecast with."""
    if not wait(lambda: watch.figures.get("forecast_node", {}).get("model", "none") != "none"):
        raise SystemExit("the forecaster got no model")
    more = ["--rate", rate, "--topics", "scan", "--wait-for", "scan", "--ros-args", "-p", "wait_for_node:=slam_node"]
    player = nodes.start("player", out / "bag", *more)
    wait(lambda: bool(watch.pose_s) or player.poll() is not None)
    return player


def keep_training(watch):
    """Never let the trainer rest."""
    if watch.figures.get("trainer_node", {}).get("state") == "idle":
        watch.figures.pop("trainer_node")  # wait for its next word before asking again
        watch.call("/trainer_node/train_now", 0.5)


def gone_for(watch, nodes, name):
    """Kill a node; seconds until it says something of use again: a pose, a forecast, how training goes."""
    nodes.kill(name)
    began_s = time.monotonic()

    def back():
        nodes.revive()
        return watch.spoke_s.get(name, 0.0) > began_s + 0.1  # what was still under way does not count

    wait(back, 30.0)
    return round(watch.spoke_s.get(name, 0.0) - began_s, 2)


def known_cells(raw):
    """Cells of a published map of which something is known."""
    from nav_msgs.msg import OccupancyGrid
    from rclpy.serialization import deserialize_message

    return int(np.sum(np.asarray(deserialize_message(raw, OccupancyGrid).data) >= 0)) if raw else 0


def walks_in(out):
    """Walks of this replay in the store."""
    from svfm_ros.walks.walk_store import WalkStore

    return sum(name.startswith("resident-") for name in WalkStore.open(out / "store").walk_ids)


def age_s(watch):
    """How long ago the scan came in that the newest forecast answers; None before the first."""
    newest = max(list(watch.forecast_s), default=None)
    waiting = [watch.scan_s[n] for n in list(watch.scan_s)[-200:] if newest is not None and n > newest]
    return None if newest is None else time.monotonic() - min(waiting, default=time.monotonic())


def growth(memory, name):
    """Most memory later on over that after a third of the time."""
    values = [m[name] for _, m in memory if np.isfinite(m.get(name, np.nan))]
    third = len(values) // 3
    return max(values[third:]) / values[third] if values else float("nan")


def spread(values):
    """Median, 95 and 99 of 100, and the worst."""
    return {f"{q:g}": round(float(np.quantile(values, q / 100)), 1) for q in (50, 95, 99, 100)} if len(values) else {}


def quantile(values):
    """What 99 of 100 do not exceed."""
    return float(np.quantile(values, 0.99)) if len(values) else float("nan")


if __name__ == "__main__":
    sys.exit(main())
