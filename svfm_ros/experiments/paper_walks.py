"""The paper's models on the walks of the home, trained as in the paper: FLoss (eq. 11) on paths solved from the start.

VF and A-VF (one deterministic field) have the squared error as secondary loss, SVFM has MDLoss. The networks have the
time tuple as input. A walk that has ended stays where it ended, so that the fields learn to stop.

FLoss scores each time by itself, so walks may be explained by one component where their paths coincide and by another
one later. With narrow noise at the start of training this happens: one component takes over the common first metres,
the others get no gradient there, and the weight of a component becomes its share over all times instead of its share of
the walks (the front door got 0.12 to 0.25 of the paths, of walks 0.25). So SVFM starts with wide noise
(``_FIRST_SPREAD``), under which all components learn the common part.

Where walks are spread over the day, the network of the component weights has a hidden layer. Without one their logits
are sinusoids of the hour, which cannot follow habits that change at 22:00 and 6:00: with three other seeds the landing
had 0.78 to 0.83 of the paths at night (of walks 0.87 to 0.96), and 0.04 to 0.11 of the paths ended in no place; with it
0.80 to 0.90, and at most 0.02. Walks of one session say nothing about the hour; there the weights have none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.figures.home_example import SHOWN, HomeTask, PathsAtHour, end_shares, targets, task_windows
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import ANCHOR
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.objectives import Normaliser, walk_batch, walk_objective
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.training import Trained, seeded, train
from svfm_ros.types import Places, Walk, WalkWindows
from svfm_ros.walks.windows import make_windows

__all__ = ["MODELS", "PaperPaths", "PaperTask", "learn_paper_model", "paper_held_out_loss"]

Array = NDArray[np.float64]

MODELS = ("SVFM", "VF", "A-VF")
"""The paper's models that are trained on the walks."""

_HOUR_S = 3600.0
_SAMPLES = 2000
_STRIDE = 2  # of the walks' samples: one step of Runge-Kutta 4 while training takes 0.8 s
_BATCH = 80
_VALID_EVERY = 5  # every fifth walk is for validation
_RESTARTS = 2
_FIRST_SPREAD = 0.4  # standard deviation of log-length, and of direction as a tangent, before training
_TIMED = ModelConfig(max_speed=3.0, time="cyclic", period=24.0 * _HOUR_S)
_CONFIGS = {
    "SVFM": replace(_TIMED, first_log_spread=_FIRST_SPREAD),
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
class PaperPaths:
    """What one training gave, for the hours of its home task."""

    task: PaperTask
    answers: tuple[PathsAtHour, ...]


def learn_paper_model(task: PaperTask) -> PaperPaths:
    """Simulate the walks, train the model and sample paths from the couch."""
    house = load_house()
    windows = task_windows(task.home, house)
    scale = _scale_of(windows)
    config = _CONFIGS[task.model]
    if task.model == "SVFM":
        config = replace(config, components=len(targets(house)))
    if task.home.walks == "day and night":
        config = replace(config, gate="mlp")
    options = TrainConfig(seed=task.home.seed, steps=task.steps, batch_size=_BATCH, restarts=_RESTARTS)
    model = _trained(windows, scale, config, options).model
    start = scale.encode(torch.as_tensor(house.place(ANCHOR).xy, dtype=torch.float32))
    times = torch.linspace(0.0, float(windows.times_s[-1]), 2 * len(windows.times_s), dtype=torch.float64)
    hours = (task.home.hour, *task.home.what_if_hours)
    return PaperPaths(task, tuple(_answer(model, scale, start, hour, times, house.places) for hour in hours))


def paper_held_out_loss(walks: Sequence[Walk], options: Mapping[str, Any], steps: int) -> float:
    """FLoss (nats per step, in state units) of a fifth of a home's walks under the paper's SVFM learnt from the others.

    ``options`` are those of the paper's grid: layers, units, batch, rate.
    """
    windows = make_windows(walks)
    if not len(windows):
        raise DataError(f"expected walks of at least two steps, got none among {len(walks)}")
    config = replace(_CONFIGS["SVFM"], hidden_layers=int(options["layers"]), hidden_units=int(options["units"]))
    rate = float(options["rate"])
    train_config = TrainConfig(
        steps=steps, batch_size=int(options["batch"]), learning_rate=rate, gate_learning_rate=rate
    )
    return _trained(windows, _scale_of(windows), config, train_config).report.best_valid


def _scale_of(windows: WalkWindows) -> Normaliser:
    return Normaliser.fit(torch.as_tensor(windows.xy[windows.valid], dtype=torch.float32))


def _trained(
    windows: WalkWindows, scale: Normaliser, config: ModelConfig, options: TrainConfig
) -> Trained[MixtureModel]:
    """A model trained on four fifths of the walks, chosen by its loss on the others."""
    batch = _batch(windows, scale)
    velocities = (batch[2][:, -1] - batch[0]) / (windows.dt_s * float(windows.lengths.mean()))
    held_out = _held_out(velocities)
    return train(
        lambda seed: seeded(MixtureModel(config, seed), velocities, seed),
        walk_objective,
        tuple(x[~held_out] for x in batch),
        tuple(x[held_out] for x in batch),
        options,
    )


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
) -> PathsAtHour:
    """Paths as long as the longest walk."""
    noise = model.draw(0, _SAMPLES)
    states = sample_paths(model, start.expand(_SAMPLES, 2), hour * _HOUR_S + times, noise).states
    paths = scale.decode(states).transpose(0, 1).double().numpy()
    return PathsAtHour(hour, end_shares(paths[:, -1], places), paths[:SHOWN])
