"""Models of simulated walks in the home, and their forecasts from the couch; used by pictures and experiments.

One task is one training; tasks can run in parallel processes, so they return plain arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import hours_of_day, parse_local_time
from svfm_ros.config.forecast_config import ForecastConfig, WalkTrainConfig
from svfm_ros.config.sim_config import HabitConfig, LidarConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.pipeline.learn import LearnConfig, learn
from svfm_ros.sim.house import House, floor_plan, load_house
from svfm_ros.sim.walker import ANCHOR, is_night, simulate_habit, simulate_protocol
from svfm_ros.types import Place, Places, Walk, WalkWindows
from svfm_ros.walks.windows import make_windows

__all__ = [
    "ELSEWHERE",
    "HORIZON_S",
    "SHOWN",
    "HomeTask",
    "Learnt",
    "PathsAtHour",
    "at_night",
    "end_shares",
    "home_forecaster",
    "learn_home",
    "targets",
    "task_windows",
]

Array = NDArray[np.float64]

ELSEWHERE = "elsewhere"
"""The share of ends that lie in no place."""

HORIZON_S = 16.0  # longer than any walk takes, pauses included
SHOWN = 200
"""Paths that are drawn, as in the paper; shares are those of all that were sampled."""

_SAMPLES = 2000
_ASKED_ON = "2026-11-30"  # after the last of the simulated walks
_HABITS = HabitConfig()


@dataclass(frozen=True, slots=True)
class HomeTask:
    """One training: which walks, how many of them, and the local hours of the forecasts."""

    walks: Literal["protocol", "day and night"]
    count: int
    seed: int
    hour: float  # of the question
    what_if_hours: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PathsAtHour:
    """Sampled paths from the couch at one hour."""

    hour: float
    shares: dict[str, float]  # of all sampled paths, by ``end_shares``
    paths: Array  # (SHOWN, K, 2), some of them, metres


@dataclass(frozen=True, slots=True)
class Learnt:
    """What one training gave: the question's own hour first, then the hours of the what-ifs."""

    data: dict[str, float]  # shares of the ends of the walks it was trained on
    answers: tuple[PathsAtHour, ...]


def targets(house: House) -> tuple[Place, ...]:
    """The four places people walk to from the couch."""
    return tuple(p for p in house.places if p.name != ANCHOR)


def at_night(hours: Array) -> NDArray[np.bool_]:
    """Which local hours belong to the night."""
    return np.array([is_night(float(h), _HABITS) for h in hours], dtype=np.bool_)


def task_walks(task: HomeTask, house: House) -> list[Walk]:
    """The simulated walks of a task."""
    draw: dict[str, Callable[[], list[Walk]]] = {
        "protocol": partial(_protocol, house, task.count, task.seed),
        "day and night": partial(_day_and_night, house, task.count, task.seed),
    }
    return draw[task.walks]()


def task_windows(task: HomeTask, house: House) -> WalkWindows:
    """The same walks on the time step of training."""
    return make_windows(task_walks(task, house), WindowsConfig(time_zone=_HABITS.time_zone))


def _protocol(house: House, count: int, seed: int) -> list[Walk]:
    """The paper's recordings, equally many to each target."""
    return [w.walk for w in simulate_protocol(house, seed=seed, repeats=count // len(targets(house)), habits=_HABITS)]


def _day_and_night(house: House, count: int, seed: int) -> list[Walk]:
    """As many walks at night as by day: the day is twice as long, so every other walk of it is left out."""
    walks = [w.walk for w in simulate_habit(house, seed=seed, count=count * 3 // 2, habits=_HABITS)]
    night = at_night(hours_of_day(np.array([w.stamps_ns[0] for w in walks]), _HABITS.time_zone))
    kept = night | (np.cumsum(~night) % 2 == 1)
    return [w for w, keep in zip(walks, kept.tolist(), strict=True) if keep]


def learn_home(task: HomeTask) -> Learnt:
    """Simulate walks, train a model, forecast."""
    house = load_house()
    forecaster, windows = home_forecaster(task, house)
    answers = tuple(_ask(forecaster, house, task, what_if) for what_if in (None, *task.what_if_hours))
    return Learnt(end_shares(windows.end_xy, house.places), answers)


def home_forecaster(task: HomeTask, house: House) -> tuple[Forecaster, WalkWindows]:
    """Simulate and train; also the walks that were learnt from."""
    walks = task_walks(task, house)
    config = LearnConfig(windows=WindowsConfig(time_zone=_HABITS.time_zone), train=WalkTrainConfig(seed=task.seed))
    file = learn(walks, config, places=house.places).file
    windows = make_windows(walks, config.windows)
    walls = floor_plan(house, LidarConfig().height_m)
    return Forecaster(file, house.places, ForecastConfig(), walls), windows


def _ask(forecaster: Forecaster, house: House, task: HomeTask, what_if: float | None) -> PathsAtHour:
    minutes = round(60 * task.hour)
    now = parse_local_time(f"{_ASKED_ON}T{minutes // 60:02d}:{minutes % 60:02d}", _HABITS.time_zone)
    found = forecaster.forecast(
        house.place(ANCHOR).xy, now, what_if_hour=what_if, horizon_s=HORIZON_S, samples=_SAMPLES, seed=task.seed
    )
    hour = task.hour if what_if is None else what_if
    ends = end_shares(found.samples_xy[:, -1], house.places)
    return PathsAtHour(hour, ends, found.samples_xy[:SHOWN])


def end_shares(ends: Array, places: Places) -> dict[str, float]:
    """Shares of ends (N, 2) that lie in each place, and elsewhere: one rule for walks and for all models."""
    index = places.assign(ends)
    shares = {name: float((index == i).mean()) for i, name in enumerate(places.names)}
    return {**shares, ELSEWHERE: float((index < 0).mean())}
