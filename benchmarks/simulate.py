"""Speed of the simulator: a worn LiDAR with all effects on, one core, in both houses; walks of a drawn resident."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svfm_ros.cli.output import add_json_argument, report
from svfm_ros.config.sim_config import HabitConfig, SimConfig
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.random_house import random_house
from svfm_ros.sim.resident import random_resident, simulate_resident
from svfm_ros.sim.sim_recording import Recorder
from svfm_ros.sim.walker import route_book, simulate_days, simulate_habit, span_of_days
from svfm_ros.targets import at_least, at_most

_HABITS = HabitConfig(dwell_s=20.0)
_RUNS = 3
_WALKS = 2000


def main(argv: list[str] | None = None) -> int:
    """Print the table; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the simulated recording (10)")
    add_json_argument(parser)
    args = parser.parse_args(argv)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core means one core, whatever libraries would like
    checks, payload = [], {}
    for name in ("home", "bungalow"):
        figures = _measure_house(load_house(name), args.minutes)
        payload[name] = figures
        checks += [
            at_least(f"{name}: scans, times real time", figures["scans_x_real_time"], 50),
            at_least(f"{name}: bags (MCAP, with truth), times real time", figures["bags_x_real_time"], 50),
            at_least(f"{name}: true walks per second, first search included", figures["walks_per_s"], 500),
        ]
    checks.append(at_most("1,000 walks of a resident in a new random house, s", _resident_s(), 3.0))
    return report("svfm simulate, all effects on, one core", checks, payload, args.json)


def _measure_house(house: House, minutes: float) -> dict[str, Any]:
    config = SimConfig(habits=_HABITS)
    days = minutes / (24 * 60)
    walks = simulate_days(house, config.walker, 0, days, config.habits)
    recorder = Recorder(house, config)
    recording = recorder.all_in_one(walks, 0, span_ns=span_of_days(config.habits, days))
    seconds = recording.motion.duration_s
    next(iter(recorder.scans(recording)))  # compiled before the clock starts

    def bag() -> int:
        with tempfile.TemporaryDirectory() as folder:
            return recorder.write(recording, Path(folder) / "bag")

    walks_s = _best(lambda: simulate_habit(house, config.walker, 0, _WALKS, book=route_book(house, config.walker)))
    return {
        "recorded_s": seconds,
        "walks": len(walks),
        "scans_x_real_time": seconds / _best(lambda: sum(1 for _ in recorder.scans(recording))),
        "bags_x_real_time": seconds / _best(bag),
        "walks_per_s": _WALKS / walks_s,
    }


def _resident_s() -> float:
    """Seconds for a house, its routes, a resident and 1,000 of their walks."""

    def work() -> None:
        house = random_house(7)
        book = route_book(house)
        simulate_resident(house, random_resident(house, 3, book=book), walks=1000, book=book)

    return _best(work)


def _best(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few runs: others share the machine."""
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
