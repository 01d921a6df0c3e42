"""Demonstration: walks through a simulated house become a map, a model of habits, and forecasts, live over ROS 2.

A morning and a night of walks are simulated and replayed, faster than real time, through the nodes that
`ros2 launch svfm_ros forecast.launch.py` starts: SLAM and walks, training, forecasts. Then one more walk is replayed at
real pace and forecast live, beside a what-if at night. Everything runs on this machine, over loopback, in a ROS domain
of its own. Exit code 1 when a target is missed.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from svfm_ros.cli.output import add_json_argument, report
from svfm_ros.errors import DataError
from svfm_ros.progress import progress
from svfm_ros.targets import Check, at_least, at_most

if TYPE_CHECKING:
    from svfm_ros.nodes.graph_listener import GraphListener, ReceivedMessages
    from svfm_ros.sim.demo_days import DemoWalks
    from svfm_ros.types import Forecast

__all__ = ["add_arguments", "run"]

_TIMEOUT_S = 60.0
_TRAINING_S = 180.0
_SAY_EVERY_S = 5.0
_PARAMETERS = {
    "slam_node": {"recorder.dwell_time_s": 3.0, "inbox": 5000},  # a fast replay must not drop scans
    "trainer_node": {"min_walks": 12, "min_new_walks": 24, "look_s": 5.0, "niceness": 5},
    "forecast_node": {"recorder.dwell_time_s": 3.0},
}
# Targets of the table at the end.
_WORST_RMSE_M = 0.10
_WORST_SHARE = 0.15
_POSE_MS, _FORECAST_MS = 40.0, 100.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm demo``."""
    parser.add_argument("--out", type=Path, default=Path("out/demo"), metavar="DIR", help="where to put what it makes")
    parser.add_argument("--rate", type=float, default=8.0, help="times faster than real time while learning (8)")
    parser.add_argument("--repeats", type=int, default=5, help="walks from the couch to each place by day (5)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other walks (0)")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Simulate, replay, train, forecast, check."""
    from svfm_ros.nodes.graph_listener import graph_listener

    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
    began_s = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    walks = _simulate(args.out, args.seed, args.repeats)
    with graph_listener() as listener, _nodes(args.out) as alive:
        for name in ("day", "night"):
            _replay(listener, alive, walks, name, args.rate)
        _learn(listener, alive)
        _replay(listener, alive, walks, "live", 1.0)
        time.sleep(1.0)  # the last forecast is still on its way
        shown = _pick(listener, walks)
        pictures = _draw(args.out, listener, walks, shown)
        checks = _checks(listener.received, walks, shown)
    payload = {
        "seconds": round(time.monotonic() - began_s, 1),
        "pictures": [str(p) for p in pictures],
        "figures": listener.received.figures,
        "shares": {n: dict(f.shares) for n, f in shown.items()},
        "truth": walks.shares,
    }
    code = report("the live pipeline, in a simulated house", checks, payload, args.json)
    _say(f"took {payload['seconds']:.0f} s; see {', '.join(str(p) for p in pictures)}")
    off = [c.name for c in checks if not c.ok]
    if off:
        _say(f"off: {'; '.join(off)}")
    return code


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _simulate(out: Path, seed: int, repeats: int) -> "DemoWalks":
    from svfm_ros.sim.demo_days import make_walks
    from svfm_ros.walks.places import save_places

    _say("simulating a morning, a night and one walk more")
    with progress() as bar:

        def begin(scans: int) -> Callable[[], None]:
            task = bar.add_task("simulating walks", total=scans, note="")
            return lambda: bar.advance(task)

        walks = make_walks(out, seed, repeats, begin)
    save_places(walks.places, out / "places.yaml")
    return walks


@contextlib.contextmanager
def _nodes(out: Path) -> Iterator[Callable[[], None]]:
    """One process per node, as with launch; yields a function that raises when one has ended."""
    import shutil

    from svfm_ros.sim.demo_days import NIGHT_H

    store, places = out / "store", out / "places.yaml"
    shutil.rmtree(store, ignore_errors=True)
    given: dict[str, dict[str, Any]] = {
        "slam_node": {"store": store},
        "trainer_node": {"store": store, "places": places},
        "forecast_node": {"what_if_hour": NIGHT_H, "model_folder": store},
    }
    started: dict[str, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as stack:
        for name, parameters in given.items():
            log = stack.enter_context((out / f"{name}.log").open("wb"))
            command = [sys.executable, "-m", f"svfm_ros.nodes.{name}", *_ros_arguments(parameters | _PARAMETERS[name])]
            started[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def alive() -> None:
            for name, process in started.items():
                if process.poll() is not None:
                    raise DataError(f"{name} has ended with code {process.returncode}; see {out / name}.log")

        try:
            yield alive
        finally:
            for process in started.values():
                process.terminate()
            for process in started.values():
                process.wait(_TIMEOUT_S)


def _ros_arguments(parameters: dict[str, Any]) -> list[str]:
    pairs = [("use_sim_time", "true"), *parameters.items()]
    return ["--ros-args", *(word for name, value in pairs for word in ("-p", f"{name}:={value}"))]


def _replay(listener: "GraphListener", alive: Callable[[], None], walks: "DemoWalks", name: str, rate: float) -> None:
    """Replay one bag in a process of its own and show its progress."""
    before, total = len(listener.received.poses), walks.scans[name]
    _say(f"replaying {name}: {walks.seconds[name]:.0f} s of scans, {rate:g} times as fast")
    command = [sys.executable, "-m", "svfm_ros.nodes.player", str(walks.bags[name]), "--rate", str(rate)]
    waiting = ["--topics", "scan", "--wait-for", "scan", "--ros-args", "-p", "wait_for_node:=slam_node"]
    player = subprocess.Popen([*command, *waiting], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with progress() as bar:
            task = bar.add_task(f"replaying {name}", total=total, note="")
            _wait(lambda: player.poll() is not None, alive, listener, lambda n: bar.update(task, **n), before)
        quiet = _Quiet(listener)
        _wait(lambda: len(listener.received.poses) - before >= total or quiet.for_s() > 2.0, alive, listener)
    finally:
        player.terminate()
        player.wait()


class _Quiet:
    """Seconds since the last pose."""

    def __init__(self, listener: "GraphListener") -> None:
        self._listener, self._count, self._since_s = listener, -1, time.monotonic()

    def for_s(self) -> float:
        if len(self._listener.received.poses) != self._count:
            self._count, self._since_s = len(self._listener.received.poses), time.monotonic()
        return time.monotonic() - self._since_s


def _wait(
    over: Callable[[], bool],
    alive: Callable[[], None],
    listener: "GraphListener",
    show: Callable[[dict[str, Any]], None] | None = None,
    before: int = 0,
    timeout_s: float = 600.0,
) -> None:
    end_s = time.monotonic() + timeout_s
    said_s = time.monotonic()
    while not over():
        alive()
        seen = listener.received
        line = f"{seen.walks} walks, {len(seen.models)} models, {len(seen.forecasts)} forecasts"
        if show is not None:
            show({"completed": len(seen.poses) - before, "note": line})
        if not sys.stderr.isatty() and time.monotonic() - said_s > _SAY_EVERY_S:
            said_s = time.monotonic()
            _say(f"  {len(seen.poses)} poses, {line}")
        if time.monotonic() > end_s:
            raise DataError(f"expected this to end within {timeout_s:.0f} s, got {line}")
        time.sleep(0.1)


def _learn(listener: "GraphListener", alive: Callable[[], None]) -> None:
    """A last training on all walks."""
    listener.call("/slam_node/finish_walk")
    _say(f"learning from {listener.received.walks} walks")
    trainer = listener.received.figures.get("trainer_node", {})
    _wait(lambda: _idle(listener), alive, listener, timeout_s=_TRAINING_S)
    trainings = int(listener.received.figures.get("trainer_node", trainer).get("trainings", 0))
    begun, why = listener.call("/trainer_node/train_now")
    if not begun and "under way" not in why:
        raise DataError(f"expected a training, got: {why}")

    def over() -> bool:
        return int(listener.received.figures.get("trainer_node", {}).get("trainings", 0)) > trainings and _idle(
            listener
        )

    _wait(over, alive, listener, timeout_s=_TRAINING_S)


def _idle(listener: "GraphListener") -> bool:
    return listener.received.figures.get("trainer_node", {}).get("state") == "idle"


def _pick(listener: "GraphListener", walks: "DemoWalks") -> "dict[str, Forecast]":
    """The first forecast of the last part, at the couch: as it is by day, and as it would be at night."""
    since_ns = walks.parts["live"].motion.start_ns
    shown: dict[str, Forecast] = {}
    for name, kind in (("day", "forecast"), ("night", "what_if")):
        stamps = sorted(n for n in listener.received.clouds[kind] if n >= since_ns)
        found = next((f for n in stamps if (f := listener.forecast(kind, n)) is not None), None)
        if found is None:
            raise DataError(f"expected a forecast at the couch ({kind}), got none; see the logs beside the bags")
        shown[name] = found
    under_way = [n for n in sorted(listener.received.clouds["forecast"]) if n >= since_ns]
    last = listener.forecast("forecast", under_way[int(0.7 * len(under_way))])
    return shown if last is None else {**shown, "under_way": last}


def _draw(out: Path, listener: "GraphListener", walks: "DemoWalks", shown: "dict[str, Forecast]") -> list[Path]:
    from svfm_ros.figures.forecast_figure import draw_forecasts

    grid = listener.map()
    if grid is None:
        raise DataError("expected a map, got none")
    titles = {
        "day": "from the couch, by day",
        "night": "from the couch, what if it were night",
        "under_way": "by day, on the way to the kitchen",
    }
    pictures = []
    for name, forecast in shown.items():
        pictures.append(out / f"forecast_{name}.png")
        draw_forecasts(pictures[-1], grid, [forecast], walks.places, [titles[name]])
    return pictures


def _checks(received: "ReceivedMessages", walks: "DemoWalks", shown: "dict[str, Forecast]") -> list[Check]:
    from svfm_ros.slam.trajectory_metrics import absolute_error

    stamps = np.array(sorted(received.poses), dtype=np.int64)
    truth = walks.truth_at(stamps)
    known = np.isfinite(truth[:, 0])
    error = absolute_error(np.array([received.poses[n] for n in stamps[known].tolist()]), truth[known])
    live_ns = walks.parts["live"].motion.start_ns
    live = [n for n in received.forecasts if n >= live_ns]
    return [
        at_least("scans that became poses, share", len(stamps) / sum(walks.scans.values()), 0.99),
        at_most("position error of SLAM, rms m", error.rmse_m, _WORST_RMSE_M),
        at_least("walks cut and kept", received.walks, 0.9 * walks.walks),
        at_least("models in use", len(received.models), 1),
        *(_share_check(n, walks.shares[n], shown[n]) for n in ("day", "night")),
        at_least("live forecasts, share of the scans", len(live) / walks.scans["live"], 0.8),
        at_most("scan to pose, live, 95 %, ms", _quantile(received.latencies_ms(received.pose_s, live_ns)), _POSE_MS),
        at_most(
            "scan to forecast, live, 95 %, ms",
            _quantile(received.latencies_ms(received.forecast_s, live_ns)),
            _FORECAST_MS,
        ),
    ]


def _share_check(name: str, truth: dict[str, float], forecast: "Forecast") -> Check:
    """The largest difference over all places."""
    names = set(truth) | set(forecast.shares)
    worst = max(abs(truth.get(n, 0.0) - forecast.shares.get(n, 0.0)) for n in names)
    return at_most(f"endpoint shares from the couch by {name}, largest error", worst, _WORST_SHARE)


def _quantile(values: Any) -> float:
    return float(np.quantile(values, 0.95)) if len(values) else float("nan")
