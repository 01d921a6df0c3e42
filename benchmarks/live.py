"""The live pipeline in real processes on real DDS: how fast it answers while training runs, and what a kill does to it.

Scans of a simulated house are replayed at their own pace (10 Hz) through slam_node and forecast_node while trainer_node
trains without a pause. With --kills, nodes are killed (SIGKILL) in turn during the replay and started again at once;
the table then says how long each stayed away, and what was lost.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from svfm_ros.checks import at_least, at_most
from svfm_ros.commands.output import add_json_argument, report

NODES = ("slam_node", "trainer_node", "forecast_node")


def main(argv=None):
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to replay (60)")
    parser.add_argument("--kills", type=int, default=0, help="how often to kill a node meanwhile (0)")
    parser.add_argument("--seed", type=int, default=0)
    add_json_argument(parser)
    args = parser.parse_args(argv)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
    with tempfile.TemporaryDirectory() as folder:
        checks, payload = measure(Path(folder), args)
    title = "the live pipeline at 10 Hz with training running"
    return report(title, checks, payload, args.json)


def measure(out, args):
    """Figures of one replay."""
    from svfm_ros.nodes.demo_watch import watching

    scans = record(out, args)
    learn_first(out)
    with watching() as watch, Processes(out) as processes:
        wait(lambda: watch.seen.figures.get("forecast_node", {}).get("model", "none") != "none")
        player = processes.start("player", str(out / "bag"), "--topics", "scan", "--wait-for", "scan")
        away = follow(watch, processes, player, args)
        time.sleep(1.0)
        watch.call("/slam_node/finish_walk")
        time.sleep(1.0)
        seen = watch.seen
        kept, announced = walks_in(out), seen.walks
    pose, forecast = seen.latencies_ms(seen.pose_s), seen.latencies_ms(seen.forecast_s)
    payload = {
        "scans": scans,
        "poses": len(seen.poses),
        "forecasts": len(seen.forecasts),
        "scan_to_pose_median_ms": float(np.median(pose)) if len(pose) else None,
        "scan_to_forecast_median_ms": float(np.median(forecast)) if len(forecast) else None,
        "trainings": seen.figures.get("trainer_node", {}).get("trainings"),
        "away_s": away,
    }
    if args.kills:
        checks = [
            at_least("kills", len(away), args.kills),
            at_most("longest time a node was away, s", max((s for _, s in away), default=float("nan")), 3.0),
            at_least("announced walks that are in the store", kept - announced, 0),
        ]
        return checks, payload
    checks = [
        at_least("share of scans with a pose", len(seen.poses) / scans, 0.999),
        at_most("scan to pose, 99 %, ms", quantile(pose), 40.0),
        at_most("scan to forecast, 99 %, ms", quantile(forecast), 100.0),
        at_least("share of scans with a forecast", len(seen.forecasts) / scans, 0.9),
    ]
    return checks, payload


def record(out, args):
    """One bag of that many seconds; returns the number of scans."""
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.recording import Recorder
    from svfm_ros.sim.walker import simulate_tour

    house = load_house("home")
    recorder = Recorder(house)
    rng = np.random.default_rng(args.seed)
    names = [n for n in house.places.names if n != "couch"]
    legs = max(2, int(args.seconds / 13.0))
    stops = ["couch" if i % 2 == 0 else names[rng.integers(len(names))] for i in range(legs + 1)]
    walks = simulate_tour(house, stops, recorder.config.walker, args.seed, 13.0)
    return recorder.write(recorder.all_in_one(walks, args.seed), out / "bag")


def learn_first(out):
    """A store of walks in the frame of the map, and a model of them, so that there is something to forecast from."""
    import io

    from svfm_ros.config.forecast import PathTrainConfig
    from svfm_ros.datatypes import Alignment, Pose2
    from svfm_ros.nodes.training_job import Task, Teller, train
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.walker import simulate_protocol
    from svfm_ros.walks.store import WalkStore

    walks = [w.walk for w in simulate_protocol(load_house("home"), None, 7, repeats=3, and_back=True)]
    T_map_house = Pose2.from_array(walks[0].poses[0]).inverse()
    store = WalkStore.create(out / "store")
    store.add_all(walks)
    store.set_alignments([Alignment(w.walk_id, T_map_house, None, True, "simulated") for w in walks])
    task = Task(store=str(store.path), model=str(out / "store" / "model.pt"), training=PathTrainConfig(steps=30))
    train(task, Teller(io.StringIO()))


def walks_in(out):
    """Walks of this replay in the store."""
    from svfm_ros.walks.store import WalkStore

    return sum(name.startswith("resident-") for name in WalkStore.open(out / "store").walk_ids)


class Processes:
    """The nodes, each in a process; one that was killed is started again."""

    def __init__(self, out):
        store = ("-p", f"store:={out / 'store'}")
        common = ("--ros-args", "-p", "use_sim_time:=true")
        self._commands = {
            "slam_node": (*common, *store, "-p", "recorder.dwell_time_s:=3.0"),
            "trainer_node": (
                *common,
                *store,
                "-p",
                "min_new_walks:=1",
                "-p",
                "min_interval_s:=0.0",
                "-p",
                "slack:=9.0",
            ),
            "forecast_node": (*common, "-p", f"model:={out / 'store' / 'model.pt'}"),
        }
        self.running = {}

    def start(self, name, *arguments):
        """Start one; its output goes nowhere."""
        command = [sys.executable, "-m", f"svfm_ros.nodes.{name}", *map(str, arguments)]
        self.running[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self.running[name]

    def kill(self, name):
        """SIGKILL, and start again at once."""
        self.running[name].kill()
        self.running[name].wait()
        self.start(name, *self._commands[name])

    def __enter__(self):
        for name, arguments in self._commands.items():
            self.start(name, *arguments)
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self.running.values():
            process.wait(30)


def follow(watch, processes, player, args):
    """Until the player is done: keep training going, kill what is to be killed; returns (node, seconds away)."""
    away, next_s = [], time.monotonic() + 5.0
    every_s = args.seconds / (args.kills + 1) if args.kills else float("inf")
    while player.poll() is None:
        if watch.seen.figures.get("trainer_node", {}).get("state") == "idle":
            watch.call("/trainer_node/train_now", 2.0)
        if len(away) < args.kills and time.monotonic() >= next_s:
            name = NODES[len(away) % len(NODES)]
            away.append((name, gone_for(watch, processes, name)))
            next_s += every_s
        time.sleep(0.1)
    return away


def gone_for(watch, processes, name):
    """Kill a node; seconds until it speaks again."""
    processes.kill(name)
    began_s = time.monotonic()
    watch.seen.figures.pop(name, None)
    wait(lambda: name in watch.seen.figures, 60.0)
    return time.monotonic() - began_s


def wait(over, patience_s=120.0):
    """Until it is so, or too long."""
    end_s = time.monotonic() + patience_s
    while not over() and time.monotonic() < end_s:
        time.sleep(0.05)


def quantile(values):
    """What 99 of 100 do not exceed."""
    return float(np.quantile(values, 0.99)) if len(values) else float("nan")


if __name__ == "__main__":
    sys.exit(main())
