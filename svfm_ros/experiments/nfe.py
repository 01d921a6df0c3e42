"""Function evaluations per instance: VF, VF+TVLoss, SVFM and SVFM+TVLoss, each instance solved alone (figs. 9, 13).

All fields have the same bound on their length. Beside the mean over instances stands the number for a batch that shares
one step size, which is that of its hardest row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from svfm_ros.config.svfm_config import SolverConfig
from svfm_ros.experiments.classifiers import (
    KINDS,
    SETS,
    STEPS,
    ClassifierSpec,
    TrainedClassifier,
    test_points,
    train_all,
)
from svfm_ros.experiments.experiment import ExperimentResult, Tick
from svfm_ros.svfm.noise import Noise
from svfm_ros.svfm.solver.solve import solve
from svfm_ros.targets import Check, at_least

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["run_nfe"]

_ACTIVATIONS = ("relu", "tanh")
_TOLERANCES = (1e-6, 1e-4)
_SEEDS = 3
_QUICK_STEPS = 60
_SAVED = 3.0  # evaluations per instance, the least the paper saw
_PAIRS = (("VF", "VF+TVLoss"), ("VF", "SVFM+TVLoss"), ("VF+TVLoss", "SVFM+TVLoss"))
_COLOURS = {"VF": "#2b6cb0", "VF+TVLoss": "#dd6b20", "SVFM": "#68b36b", "SVFM+TVLoss": "#276749"}


@dataclass(frozen=True, slots=True)
class _EvaluationCounts:
    """Evaluations of one set, kind, activation and tolerance."""

    points: str
    kind: str
    activation: str
    tolerance: float
    per_instance: NDArray[np.int64]  # (seeds * N,)
    per_batch: float  # mean over seeds

    @property
    def mean(self) -> float:
        return float(self.per_instance.mean())


def run_nfe(quick: bool, tick: Tick) -> ExperimentResult:
    """Train (or reuse) the classifiers, count, compare."""
    seeds, activations = (1, ("relu",)) if quick else (_SEEDS, _ACTIVATIONS)
    steps = dict.fromkeys(SETS, _QUICK_STEPS) if quick else STEPS
    specs = [
        ClassifierSpec(p, k, a, s, steps=steps[p])
        for p in SETS
        for k in KINDS
        for a in activations
        for s in range(seeds if a == "relu" else 1)
    ]
    trained = train_all(specs, tick)
    counted = []
    for points in SETS:
        for activation in activations:
            for tolerance in _TOLERANCES:
                same = [t for t in trained if (t.spec.points, t.spec.activation) == (points, activation)]
                counted += [_count([t for t in same if t.spec.kind == k], tolerance) for k in KINDS]
                tick(f"counting on {points}")
    return ExperimentResult(
        "nfe",
        f"function evaluations per instance, dopri5, mean over {seeds} seeds (tanh: one)",
        ("set", "units", "tolerance", "solved", *(k.replace("Loss", "") for k in KINDS), "saved", "SVFM < VF+TV"),
        tuple(_rows(counted)),
        tuple(_checks(counted)),
        lambda: _draw([c for c in counted if c.tolerance == _TOLERANCES[0] and c.activation == "relu"]),
        ("saved: by SVFM+TV over VF, per instance", _paper_claim(counted)),
    )


def _count(trained: list[TrainedClassifier], tolerance: float) -> _EvaluationCounts:
    spec = trained[0].spec
    runs = [_evaluations(t, tolerance) for t in trained]
    instances = np.concatenate([r[0] for r in runs])
    return _EvaluationCounts(
        spec.points, spec.kind, spec.activation, tolerance, instances, float(np.mean([r[1] for r in runs]))
    )


@torch.no_grad()
def _evaluations(trained: TrainedClassifier, tolerance: float) -> tuple[NDArray[np.int64], int]:
    """Per row with steps of its own, and for the whole batch with one step size (torchdiffeq)."""
    flow = trained.model().flow.double()  # single precision would itself cost steps at 1e-6
    x = test_points(trained.spec).x.double()
    noise = flow.draw(0, len(x)) if flow.config.stochastic else Noise.none(len(x), 2, dtype=torch.float64)
    field = flow.realise(noise, flow.pick(torch.zeros(()).double(), x, noise))
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    alone = solve(field, x, times, config=SolverConfig(rtol=tolerance, atol=tolerance)).check()
    batch = SolverConfig(method="torchdiffeq:dopri5", rtol=tolerance, atol=tolerance)
    return alone.nfe.numpy(), int(solve(field, x, times, config=batch).nfe[0])


def _cases(counted: list[_EvaluationCounts]) -> Iterator[tuple[tuple[str, str, str], dict[str, _EvaluationCounts]]]:
    """Set, units and tolerance of each case, and its counts by kind."""
    for i in range(0, len(counted), len(KINDS)):
        head = counted[i]
        yield (head.points, head.activation, f"{head.tolerance:g}"), {c.kind: c for c in counted[i : i + len(KINDS)]}


def _rows(counted: list[_EvaluationCounts]) -> Iterator[tuple[Any, ...]]:
    for where, by_kind in _cases(counted):
        yield (*where, "alone", *_cells({kind: c.mean for kind, c in by_kind.items()}))
        yield (*where, "as a batch", *_cells({kind: c.per_batch for kind, c in by_kind.items()}))


def _cells(means: dict[str, float]) -> tuple[Any, ...]:
    """Evaluations of each kind, those saved by SVFM+TVLoss over VF, and whether SVFM alone is below VF+TVLoss."""
    below = "yes" if means["SVFM"] < means["VF+TVLoss"] else "no"
    return (*(round(means[k], 1) for k in KINDS), round(means["VF"] - means["SVFM+TVLoss"], 1), below)


def _checks(counted: list[_EvaluationCounts]) -> Iterator[Check]:
    for case, by_kind in _cases(counted):
        where = ", ".join(case)
        vf, vf_tv, svfm_tv = by_kind["VF"].mean, by_kind["VF+TVLoss"].mean, by_kind["SVFM+TVLoss"].mean
        ordered = svfm_tv < vf_tv < vf
        yield Check(f"{where}: SVFM+TVLoss < VF+TVLoss < VF", float(ordered), "true", ordered)
        saved = f"{where}: saved per instance by SVFM+TVLoss ({svfm_tv:.1f}) over VF ({vf:.1f})"
        yield at_least(saved, vf - svfm_tv, _SAVED)


def _paper_claim(counted: list[_EvaluationCounts]) -> str:
    """Where SVFM without TVLoss needs fewer evaluations than VF+TVLoss, as in the paper, and where not."""
    cases = list(_cases(counted))
    fails = ["/".join(case) for case, c in cases if c["SVFM"].mean >= c["VF+TVLoss"].mean]
    holds = len(cases) - len(fails)
    return (
        f"SVFM without TVLoss is below VF+TVLoss in {holds} of {len(cases)} cases; not on {', '.join(fails) or 'none'}"
    )


def _draw(counted: list[_EvaluationCounts]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 15), layout="constrained")
    axes = figure.subplots(1 + len(SETS), 3)
    for axis, points in zip(axes[0], SETS, strict=True):
        _draw_histogram(axis, [c for c in counted if c.points == points])
    for row, points in zip(axes[1:], SETS, strict=True):
        by_kind = {c.kind: c for c in counted if c.points == points}
        for axis, (first, second) in zip(row, _PAIRS, strict=True):
            _draw_pair(axis, by_kind[first], by_kind[second])
    return figure


def _draw_histogram(axis: "Axes", counted: list[_EvaluationCounts]) -> None:
    high = max(int(c.per_instance.max()) for c in counted)
    for c in counted:
        axis.hist(
            c.per_instance,
            bins=[float(e) for e in range(5, high + 7, 6)],
            alpha=0.55,
            color=_COLOURS[c.kind],
            label=c.kind,
        )
    axis.set_title(counted[0].points)
    axis.set_xlabel("function evaluations per instance")
    axis.legend(fontsize=7)


def _draw_pair(axis: "Axes", first: _EvaluationCounts, second: _EvaluationCounts) -> None:
    high = int(max(first.per_instance.max(), second.per_instance.max())) + 6
    edges = np.arange(5, high + 7, 6)
    axis.hist2d(first.per_instance, second.per_instance, bins=[edges, edges], cmap="Reds", norm="symlog")
    axis.plot([5, high], [5, high], color="grey", linewidth=0.8)
    saved = first.per_instance - second.per_instance
    axis.set_title(
        f"{first.points}: {first.mean:.1f} against {second.mean:.1f}, {saved.mean():.1f} saved each; "
        f"{np.mean(saved > 0):.0%} fewer, {np.mean(saved < 0):.0%} more",
        fontsize=8,
    )
    axis.set_xlabel(first.kind)
    axis.set_ylabel(second.kind)
