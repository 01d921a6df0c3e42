"""Classification of circles, moons and exclusive or with VF, VF+TVLoss and SVFM (figs. 7 and 12)."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from svfm_ros.experiments.classifiers import (
    KINDS,
    NOISE,
    STEPS,
    ClassifierSpec,
    Points,
    TrainedClassifier,
    accuracy,
    bayes_rate,
    test_points,
    train_all,
)
from svfm_ros.experiments.experiment import ExperimentResult, Tick
from svfm_ros.svfm.classifier import Classifier
from svfm_ros.svfm.selection import choose
from svfm_ros.targets import Check, at_least

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["run_circles", "run_moons", "run_xor"]

_TARGETS = {"circles": 0.99, "moons": 0.99, "xor": 0.98}
_HARDER = {"circles": (0.1, 0.15), "moons": (0.2, 0.3), "xor": ()}
_HARDER_STEPS = 300
_SEEDS = 3
_QUICK_STEPS = 60
_SHOWN = ("VF", "VF+TVLoss", "SVFM")
_FRAMES = (0.0, 0.25, 0.5, 1.0)
_PATHS = 60
_COLOURS = ("#2b6cb0", "#c53030")


@dataclass(frozen=True, slots=True)
class _Score:
    kind: str
    noise: float
    accuracies: tuple[float, ...]  # one per seed
    bayes: float


def _run(name: str, quick: bool, tick: Tick) -> ExperimentResult:
    seeds, noises = (1, (NOISE[name],)) if quick else (_SEEDS, (NOISE[name], *_HARDER[name]))
    steps = _QUICK_STEPS if quick else STEPS[name]
    scores: list[_Score] = []
    shown: dict[str, TrainedClassifier] = {}
    for noise in noises:
        given, n, taken = (None, seeds, steps) if noise == NOISE[name] else (noise, 1, min(steps, _HARDER_STEPS))
        specs = [ClassifierSpec(name, k, seed=s, noise=given, steps=taken) for k in KINDS for s in range(n)]
        trained = train_all(specs, tick)
        scores += [_score(k, noise, [t for t in trained if t.spec.kind == k], name) for k in KINDS]
        shown = shown or {t.spec.kind: t for t in trained if t.spec.seed == 0}
    rows = tuple(
        (s.kind, f"{s.noise:g}", float(np.mean(s.accuracies)), min(s.accuracies), float(np.std(s.accuracies)), s.bayes)
        for s in scores
    )
    return ExperimentResult(
        name,
        f"test accuracy over {seeds} seeds (harder noise: one), 1,000 points each for training, validation and test",
        ("model", "noise", "mean", "worst", "spread", "Bayes rate"),
        rows,
        tuple(_check(name, s) for s in scores if s.noise == NOISE[name]),
        lambda: _draw(shown),
    )


run_circles, run_moons, run_xor = (partial(_run, name) for name in ("circles", "moons", "xor"))


def _score(kind: str, noise: float, trained: list[TrainedClassifier], name: str) -> _Score:
    found = tuple(accuracy(t.model(), test_points(t.spec)) for t in trained)
    return _Score(kind, noise, found, bayes_rate(name, noise))


def _check(name: str, score: _Score) -> Check:
    return at_least(f"{name}, {score.kind}: test accuracy in the worst seed", min(score.accuracies), _TARGETS[name])


def _draw(shown: dict[str, TrainedClassifier]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 7.8), layout="constrained")
    axes = figure.subplots(len(_SHOWN), len(_FRAMES) + 2)
    for row, kind in zip(axes, _SHOWN, strict=True):
        model, points = shown[kind].model(), test_points(shown[kind].spec)
        states = _carried(model, points)  # (T + 1, N, 2)
        _draw_paths(row[0], states, points)
        for axis, share in zip(row[1:-1], _FRAMES, strict=True):
            at = states[round(share * (len(states) - 1))]
            axis.scatter(at[:, 0], at[:, 1], s=4, c=[_COLOURS[i] for i in points.label.tolist()], linewidths=0)
            axis.set_title(f"t = {share:.2f}", fontsize=9)
        _draw_prediction(row[-1], model, points)
        row[0].set_ylabel(kind)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_aspect("equal", "datalim")
    return figure


@torch.no_grad()
def _carried(model: Classifier, points: Points) -> Any:
    """States (T + 1, N, 2) of each point along the component drawn for it."""
    noise = model.flow.draw(0, len(points.x)) if model.flow.config.stochastic else None
    out = model.forward(points.x, noise)
    uniform = torch.full((len(points.x),), 0.5) if noise is None else noise.u_component
    component = choose(out.log_weight[0].exp(), uniform)
    return out.states[:, torch.arange(len(component)), component].numpy()


def _draw_paths(axis: "Axes", states: Any, points: Points) -> None:
    for i in range(_PATHS):
        colour = _COLOURS[int(points.label[i])]
        axis.plot(states[:, i, 0], states[:, i, 1], color=colour, linewidth=0.6, alpha=0.7)
        axis.plot(*states[0, i], "o", color=colour, markersize=2)
    axis.set_title("paths", fontsize=9)


@torch.no_grad()
def _draw_prediction(axis: "Axes", model: Classifier, points: Points) -> None:
    low, high = points.x.min(0).values - 0.3, points.x.max(0).values + 0.3
    x, y = torch.meshgrid(torch.linspace(low[0], high[0], 80), torch.linspace(low[1], high[1], 80), indexing="xy")
    prob = model.predict(torch.stack((x.flatten(), y.flatten()), -1), 4)[:, 1].reshape(x.shape)
    axis.contourf(x, y, prob, levels=np.linspace(0, 1, 11), cmap="coolwarm", alpha=0.8)
    axis.scatter(points.x[:200, 0], points.x[:200, 1], s=3, c=[_COLOURS[i] for i in points.label[:200].tolist()])
    axis.set_title("p(class)", fontsize=9)
