"""The live pipeline in real processes on real DDS: latency while training runs, and recovery after kills.

latency: scans of a simulated house, replayed at their own pace (10 Hz), while training runs without a pause.
kills: nodes are killed (SIGKILL) in turn during such a replay and started again, as by launch. A node is back when a
    subscriber with default DDS settings, as RViz has, receives its next output.
long: half an hour of a resident's walks and rests, replayed five times as fast, with storing and training.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchlib.live_processes import NODES, LiveListener, Processes, record_life, record_tour, train_first, wait

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
    """Time from a scan to its pose and its forecast."""
    scans = record_tour(out / "bag", args.seconds, args.seed)
    train_first(out / "trained")
    with LiveListener() as listener, Processes(out, {"trainer_node": TRAIN_ALWAYS}) as nodes:
        player = begin(listener, nodes, out, 1.0)
        busy = 0
        rounds = 0
        while player.poll() is None:
            keep_training(listener)
            rounds, busy = rounds + 1, busy + (listener.figures.get("trainer_node", {}).get("state") == "training")
            time.sleep(0.2)
        time.sleep(1.0)
    pose, forecast = listener.latencies_ms(listener.pose_s), listener.latencies_ms(listener.forecast_s)
    checks = [
        at_least("share of scans with a pose", len(listener.pose_s) / scans, 0.999),
        at_most("scan to pose, 99 %, ms", quantile(pose), 40.0),
        at_most("scan to forecast markers, 99 %, ms", quantile(forecast), 100.0),
        at_least("share of scans with a forecast", len(listener.forecast_s) / scans, 0.9),
        at_most("markers, MB/s", listener.marker_bytes / 1e6 / (scans / 10.0), 1.0),
    ]
    payload = {
        "scans": scans,
        "pose_ms": spread(pose),
        "forecast_ms": spread(forecast),
        "training_share": busy / max(1, rounds),
    }
    return checks, payload


def kills(out, args):
    """Time until a killed node is back, and what is lost."""
    every_s = 6.0
    record_tour(out / "bag", 10.0 + 2.0 * every_s * (args.kills + 1), args.seed)  # nodes may be slow to come back
    train_first(out / "trained")
    away, maps = [], []
    rng = random.Random(args.seed)
    with LiveListener() as listener, Processes(out, {"trainer_node": TRAIN_ALWAYS}) as nodes:
        player = begin(listener, nodes, out, 1.0)
        next_s = time.monotonic() + 8.0
        while player.poll() is None and (len(away) < args.kills or time.monotonic() < next_s):
            nodes.revive()
            keep_training(listener)
            if len(away) < args.kills and time.monotonic() >= next_s:
                name = NODES[len(away) % len(NODES)]
                before = listener.map
                away.append((name, gone_for(listener, nodes, name)))
                if name == "slam_node":
                    wait(lambda: listener.map != before, 5.0)  # noqa: B023
                    maps.append((known_cells(before), known_cells(listener.map)))
                next_s = max(next_s + every_s, time.monotonic() + 1.0) + rng.uniform(-1.0, 1.0)
            time.sleep(0.02)
        listener.call("/slam_node/finish_walk")
        time.sleep(2.0)
        announced, model = listener.walks, listener.figures.get("forecast_node", {}).get("model", "none")
        last = listener.models[-1] if listener.models else ""
    kept = walks_in(out)
    worst = {n: max((s for m, s in away if m == n), default=float("nan")) for n in NODES}
    checks = [
        at_least("kills", len(away), args.kills),
        *(at_most(f"{n} away after kill -9 at most, s", s, 5.0) for n, s in worst.items()),
        at_least("walks in the store, less those announced", kept - announced, 0),
        at_least("the model announced last is in use", float(model != "none" and model in last), 1),
        at_least("map kept after a kill, least share of cells", min((b / a for a, b in maps if a), default=0.0), 0.95),
    ]
    payload = {"away_s": away, "walks_announced": announced, "walks_kept": kept, "map_cells": maps}
    return checks, payload


def long(out, args):
    """Half an hour: growth of memory, dropped scans, age of forecasts."""
    scans = record_life(out / "bag", 60.0 * args.minutes, args.seed)
    train_first(out / "trained")
    memory, ages = [], []
    with LiveListener() as listener, Processes(out, {"trainer_node": {"store": out / "store"}}) as nodes:
        player = begin(listener, nodes, out, args.rate)
        while player.poll() is None:
            memory.append((time.monotonic(), nodes.megabytes()))
            ages.append(age_s(listener))
            time.sleep(0.1)
        time.sleep(2.0)
        figures = listener.figures.get("slam_node", {})
        died = [n for n in NODES if nodes.running[n].poll() is not None]
    grown = {n: growth(memory, n) for n in NODES}
    heard = len(listener.scan_s)
    checks = [
        at_least("nodes alive at the end", len(NODES) - len(died), len(NODES)),
        at_most("scans dropped", float(figures.get("scans_dropped", "nan")), 0),
        at_least("scans with a pose, of all", float(figures.get("scans_placed", "nan")) / scans, 1.0),
        *(at_most(f"{n}: memory over that after a third", g, 1.05) for n, g in grown.items()),
        at_most("oldest forecast, s", max(a for a in ages if a is not None), 0.5),
        at_least("models announced meanwhile", len(listener.models), 1),
    ]
    payload = {
        "scans": scans,
        "scans_received_by_the_listener": heard,
        "forecasts": len(listener.forecast_s),
        "walks": listener.walks,
        "memory_mb": [memory[i][1] for i in np.linspace(0, len(memory) - 1, 7).astype(int)],
        "slam": figures,
        "forecaster": listener.figures.get("forecast_node", {}),
        "trainer": listener.figures.get("trainer_node", {}),
    }
    return checks, payload


def begin(listener, nodes, out, rate):
    """Start the replay when the forecast node has a model."""
    if not wait(lambda: listener.figures.get("forecast_node", {}).get("model", "none") != "none"):
        raise SystemExit("the forecast node got no model")
    more = ["--rate", rate, "--topics", "scan", "--wait-for", "scan", "--ros-args", "-p", "wait_for_node:=slam_node"]
    player = nodes.start("player", out / "bag", *more)
    wait(lambda: bool(listener.pose_s) or player.poll() is not None)
    return player


def keep_training(listener):
    """Start the next training as soon as one ends."""
    if listener.figures.get("trainer_node", {}).get("state") == "idle":
        listener.figures.pop("trainer_node")  # wait for its next diagnostics
        listener.call("/trainer_node/train_now", 0.5)


def gone_for(listener, nodes, name):
    """Kill a node; seconds until its next output arrives: a pose, a forecast, diagnostics of the trainer."""
    nodes.kill(name)
    began_s = time.monotonic()

    def back():
        nodes.revive()
        return listener.active_s.get(name, 0.0) > began_s + 0.1  # messages sent before the kill do not count

    wait(back, 30.0)
    return round(listener.active_s.get(name, 0.0) - began_s, 2)


def known_cells(raw):
    """Cells of a published map of which something is known."""
    from nav_msgs.msg import OccupancyGrid
    from rclpy.serialization import deserialize_message

    return int(np.sum(np.asarray(deserialize_message(raw, OccupancyGrid).data) >= 0)) if raw else 0


def walks_in(out):
    """Walks of this replay in the store."""
    from svfm_ros.walks.walk_store import WalkStore

    return sum(name.startswith("resident-") for name in WalkStore.open(out / "store").walk_ids)


def age_s(listener):
    """Seconds since the oldest scan without a forecast; None before the first forecast."""
    newest = max(list(listener.forecast_s), default=None)
    waiting = [listener.scan_s[n] for n in list(listener.scan_s)[-200:] if newest is not None and n > newest]
    return None if newest is None else time.monotonic() - min(waiting, default=time.monotonic())


def growth(memory, name):
    """Maximum memory over the memory after a third of the time."""
    values = [m[name] for _, m in memory if np.isfinite(m.get(name, np.nan))]
    third = len(values) // 3
    return max(values[third:]) / values[third] if values else float("nan")


def spread(values):
    """Quantiles: median, 95 %, 99 % and maximum."""
    return {f"{q:g}": round(float(np.quantile(values, q / 100)), 1) for q in (50, 95, 99, 100)} if len(values) else {}


def quantile(values):
    """The 99 % quantile."""
    return float(np.quantile(values, 0.99)) if len(values) else float("nan")


if __name__ == "__main__":
    sys.exit(main())
