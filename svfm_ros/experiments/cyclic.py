"""Extrapolation of a periodic function: sin(t) + t/10 learnt on [0, 2 pi], evaluated up to 10 pi (fig. 8).

The tuple (cos t, sin t) shows the field the same times again and again; a raw t leaves the range it was trained on.
The tuple alone is not enough: the function climbs, so states beyond the first period are new as well, and a field that
depends on them extrapolates badly. A penalty on the first-layer weights of the state makes it depend on time instead.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig, SolverConfig, TrainConfig
from svfm_ros.experiments.experiment import ExperimentResult, Tick, run_all
from svfm_ros.svfm.losses import squared_error
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.noise import Noise
from svfm_ros.svfm.solver.rk4 import rk4
from svfm_ros.svfm.solver.solve import solve
from svfm_ros.svfm.training import train
from svfm_ros.targets import Check, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["run_cyclic"]

Array = NDArray[np.float64]

_TRAINED_TO = 2 * np.pi
_ASKED_AT = 10 * np.pi
_GRID = 24  # steps of one period while training
_SEEDS = 3
_STEPS, _QUICK_STEPS = 400, 80
_TARGET = 0.15
_PENALTY = 0.1  # on the weights that read the state


@dataclass(frozen=True, slots=True)
class _TimeInput:
    """A way to show time to the field."""

    name: str
    time: Literal["raw", "cyclic"]
    penalty: float
    seed: int
    steps: int


@dataclass(frozen=True, slots=True)
class _LearntFunction:
    """The learnt function along [0, 10 pi]."""

    variant: _TimeInput
    times: Array  # (T,)
    values: Array  # (T,)
    at_evaluations: Array  # (E, 2), time and state of each evaluation by the solver

    @property
    def worst(self) -> float:
        """Largest error along the way."""
        return float(np.abs(self.values - _truth(self.times)).max())

    @property
    def at_end(self) -> float:
        """Error at 10 pi."""
        return float(abs(self.values[-1] - _truth(self.times[-1:])[0]))


def run_cyclic(quick: bool, tick: Tick) -> ExperimentResult:
    """With the time tuple and the penalty, with the tuple and no penalty, and with time itself as the input."""
    seeds, steps = (1, _QUICK_STEPS) if quick else (_SEEDS, _STEPS)
    kinds = (("time tuple", "cyclic", _PENALTY), ("time tuple, state free", "cyclic", 0.0), ("raw time", "raw", 0.0))
    variants = [_TimeInput(n, t, p, s, steps) for n, t, p in kinds for s in range(seeds)]  # type: ignore[arg-type]
    learnt = run_all(_learn, variants, tick, "learning sin(t) + t/10:")
    by_name = {name: [k for k in learnt if k.variant.name == name] for name, _, _ in kinds}
    return ExperimentResult(
        "cyclic",
        f"sin(t) + t/10 learnt on [0, 2π], evaluated at 10π, {seeds} seeds",
        ("variant", "error at 10π, mean", "error at 10π, worst", "worst along the way"),
        tuple(_row(name, runs) for name, runs in by_name.items()),
        tuple(_checks(by_name)),
        lambda: _draw([runs[0] for runs in by_name.values()]),
    )


def _truth(times: Array) -> Array:
    return np.asarray(np.sin(times) + times / 10.0)


def _learn(variant: _TimeInput) -> _LearntFunction:
    model_config = ModelConfig(
        dim=1, stochastic=False, components=1, activation="tanh", time=variant.time, period=2 * np.pi
    )
    times = torch.linspace(0.0, _TRAINED_TO, _GRID + 1)
    target = torch.sin(times) + times / 10.0

    def objective(model: MixtureModel, batch: tuple[Tensor, ...], _seed: int) -> Tensor:
        none = Noise.none(len(batch[0]), 1)
        field = model.realise(none, torch.zeros(len(batch[0]), dtype=torch.long))
        states = rk4(field, batch[0], times).states  # (T + 1, 1, 1)
        fit = squared_error(target.view(-1, 1, 1), states).mean()
        return fit + variant.penalty * _reading_of_state(model) if variant.penalty else fit

    trained = train(
        lambda seed: MixtureModel(model_config, seed),
        objective,
        (target[:1].view(1, 1),),
        None,
        TrainConfig(seed=variant.seed, steps=variant.steps, batch_size=0),
    )
    return _follow(variant, trained.model)


def _reading_of_state(model: MixtureModel) -> Tensor:
    """Sum of squares of the first layer's weights that read the state."""
    first, _ = model.fields.net.weights()[0]  # (1, in, out); the state comes first
    return first[:, : model.config.width].square().sum()


@torch.no_grad()
def _follow(variant: _TimeInput, model: MixtureModel) -> _LearntFunction:
    model = model.double()
    inner = model.realise(Noise.none(1, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.long))
    evaluated: list[tuple[float, float]] = []

    def field(t: Tensor, h: Tensor) -> Tensor:
        evaluated.append((float(t.reshape(-1)[0]), float(h[0, 0])))
        return inner(t, h)

    times = torch.linspace(0.0, _ASKED_AT, 401, dtype=torch.float64)
    states = solve(field, torch.zeros(1, 1, dtype=torch.float64), times, config=SolverConfig()).check().states
    return _LearntFunction(variant, times.numpy(), states[:, 0, 0].numpy(), np.array(evaluated))


def _row(name: str, runs: list[_LearntFunction]) -> tuple[str, float, float, float]:
    ends = [r.at_end for r in runs]
    return name, float(np.mean(ends)), max(ends), max(r.worst for r in runs)


def _checks(by_name: dict[str, list[_LearntFunction]]) -> list[Check]:
    with_tuple, raw = by_name["time tuple"], by_name["raw time"]
    return [
        at_most("with the tuple: error at 10π in the worst seed", max(r.at_end for r in with_tuple), _TARGET),
        at_most("with the tuple: error along the way in the worst seed", max(r.worst for r in with_tuple), _TARGET),
        at_least("without: error along the way in the best seed (it fails)", min(r.worst for r in raw), 2 * _TARGET),
    ]


def _draw(learnt: list[_LearntFunction]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    for axis, run in zip(figure.subplots(len(learnt), 1, sharex=True), learnt, strict=True):
        axis.axvspan(0, _TRAINED_TO, color="#2b6cb0", alpha=0.12, label="trained on")
        axis.axvspan(_TRAINED_TO, _ASKED_AT, color="#c53030", alpha=0.08, label="beyond")
        axis.plot(run.times, _truth(run.times), color="black", linewidth=1, label="sin(t) + t/10")
        axis.plot(run.times, run.values, "--", color="#dd6b20", linewidth=1.4, label="learnt")
        inside = run.at_evaluations[:, 0] <= _TRAINED_TO
        for mask, colour in ((inside, "#2b6cb0"), (~inside, "#c53030")):
            axis.plot(*run.at_evaluations[mask].T, ".", markersize=3, color=colour)
        axis.set_ylim(-2, 5)
        axis.set_title(f"{run.variant.name}: error {run.at_end:.3f} at 10π", fontsize=10)
    figure.axes[0].legend(fontsize=8, loc="upper left")
    figure.axes[-1].set_xlabel("t")
    return figure
