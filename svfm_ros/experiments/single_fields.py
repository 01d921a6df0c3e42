"""VF and A-VF on the walks of the home: one deterministic field, trained as in the paper by solving it (FLoss, eq. 11).

Networks see the time of day as the walk model's choice does. A walk that has ended stays where it ended, so a field is
asked to stop there.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.figures.home_example import SHOWN, HomeTask, task_windows
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import ANCHOR
from svfm_ros.svfm.losses import squared_error
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.normaliser import Normaliser
from svfm_ros.svfm.solver.rk4 import rk4
from svfm_ros.svfm.training import Batch, train
from svfm_ros.types import WalkWindows

__all__ = ["SingleField", "SingleTask", "learn_single"]

Array = NDArray[np.float64]

_HOUR_S = 3600.0
_STRIDE = 2  # of the walks' ticks: 0.8 s per step of the solver while training
_BATCH = 80
_CONFIG = ModelConfig(stochastic=False, components=1, max_speed=3.0, time="cyclic", period=24.0 * _HOUR_S)


@dataclass(frozen=True, slots=True)
class SingleTask:
    """One training: on the walks of a home task, with so many zeros added to the state (0 is VF)."""

    home: HomeTask
    augment: int
    steps: int

    @property
    def name(self) -> str:
        """The paper's name."""
        return "A-VF" if self.augment else "VF"


@dataclass(frozen=True, slots=True)
class SingleField:
    """Paths from the couch at the hours of the task: one per seed, to show that they are all the same."""

    task: SingleTask
    hours: tuple[float, ...]
    paths: tuple[Array, ...]  # (SHOWN, K, 2) for each hour


def learn_single(task: SingleTask) -> SingleField:
    """Simulate, train, follow."""
    house = load_house()
    windows = task_windows(task.home, house)
    scale = Normaliser.fit(torch.as_tensor(windows.xy[windows.valid], dtype=torch.float32))
    config = replace(_CONFIG, augment=task.augment)
    times = torch.as_tensor(windows.times_s[::_STRIDE], dtype=torch.float32)

    def objective(model: MixtureModel, batch: Batch, _seed: int) -> Tensor:
        walked, origin_s = batch  # (B, T + 1, 2), (B,)
        states = _follow(model, walked[:, 0], origin_s, times, 0)
        return squared_error(walked.transpose(0, 1)[1:], states[1:]).mean()

    options = TrainConfig(seed=task.home.seed, steps=task.steps, batch_size=_BATCH)
    trained = train(lambda seed: MixtureModel(config, seed), objective, _as_data(windows, scale), None, options)
    hours = (task.home.hour, *task.home.what_if_hours)
    start = torch.as_tensor(house.place(ANCHOR).xy, dtype=torch.float32)
    with torch.no_grad():
        return SingleField(task, hours, tuple(_paths(trained.model, scale, start, hour, times) for hour in hours))


def _as_data(windows: WalkWindows, scale: Normaliser) -> Batch:
    walked = scale.encode(torch.as_tensor(windows.xy[:, ::_STRIDE], dtype=torch.float32))
    return walked, torch.as_tensor(windows.start_hour * _HOUR_S, dtype=torch.float32)


def _follow(model: MixtureModel, start: Tensor, origin_s: Tensor, times: Tensor, seed: int) -> Tensor:
    """Positions (T + 1, B, 2) from starts (B, 2) set off from at times of day (B,)."""
    field = model.realise(model.draw(seed, len(start)), torch.zeros(len(start), dtype=torch.long), origin_s)
    return model.observed(rk4(field, model.pad(start), times).states)


def _paths(model: MixtureModel, scale: Normaliser, start: Tensor, hour: float, times: Tensor) -> Array:
    """As long as the longest walk, for beyond it nothing was learnt."""
    rows = scale.encode(start).expand(SHOWN, 2)
    fine = torch.linspace(0.0, float(times[-1]), 4 * len(times))
    states = _follow(model, rows, torch.full((SHOWN,), hour * _HOUR_S), fine, 1)
    return scale.decode(states).transpose(0, 1).double().numpy()
