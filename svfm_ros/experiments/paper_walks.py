"""The paper's models on the walks of the home, trained as in the paper: FLoss (eq. 11) on paths solved from the start.

VF and A-VF (one deterministic field) have the squared error as secondary loss, SVFM has MDLoss. The networks have the
time tuple as input. A walk that has ended stays where it ended, so that the fields learn to stop.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.figures.home_example import SHOWN, HomeTask, targets, task_windows
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import ANCHOR
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.normaliser import Normaliser
from svfm_ros.svfm.objectives import walk_batch, walk_objective
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.seeding import seeded
from svfm_ros.svfm.training import train
from svfm_ros.types import Places, WalkWindows

__all__ = ["ELSEWHERE", "MODELS", "PaperAnswer", "PaperPaths", "PaperTask", "learn_paper_model"]

Array = NDArray[np.float64]

ELSEWHERE = "elsewhere"
MODELS = ("SVFM", "VF", "A-VF")
"""The paper's models that are trained on the walks."""

_HOUR_S = 3600.0
_SAMPLES = 2000
_STRIDE = 2  # of the walks' samples: one step of Runge-Kutta 4 while training takes 0.8 s
_BATCH = 80
_VALID_EVERY = 5  # every fifth walk is for validation
_RESTARTS = 2
_TIMED = ModelConfig(max_speed=3.0, time="cyclic", period=24.0 * _HOUR_S)
_CONFIGS = {
    "SVFM": _TIMED,
    "VF": replace(_TIMED, stochastic=False, components=1),
    "A-VF": replace(_TIMED, stochastic=False, components=1, augment=2),
}


@dataclass(frozen=True, slots=True)
class PaperTask:
    """One training of a model of ``MODELS`` on the walks of a home task."""

    home: HomeTask
    model: str
    steps: int


@dataclass(frozen=True, slots=True)
class PaperAnswer:
    """Sampled paths from the couch at one hour."""

    hour: float
    shares: dict[str, float]  # of the ends of all sampled paths: places and elsewhere
    paths: Array  # (SHOWN, K, 2), metres


@dataclass(frozen=True, slots=True)
class PaperPaths:
    """What one training gave, for the hours of its home task."""

    task: PaperTask
    answers: tuple[PaperAnswer, ...]


def learn_paper_model(task: PaperTask) -> PaperPaths:
    """Simulate the walks, train the model and sample paths from the couch."""
    house = load_house()
    windows = task_windows(task.home, house)
    scale = Normaliser.fit(torch.as_tensor(windows.xy[windows.valid], dtype=torch.float32))
    batch = _batch(windows, scale)
    velocities = (batch[2][:, -1] - batch[0]) / (windows.dt_s * float(windows.lengths.mean()))
    config = replace(_CONFIGS[task.model], components=_components(task.model, len(targets(house))))
    held_out = _held_out(velocities)
    trained = train(
        lambda seed: seeded(MixtureModel(config, seed), velocities, seed),
        walk_objective,
        tuple(x[~held_out] for x in batch),
        tuple(x[held_out] for x in batch),
        TrainConfig(seed=task.home.seed, steps=task.steps, batch_size=_BATCH, restarts=_RESTARTS),
    )
    start = scale.encode(torch.as_tensor(house.place(ANCHOR).xy, dtype=torch.float32))
    times = torch.linspace(0.0, float(windows.times_s[-1]), 2 * len(windows.times_s), dtype=torch.float64)
    hours = (task.home.hour, *task.home.what_if_hours)
    return PaperPaths(task, tuple(_answer(trained.model, scale, start, hour, times, house.places) for hour in hours))


def _components(model: str, places: int) -> int:
    return places if model == "SVFM" else 1


def _held_out(velocities: Tensor) -> Tensor:
    """Mask (B,) of every fifth walk by direction, so that each place keeps its share of the walks."""
    order = torch.atan2(velocities[:, 1], velocities[:, 0]).argsort()
    mask = torch.zeros(len(order), dtype=torch.bool)
    mask[order[_VALID_EVERY - 1 :: _VALID_EVERY]] = True
    return mask


def _batch(windows: WalkWindows, scale: Normaliser) -> tuple[Tensor, ...]:
    """Starts (B, 2), seconds of the day (B, T + 1) and targets (B, T, 2) in state units."""
    rows = list(zip(windows.xy, windows.valid, windows.start_hour.tolist(), strict=True))
    times = [windows.times_s[valid] + _HOUR_S * hour for _, valid, hour in rows]
    xy = [path[valid] for path, valid, _ in rows]
    start, grid, targets_m = walk_batch(times, xy, (len(windows.times_s) - 1) // _STRIDE, float(windows.times_s[-1]))
    return scale.encode(start), grid, scale.encode(targets_m)


def _answer(
    model: MixtureModel, scale: Normaliser, start: Tensor, hour: float, times: Tensor, places: Places
) -> PaperAnswer:
    """Paths as long as the longest walk."""
    noise = model.draw(0, _SAMPLES)
    states = sample_paths(model, start.expand(_SAMPLES, 2), hour * _HOUR_S + times, noise).states
    paths = scale.decode(states).transpose(0, 1).double().numpy()
    index = places.assign(paths[:, -1])
    shares = {name: float((index == i).mean()) for i, name in enumerate(places.names)}
    return PaperAnswer(hour, {**shares, ELSEWHERE: float((index < 0).mean())}, paths[:SHOWN])
