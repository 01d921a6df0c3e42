"""Frozen noise and an adaptive solver: with it a path is an ordinary equation, without it the solver chases noise.

The paper's section 3 resets the generator before each draw; here the draws are made first and passed in. Both are
compared with what happens when every evaluation draws anew.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.solver_config import SolverConfig
from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.experiments.experiment_result import ExperimentResult, Tick
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.solver.solution import Solution
from svfm_ros.svfm.solver.solve import solve
from svfm_ros.targets import at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["run_frozen"]

_ROWS = 64
_TOLERANCES = (1e-2, 1e-3, 1e-4)
_MOST_STEPS = 3000
_SEED = 1


@dataclass(frozen=True, slots=True)
class _Cost:
    tolerance: float
    frozen: NDArray[np.int64]  # (B,) evaluations
    fresh: NDArray[np.int64]
    gave_up: float  # share of rows that ran out of steps without frozen noise


def run_frozen(quick: bool, tick: Tick) -> ExperimentResult:
    """The same random field, noise drawn once per path and once per evaluation."""
    costs = []
    for tolerance in _TOLERANCES[:2] if quick else _TOLERANCES:
        costs.append(_measure(tolerance))
        tick(f"tolerance {tolerance:g}")
    return ExperimentResult(
        "frozen",
        f"function evaluations per path, {_ROWS} paths of a random SVF",
        ("tolerance", "frozen", "drawn anew", "ratio", "gave up"),
        tuple(
            (f"{c.tolerance:g}", c.frozen.mean(), c.fresh.mean(), c.fresh.mean() / c.frozen.mean(), c.gave_up)
            for c in costs
        ),
        tuple(
            at_least(f"evaluations saved by freezing at {c.tolerance:g}, ratio", c.fresh.mean() / c.frozen.mean(), 1.5)
            for c in costs
        ),
        lambda: _draw(costs),
        (f"a path that needs more than {_MOST_STEPS} steps gives up and counts what it used: the ratio is a floor",),
    )


def _measure(tolerance: float) -> _Cost:
    model = MixtureModel(ModelConfig(components=1, activation="tanh", first_log_spread=0.3), seed=_SEED).double()
    start = torch.randn(_ROWS, 2, generator=torch.Generator().manual_seed(_SEED), dtype=torch.float64)
    config = SolverConfig(rtol=tolerance, atol=tolerance, max_steps=_MOST_STEPS)
    frozen, fresh = _solve(model, start, config, anew=False), _solve(model, start, config, anew=True)
    gave_up = float((~fresh.ok).double().mean())
    return _Cost(tolerance, frozen.nfe.numpy(), fresh.nfe.numpy(), gave_up)


@torch.no_grad()
def _solve(model: MixtureModel, start: Tensor, config: SolverConfig, anew: bool) -> Solution:
    """Rows see noise of their own; ``anew`` draws it again at every evaluation."""
    component = torch.zeros(len(start), dtype=torch.long)
    noise = model.draw(_SEED, len(start))
    held = model.realise(noise, component)
    calls = iter(range(10**9))

    def field(t: Tensor, h: Tensor) -> Tensor:
        fresh = model.draw(_SEED + 1 + next(calls), len(h))
        return model.realise(fresh, component[: len(h)])(t, h)

    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    return solve(field if anew else held, start, times, config=config)


def _draw(costs: list[_Cost]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    x = [c.tolerance for c in costs]
    axis.loglog(x, [c.frozen.mean() for c in costs], "o-", color="#276749", label="frozen for the path")
    axis.loglog(x, [c.fresh.mean() for c in costs], "s-", color="#c53030", label="drawn at every evaluation")
    axis.invert_xaxis()
    axis.set_xlabel("tolerance")
    axis.set_ylabel("function evaluations per path")
    axis.legend()
    return figure
