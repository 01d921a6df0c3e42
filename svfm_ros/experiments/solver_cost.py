"""What makes an adaptive solver expensive: fields that turn (appendix A.2) and noise that is not frozen (section 3).

``alignment``: truncation error and steps of dopri5 as a turning field becomes a straight one. ``frozen``: evaluations
per path with noise drawn once per path, and with noise drawn at every evaluation.
"""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig, SolverConfig
from svfm_ros.experiments.experiment import ExperimentResult, Tick
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.solver.solution import Solution
from svfm_ros.svfm.solver.solve import solve
from svfm_ros.targets import Check, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["run_alignment", "run_frozen"]

_ALIGNED = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)
_TURNS_PER_UNIT = 1.0
_ROWS = 200

_PATHS = 64
_TOLERANCES = (1e-2, 1e-3, 1e-4)
_MOST_STEPS = 3000
_SEED = 1


@dataclass(frozen=True, slots=True)
class _AlignmentCost:
    """What a field of that alignment costs over unit time."""

    alignment: float
    error: float  # of one whole step, mean over rows
    steps: float  # accepted, when the solver may try the whole interval first
    nfe: float  # when the solver chooses its first step


def run_alignment(quick: bool, tick: Tick) -> ExperimentResult:  # noqa: ARG001 (it is quick anyway)
    """Blend a rotation with a constant field, from all rotation to none."""
    costs = []
    for alignment in _ALIGNED:
        costs.append(_measure_alignment(alignment))
        tick(f"alignment {alignment:g}")
    return ExperimentResult(
        "alignment",
        "one dopri5 step over the whole interval, and the solver's own steps at 1e-6",
        ("alignment", "truncation error of one step", "steps", "NFE"),
        tuple((f"{c.alignment:g}", c.error, c.steps, c.nfe) for c in costs),
        tuple(_alignment_checks(costs)),
        lambda: _draw_alignment(costs),
    )


@dataclass(frozen=True, slots=True)
class _Blend:
    """``alignment`` times a constant field plus the rest of a rotation about the origin."""

    alignment: float

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:  # noqa: ARG002 (fields take a time)
        turn = 2.0 * torch.pi * _TURNS_PER_UNIT
        rotation = turn * torch.stack((-h[:, 1], h[:, 0]), dim=-1)
        straight = torch.tensor([turn, 0.0], dtype=h.dtype).expand_as(h)
        return self.alignment * straight + (1.0 - self.alignment) * rotation


def _starts() -> Tensor:
    angle = torch.linspace(0.0, 2.0 * torch.pi, _ROWS + 1, dtype=torch.float64)[:-1]
    return torch.stack((angle.cos(), angle.sin()), dim=-1)


def _measure_alignment(alignment: float) -> _AlignmentCost:
    field, starts = _Blend(alignment), _starts()
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    fine = solve(field, starts, times, config=SolverConfig(rtol=1e-12, atol=1e-12)).check().end
    loose = SolverConfig(rtol=0.1, atol=1e6, first_step=1.0)  # accepts whatever one step gives
    one = solve(field, starts, times, config=loose).check()
    bold = solve(field, starts, times, config=SolverConfig(first_step=1.0)).check()
    own = solve(field, starts, times).check()
    error = (one.end - fine).norm(dim=-1).mean()
    return _AlignmentCost(alignment, float(error), float(bold.accepted.double().mean()), float(own.nfe.double().mean()))


def _alignment_checks(costs: list[_AlignmentCost]) -> list[Check]:
    aligned, errors = costs[-1], [c.error for c in costs]
    falls = all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(errors))
    return [
        at_most("aligned: steps", aligned.steps, 1.0),
        at_most("aligned: truncation error of one step", aligned.error, 1e-9),
        Check("the error falls all the way as fields align", float(falls), "true", falls),
    ]


def _draw_alignment(costs: list[_AlignmentCost]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    x = [c.alignment for c in costs]
    left.semilogy(x, [max(c.error, 1e-16) for c in costs], "o-", color="#2b6cb0")
    left.set_ylabel("truncation error of one step over the interval")
    right.plot(x, [c.steps for c in costs], "o-", color="#c53030", label="steps")
    right.plot(x, [c.nfe for c in costs], "s--", color="#718096", label="function evaluations")
    right.legend()
    for axis in (left, right):
        axis.set_xlabel("alignment: 0 turns, 1 is straight")
    return figure


@dataclass(frozen=True, slots=True)
class _NoiseCost:
    tolerance: float
    frozen: NDArray[np.int64]  # (B,) evaluations
    fresh: NDArray[np.int64]
    gave_up: float  # share of rows that ran out of steps without frozen noise


def run_frozen(quick: bool, tick: Tick) -> ExperimentResult:
    """The same random field, noise drawn once per path and once per evaluation."""
    costs = []
    for tolerance in _TOLERANCES[:2] if quick else _TOLERANCES:
        costs.append(_measure_noise(tolerance))
        tick(f"tolerance {tolerance:g}")
    return ExperimentResult(
        "frozen",
        f"function evaluations per path, {_PATHS} paths of a random SVF",
        ("tolerance", "frozen", "drawn anew", "ratio", "gave up"),
        tuple(
            (f"{c.tolerance:g}", c.frozen.mean(), c.fresh.mean(), c.fresh.mean() / c.frozen.mean(), c.gave_up)
            for c in costs
        ),
        tuple(
            at_least(f"evaluations saved by freezing at {c.tolerance:g}, ratio", c.fresh.mean() / c.frozen.mean(), 1.5)
            for c in costs
        ),
        lambda: _draw_noise(costs),
        (f"a path that needs more than {_MOST_STEPS} steps gives up and counts what it used: the ratio is a floor",),
    )


def _measure_noise(tolerance: float) -> _NoiseCost:
    model = MixtureModel(ModelConfig(components=1, activation="tanh", first_log_spread=0.3), seed=_SEED).double()
    start = torch.randn(_PATHS, 2, generator=torch.Generator().manual_seed(_SEED), dtype=torch.float64)
    config = SolverConfig(rtol=tolerance, atol=tolerance, max_steps=_MOST_STEPS)
    frozen, fresh = _solve_paths(model, start, config, anew=False), _solve_paths(model, start, config, anew=True)
    gave_up = float((~fresh.ok).double().mean())
    return _NoiseCost(tolerance, frozen.nfe.numpy(), fresh.nfe.numpy(), gave_up)


@torch.no_grad()
def _solve_paths(model: MixtureModel, start: Tensor, config: SolverConfig, anew: bool) -> Solution:
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


def _draw_noise(costs: list[_NoiseCost]) -> "Figure":
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
