"""Aligned fields cost less: truncation error and steps as a turning field becomes a straight one (appendix A.2)."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from svfm_ros.config.solver_config import SolverConfig
from svfm_ros.experiments.experiment_result import ExperimentResult, Tick
from svfm_ros.svfm.solver.solve import solve
from svfm_ros.targets import Check, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["run_alignment"]

_ALIGNED = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)
_TURNS_PER_UNIT = 1.0
_ROWS = 200


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a field of that alignment costs over unit time."""

    alignment: float
    error: float  # of one whole step, mean over rows
    steps: float  # accepted, when the solver may try the whole interval first
    nfe: float  # when the solver looks for its first step by itself


def run_alignment(quick: bool, tick: Tick) -> ExperimentResult:  # noqa: ARG001 (it is quick anyway)
    """Blend a rotation with a constant field, from all rotation to none."""
    costs = []
    for alignment in _ALIGNED:
        costs.append(_measure(alignment))
        tick(f"alignment {alignment:g}")
    return ExperimentResult(
        "alignment",
        "one dopri5 step over the whole interval, and the solver's own steps at 1e-6",
        ("alignment", "truncation error of one step", "steps", "NFE"),
        tuple((f"{c.alignment:g}", c.error, c.steps, c.nfe) for c in costs),
        tuple(_checks(costs)),
        lambda: _draw(costs),
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


def _measure(alignment: float) -> _Cost:
    field, starts = _Blend(alignment), _starts()
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    fine = solve(field, starts, times, config=SolverConfig(rtol=1e-12, atol=1e-12)).check().end
    loose = SolverConfig(rtol=0.1, atol=1e6, first_step=1.0)  # accepts whatever one step gives
    one = solve(field, starts, times, config=loose).check()
    bold = solve(field, starts, times, config=SolverConfig(first_step=1.0)).check()
    own = solve(field, starts, times).check()
    error = (one.end - fine).norm(dim=-1).mean()
    return _Cost(alignment, float(error), float(bold.accepted.double().mean()), float(own.nfe.double().mean()))


def _checks(costs: list[_Cost]) -> list[Check]:
    aligned, errors = costs[-1], [c.error for c in costs]
    falls = all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(errors))
    return [
        at_most("aligned: steps", aligned.steps, 1.0),
        at_most("aligned: truncation error of one step", aligned.error, 1e-9),
        Check("the error falls all the way as fields align", float(falls), "true", falls),
    ]


def _draw(costs: list[_Cost]) -> "Figure":
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
