"""See it work: walks through a simulated house, replayed through real ROS 2 nodes.

Everything runs on this machine, over loopback, in a ROS domain of its own.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.checks import Check, at_least
from svfm_ros.commands.output import add_json_argument, progress, report

if TYPE_CHECKING:
    from svfm_ros.nodes.witness import Arrivals

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
    walks = simulate_protocol(house, recorder.config.walker, seed, repeats=1, and_back=True)
    recording = recorder.all_in_one(walks, seed)
    bag = out / "walks"
    with progress() as bar:
        task = bar.add_task("simulating walks", total=recorder.count(recording), note="")
        scans = recorder.write(recording, bag, overwrite=True, tick=lambda: bar.advance(task))
    truth = len(recorder.truth(recording).stamps_ns)
    return _Recorded(bag, {"scan": scans, "ground_truth/pose": truth})


def _replay(recorded: _Recorded, rate: float) -> dict[str, "Arrivals"]:
    """The player in a process of its own, a listener in this one."""
    from svfm_ros.nodes.witness import witness

    command = [sys.executable, "-m", "svfm_ros.nodes.player", str(recorded.bag), "--rate", str(rate), "--wait-for"]
    player = subprocess.Popen([*command, *_TOPICS])
    try:
        with progress() as bar:
            task = bar.add_task("replaying through ROS 2", total=sum(recorded.counts.values()), note="")
            return witness(_TOPICS, _Patience(player, recorded, lambda seen: bar.update(task, completed=seen)))
    finally:
        player.terminate()
        player.wait()


class _Patience:
    """Whether to go on listening: until all has come, or nothing comes any more."""

    def __init__(self, player: subprocess.Popen[bytes], recorded: _Recorded, show: Callable[[int], None]) -> None:
        self._player, self._total, self._show = player, sum(recorded.counts.values()), show
        self._seen, self._last_s = 0, time.monotonic()

    def __call__(self, arrivals: dict[str, "Arrivals"]) -> bool:
        seen = sum(a.count for a in arrivals.values())
        if seen > self._seen:
            self._seen, self._last_s = seen, time.monotonic()
            self._show(seen)
        return seen < self._total and (self._player.poll() is None or time.monotonic() - self._last_s < _QUIET_S)


def _all_arrived(recorded: _Recorded, name: str, arrivals: "Arrivals") -> Check:
    return at_least(f"{name}: messages that arrived", arrivals.count, recorded.counts[name])
