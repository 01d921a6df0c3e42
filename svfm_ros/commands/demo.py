"""See it work: walks through a simulated house, replayed through real ROS 2 nodes.

Everything runs on this machine, over loopback, in a ROS domain of its own.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.checks import Check, at_least
from svfm_ros.commands.output import add_json_argument, progress, report

if TYPE_CHECKING:
    from svfm_ros.nodes.witness import Arrivals, Witness

__all__ = ["add_arguments", "run"]

_TOPICS = {"scan": "sensor_msgs/msg/LaserScan", "ground_truth/pose": "geometry_msgs/msg/PoseStamped"}
_QUIET_S = 5.0  # nothing for this long after the player has ended: all that comes has come


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The bag, and how much it holds of each topic."""

    bag: Path
    counts: dict[str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm demo``."""
    parser.add_argument("--out", type=Path, default=Path("out/demo"), metavar="DIR", help="where to put what it makes")
    parser.add_argument("--rate", type=float, default=10.0, help="times faster than real time (10)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other walks (0)")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Simulate, replay, show what arrived."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
    args.out.mkdir(parents=True, exist_ok=True)
    recorded = _simulate(args.out, args.seed)
    arrivals = _replay(recorded, args.rate)
    checks = [_all_arrived(recorded, name, a) for name, a in arrivals.items()]
    payload = {"bag": str(recorded.bag), "seconds": {n: a.span_s for n, a in arrivals.items()}}
    return report(f"what came through ROS 2 from {recorded.bag}", checks, payload, args.json)


def _simulate(out: Path, seed: int) -> _Recorded:
    """One bag: from the couch to every other place and back."""
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.recording import Recorder
    from svfm_ros.sim.walker import simulate_protocol

    house = load_house("home")
    recorder = Recorder(house)
    walks = simulate_protocol(house, recorder.config.walker, seed, repeats=1)
    recordings = recorder.one_per_walk(walks, seed)
    bag = out / "walk"
    with progress() as bar:
        task = bar.add_task("simulating a walk", total=recorder.count(recordings[0]), note="")
        scans = recorder.write(recordings[0], bag, overwrite=True, tick=lambda: bar.advance(task))
    truth = len(recorder.truth(recordings[0]).stamps_ns)
    return _Recorded(bag, {"scan": scans, "ground_truth/pose": truth})


def _replay(recorded: _Recorded, rate: float) -> dict[str, "Arrivals"]:
    """The player in a process of its own, a listener in this one."""
    import rclpy

    from svfm_ros.nodes.witness import Witness

    rclpy.init()
    witness = Witness(_TOPICS)
    command = [sys.executable, "-m", "svfm_ros.nodes.player", str(recorded.bag), "--rate", str(rate), "--wait-for"]
    player = subprocess.Popen([*command, *_TOPICS])
    try:
        _listen(witness, player, recorded)
    finally:
        player.terminate()
        player.wait()
        witness.destroy_node()
        rclpy.try_shutdown()
    return witness.arrivals


def _listen(witness: "Witness", player: subprocess.Popen[bytes], recorded: _Recorded) -> None:
    import rclpy

    total = sum(recorded.counts.values())
    last_arrival_s, seen = time.monotonic(), 0
    with progress() as bar:
        task = bar.add_task("replaying through ROS 2", total=total, note="")
        while seen < total and (player.poll() is None or time.monotonic() - last_arrival_s < _QUIET_S):
            rclpy.spin_once(witness, timeout_sec=0.1)
            now = sum(a.count for a in witness.arrivals.values())
            if now > seen:
                seen, last_arrival_s = now, time.monotonic()
                bar.update(task, completed=seen)


def _all_arrived(recorded: _Recorded, name: str, arrivals: "Arrivals") -> Check:
    return at_least(f"{name}: messages that arrived", arrivals.count, recorded.counts[name])
