"""Demonstration: walks through a simulated house become a map, a model of habits, and forecasts, live over ROS 2.

The first line is the address of a page on which to watch it. A morning and a night of walks are simulated and replayed,
faster than real time, through the nodes that `ros2 launch svfm_ros forecast.launch.py` starts: SLAM and walks,
training, forecasts, the live page. Then two more walks are replayed at real pace and forecast live, one by day and one
at night. It ends with a report page, a film and a few sentences; --figures shows the figures behind them. Everything
runs on this machine, over loopback, in a ROS domain of its own. Exit code 1 when a target is missed.
"""

import argparse
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from svfm_ros.atomic_files import check_output_folder, make_folder
from svfm_ros.cli.output import (
    add_json_argument,
    exit_code,
    open_in_browser,
    positive,
    print_json,
    report,
    seed,
)
from svfm_ros.config.node_config import WebNodeConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.progress import progress
from svfm_ros.targets import Check
from svfm_ros.web.page_address import free_port, page_address
from svfm_ros.wording import percent

if TYPE_CHECKING:
    from svfm_ros.nodes.graph_listener import GraphListener
    from svfm_ros.sim.demo_days import DemoWalks
    from svfm_ros.types import Forecast, OccupancyGrid, Places

__all__ = ["add_arguments", "run"]

_ROOM_BYTES = 256 << 20  # for bags, walks and logs
_TRAINING_S = 600.0
_SAY_EVERY_S = 5.0
_DWELL_S = 3.0  # a walk ends after so much rest
_INBOX = 5000  # scans; a fast replay must not drop any
_TRAINING = {"min_walks": 12, "min_new_walks": 24}
_FRAME_S = 0.33  # of the film
_LAST_CAPTION_S = 2.0  # until the page shows the last caption, which stays when the nodes have ended
_STORE = "store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm demo``."""
    parser.add_argument("--out", type=Path, default=Path("out/demo"), metavar="DIR", help="where to put what it makes")
    parser.add_argument(
        "--rate", type=positive(float, 100.0), default=8.0, help="times faster than real time while learning (8)"
    )
    parser.add_argument(
        "--repeats", type=positive(int, 100), default=5, help="walks from the couch to each place by day (5)"
    )
    parser.add_argument("--seed", type=seed, default=0, help="another seed, other walks (0)")
    parser.add_argument("--figures", action="store_true", help="also print the figures with their targets")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Simulate, replay, train, forecast, check."""
    from svfm_ros.nodes.demo_figures import demo_checks
    from svfm_ros.nodes.graph_listener import graph_listener
    from svfm_ros.nodes.runtime.node_processes import node_processes

    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(random.SystemRandom().randint(1, 101)))
    began_s = time.monotonic()
    check_output_folder(args.out, _ROOM_BYTES)
    _refuse_foreign(args.out)
    make_folder(args.out)
    port = free_port(WebNodeConfig().host, WebNodeConfig().port)
    address = page_address(WebNodeConfig().host, port, "")
    print(f"watch it: {address}", file=sys.stderr if args.json else sys.stdout, flush=True)
    page = {"web_node": {"port": port, "recorder.dwell_time_s": _DWELL_S}}
    with graph_listener() as listener, contextlib.ExitStack() as nodes, node_processes(args.out, page):
        open_in_browser(address)
        walks = _story(listener, args, nodes)
        shown = _pick(listener, walks)
        made = _write_results(args.out, listener, walks, shown)
        checks = demo_checks(listener.received, walks, shown)
        _caption(listener, f"That was it. The report: {made[0]}. The film: {made[1]}.")
        time.sleep(_LAST_CAPTION_S)
    took_s = round(time.monotonic() - began_s, 1)
    payload = {
        "seconds": took_s,
        "made": [str(p) for p in made],
        "figures": listener.received.figures,
        "shares": {n: dict(f.shares) for n, f in shown.items()},
        "truth": walks.shares,
    }
    if args.json:
        print_json(payload, checks)
    else:
        _conclude(checks, walks, shown, made, took_s, args.figures)
    return exit_code(checks)


def _refuse_foreign(out: Path) -> None:
    """Refuse a folder with recordings or walks that no earlier demo has made, because they would be replaced."""
    from svfm_ros.sim.demo_days import PARTS

    taken = [name for name in (_STORE, *PARTS) if (out / name).exists()]
    if taken and not (out / "web_node.log").exists():  # a demo begins with it
        raise UsageError(f"{out / taken[0]} is not from an earlier demo: expected another folder after --out")


def _story(listener: "GraphListener", args: argparse.Namespace, nodes: contextlib.ExitStack) -> "DemoWalks":
    """Everything that is watched, each part with a caption on the page; ``nodes`` ends the nodes that it starts."""
    from svfm_ros.nodes.runtime.node_processes import node_processes

    def caption(text: str) -> None:
        _say(text)
        _caption(listener, text)

    captions = _Captions(listener, caption)

    def replay(name: str, rate: float, text: str) -> None:
        captions.of_part = text
        _replay(listener, alive, walks, name, rate, captions.look)

    caption("A resident with a worn LiDAR is simulated: a morning, a night, and two walks more.")
    walks = _simulate(args.out, args.seed, args.repeats)
    alive = nodes.enter_context(node_processes(args.out, _nodes(args.out)))
    caption(f"Mapping: the LiDAR draws the house while its wearer walks, {args.rate:g} times as fast as real.")
    replay("day", args.rate, "")
    replay("night", args.rate, "The same evening: at night they mostly go to the landing.")
    caption(f"Learning again, from all {listener.received.walks} walks of day and night.")
    _learn(listener, alive)
    replay("live", 1.0, "Next morning, at real pace: the forecast sharpens with every step to the kitchen.")
    replay("back", args.rate, "Back to the couch.")
    replay("live_night", 1.0, "The same couch at night: before the first step, the landing is expected.")
    time.sleep(1.0)  # the last forecast is still on its way
    caption("The report and the film are being made.")
    return walks


def _caption(listener: "GraphListener", text: str) -> None:
    """Write a sentence over the plan of the live page."""
    listener.set_parameter("web_node", "caption", text)


class _Captions:
    """Captions that wait for what they are about: the first pose of a part, the first walk, the first model."""

    def __init__(self, listener: "GraphListener", caption: Callable[[str], None]) -> None:
        self._listener, self._caption = listener, caption
        self._walk = self._model = False
        self.of_part = ""  # written as soon as the part of the story has begun

    def look(self) -> None:
        """Write what has become true; called while a part is replayed, from its first pose on."""
        seen = self._listener.received
        if self.of_part:
            self._caption(self.of_part)
            self.of_part = ""
        if seen.walks and not self._walk:
            self._walk = True
            self._caption(f"Walks are cut where the wearer rests. {_TRAINING['min_walks']} of them make a first model.")
        if seen.models and not self._model:
            self._model = True
            self._caption(f"The first model, from {seen.models[0]['walks']} walks: forecasts begin.")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _simulate(out: Path, seed: int, repeats: int) -> "DemoWalks":
    from svfm_ros.sim.demo_days import make_walks
    from svfm_ros.walks.places import save_places

    with progress() as bar:

        def begin(scans: int) -> Callable[[], None]:
            task = bar.add_task("simulating walks", total=scans, note="")
            return lambda: bar.advance(task)

        walks = make_walks(out, seed, repeats, begin)
    save_places(walks.places, out / "places.yaml")
    return walks


def _nodes(out: Path) -> dict[str, dict[str, Any]]:
    """The nodes that the launch file starts, with their parameters and an empty store."""
    import shutil

    from svfm_ros.sim.demo_days import NIGHT_H

    store, places = out / _STORE, out / "places.yaml"
    shutil.rmtree(store, ignore_errors=True)
    return {
        "slam_node": {"store": store, "recorder.dwell_time_s": _DWELL_S, "inbox": _INBOX},
        "trainer_node": {"store": store, "places": places, "look_s": 5.0, "niceness": 5, **_TRAINING},
        "forecast_node": {"what_if_hour": NIGHT_H, "model_folder": store, "recorder.dwell_time_s": _DWELL_S},
    }


def _replay(
    listener: "GraphListener",
    alive: Callable[[], None],
    walks: "DemoWalks",
    name: str,
    rate: float,
    look: Callable[[], None],
) -> None:
    """Replay one bag in a process of its own and show its progress.

    ``look`` is called now and then, from the first pose of the bag on: until then the page shows the hour before.
    """
    from svfm_ros.nodes.runtime.node_processes import start_player

    before, total = len(listener.received.poses), walks.scans[name]
    player = start_player(walks.bags[name], rate)
    try:
        with progress() as bar:
            task = bar.add_task(f"replaying {name}", total=total, note="")

            def show(figures: dict[str, Any]) -> None:
                bar.update(task, **figures)
                if len(listener.received.poses) > before:
                    look()

            _wait(lambda: player.poll() is not None, alive, listener, show, before)
        if player.returncode:
            raise DataError(f"the replay of {walks.bags[name]} ended with code {player.returncode}")
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
    trainer = listener.received.figures.get("trainer_node", {})
    _wait(lambda: _idle(listener), alive, listener, timeout_s=_TRAINING_S)
    trainings = int(listener.received.figures.get("trainer_node", trainer).get("trainings", 0))
    begun, why = listener.call("/trainer_node/train_now")
    if not begun and "running already" not in why:
        raise DataError(f"expected a training, got: {why}")

    def over() -> bool:
        ended = int(listener.received.figures.get("trainer_node", {}).get("trainings", 0))
        return ended > trainings and _idle(listener)

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
    under_way = [n for n in sorted(listener.received.clouds["forecast"]) if since_ns <= n < walks.end_ns("live")]
    last = listener.forecast("forecast", under_way[int(0.7 * len(under_way))])
    return shown if last is None else {**shown, "under_way": last}


def _write_results(
    out: Path, listener: "GraphListener", walks: "DemoWalks", shown: "dict[str, Forecast]"
) -> list[Path]:
    """The report page, the film of the walk to the kitchen, and pictures of three forecasts."""
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.figures.forecast_figure import draw_forecasts
    from svfm_ros.pipeline.model_input import open_forecaster
    from svfm_ros.pipeline.walk_input import read_walks
    from svfm_ros.report import gather, render

    grid = listener.map()
    if grid is None:
        raise DataError("expected a map, got none")
    titles = {
        "day": "from the couch, by day",
        "night": "from the couch, what if it were night",
        "under_way": "by day, on the way to the kitchen",
    }
    forecaster = open_forecaster(out / _STORE / "model.pt", ForecastConfig(), None, grid)
    for name, forecast in shown.items():
        draw_forecasts(out / f"forecast_{name}.png", grid, [forecast], forecaster.places, [titles[name]])
    page = render(gather(forecaster, read_walks(out / _STORE, None).walks, grid))
    (out / "report.html").write_text(page, encoding="utf-8")
    return [out / "report.html", _write_film(out, grid, forecaster.places, listener, walks)]


def _write_film(
    out: Path, grid: "OccupancyGrid", places: "Places", listener: "GraphListener", walks: "DemoWalks"
) -> Path:
    """The forecasts of the walk to the kitchen until the wearer is well inside, three a second."""
    from svfm_ros.figures.animation import Moment, write_forecast_film
    from svfm_ros.wall_angle import wall_angle

    begin_ns, end_ns = walks.parts["live"].motion.start_ns, walks.end_ns("live")
    poses = {n: p for n, p in sorted(listener.received.poses.items()) if begin_ns <= n <= end_ns}
    goal = next(p for p in places if p.name == "kitchen")
    end_ns = next((n for n, p in poses.items() if np.hypot(*(p[:2] - goal.xy)) < goal.radius_m / 2), end_ns)
    moments, next_ns = [], 0
    for stamp_ns in sorted(listener.received.clouds["forecast"]):
        if not begin_ns <= stamp_ns <= end_ns or stamp_ns < next_ns:
            continue
        found = listener.forecast("forecast", stamp_ns)
        if found is not None:
            walked = np.array([p[:2] for n, p in poses.items() if n <= stamp_ns])
            moments.append(Moment((stamp_ns - begin_ns) * 1e-9, walked, found))
            next_ns = stamp_ns + round(_FRAME_S * 1e9)
    write_forecast_film(out / "walk.webp", grid, moments, places, "to the kitchen", _FRAME_S, wall_angle(grid))
    return out / "walk.webp"


def _conclude(
    checks: list[Check],
    walks: "DemoWalks",
    shown: "dict[str, Forecast]",
    made: list[Path],
    seconds: float,
    figures: bool,
) -> None:
    """A few sentences instead of a table."""
    from svfm_ros.nodes.demo_figures import FORECAST_LATENCY, KITCHEN, RMSE

    value = {c.name: c.value for c in checks}
    if figures:
        report("the live pipeline, in a simulated house", checks, {}, as_json=False)
    landing = {name: shown[name].shares.get("landing", 0.0) for name in ("day", "night")}
    print(
        f"{walks.walks} walks became a map, a model and forecasts in {seconds:.0f} s.\n"
        f"The wearer's position was {100 * value[RMSE]:.0f} cm off (root mean square), and a forecast came "
        f"{value[FORECAST_LATENCY]:.0f} ms after its scan.\n"
        f"The walk to the kitchen was forecast with at least 70 % from {value[KITCHEN]:.1f} m before it.\n"
        f"From the couch, the landing is expected with {percent(landing['night'])} at night and "
        f"{percent(landing['day'])} by day; they really went there "
        f"{percent(walks.shares['night'].get('landing', 0.0))} and "
        f"{percent(walks.shares['day'].get('landing', 0.0))} of the time."
    )
    missed = [f"{c.name} is {c.value:.3g}, expected {c.target}" for c in checks if not c.ok]
    print("Missed: " + "; ".join(missed) if missed else "All figures hold (--figures shows them).")
    print(f"Report: {made[0]}, film: {made[1]}")
    open_in_browser(made[0].absolute().as_uri())
