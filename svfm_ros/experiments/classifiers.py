"""Training of the paper's classifiers: VF, VF+TVLoss, SVFM and SVFM+TVLoss, all with the same bound on field length.

They learn three sets of points. Nested circles and moons are drawn by scikit-learn; exclusive or is uniform on a
square. The Bayes rate of the first two comes from their true density: a curve blurred by Gaussian noise.

The weight of TVLoss is chosen on validation points, once for each set: the largest whose accuracy there is within half
a percentage point of the best. Trained classifiers are cached for later experiments in the same process.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.errors import UsageError
from svfm_ros.experiments.experiment import Tick, run_all
from svfm_ros.svfm.classifier import Classifier, classifier_loss
from svfm_ros.svfm.training import train

__all__ = [
    "GRID",
    "KINDS",
    "NOISE",
    "PAPER_GRID",
    "SETS",
    "STEPS",
    "ClassifierSpec",
    "GridPoint",
    "Points",
    "TrainedClassifier",
    "accuracy",
    "bayes_rate",
    "draw_points",
    "test_points",
    "train_all",
]

Array = NDArray[np.float64]

SETS = ("circles", "moons", "xor")
NOISE = {"circles": 0.05, "moons": 0.1, "xor": 0.0}
"""The default noise of each set."""

POINTS = 1000
_FACTOR = 0.5  # radius of the inner circle
_ALONG_CURVE = 400


@dataclass(frozen=True, slots=True)
class Points:
    """Points in the plane and their class."""

    x: Tensor  # (N, 2)
    label: Tensor  # (N,), 0 or 1


def draw_points(name: str, seed: int, noise: float | None = None) -> Points:
    """Points of a set; another seed gives other points."""
    noise = NOISE[name] if noise is None else noise
    x, label = _draw(name, seed, noise, POINTS)
    return Points(torch.tensor(x, dtype=torch.float32), torch.tensor(label))


def _draw(name: str, seed: int, noise: float, count: int) -> tuple[Array, NDArray[np.int64]]:
    from sklearn.datasets import make_circles, make_moons

    if name == "circles":
        x, label = make_circles(count, noise=noise, factor=_FACTOR, random_state=seed)
    elif name == "moons":
        x, label = make_moons(count, noise=noise, random_state=seed)
    elif name == "xor":
        x = np.random.default_rng(seed).uniform(-1.0, 1.0, (count, 2))
        label = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    else:
        raise UsageError(f"expected one of {', '.join(SETS)}, got {name!r}")
    return x, label


def bayes_rate(name: str, noise: float, count: int = 20_000) -> float:
    """Accuracy of the best possible classifier, by Monte Carlo on the set's true density; 1 for exclusive or."""
    if name == "xor":
        return 1.0
    x, label = _draw(name, 0, noise, count)
    densities = np.stack([_curve_density(x, curve, noise) for curve in _curves(name)])  # (2, N), class 0 and 1
    return float(np.mean(densities.argmax(0) == label))


def _curves(name: str) -> tuple[Array, Array]:
    """Points along the curve of class 0 and of class 1, before noise."""
    if name == "circles":
        turn = np.linspace(0, 2 * np.pi, _ALONG_CURVE, endpoint=False)
        outer = np.column_stack((np.cos(turn), np.sin(turn)))
        return outer, outer * _FACTOR
    turn = np.linspace(0, np.pi, _ALONG_CURVE)
    upper = np.column_stack((np.cos(turn), np.sin(turn)))
    return upper, np.column_stack((1.0 - upper[:, 0], 0.5 - upper[:, 1]))


def _curve_density(x: Array, curve: Array, noise: float) -> Array:
    """Unnormalised density (N,) of a uniform curve with Gaussian noise; both classes share the constant."""
    squared = ((x[:, None, :] - curve[None]) ** 2).sum(-1)
    return np.asarray(np.exp(-0.5 * squared / noise**2).mean(1))


KINDS = ("VF", "VF+TVLoss", "SVFM", "SVFM+TVLoss")
STEPS = {
    "circles": 600,
    "moons": 400,
    "xor": 800,
}  # a single field separates rings slowly; exclusive or has sharp edges
_PENALTIES = (0.03, 0.1, 0.3)
_TOLERATED_LOSS = 0.005  # of validation accuracy, for straighter paths
_COMPONENTS = 2
_TRAIN_STEPS = 6  # of Runge-Kutta 4 while training ...
_TEST_STEPS = 40  # ... and afterwards, close to the exact flow
_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One combination of the paper's grid of architectures and optimiser settings (its appendix B.1)."""

    layers: int = 2
    units: int = 32
    batch: int = 100
    rate: float = 1e-2


PAPER_GRID: dict[str, tuple[Any, ...]] = {
    "layers": (1, 2),
    "units": (32, 64),
    "batch": (50, 100),
    "rate": (1e-2, 1e-3),
}
"""The values of the paper, by the names of ``GridPoint``."""

GRID = tuple(itertools.starmap(GridPoint, itertools.product(*PAPER_GRID.values())))
"""All combinations of them."""


@dataclass(frozen=True, slots=True)
class ClassifierSpec:
    """One classifier to train."""

    points: str
    kind: str
    activation: str = "relu"
    seed: int = 0
    noise: float | None = None
    steps: int = 400
    penalty: float = 0.0
    point: GridPoint = GridPoint()
    filtering: bool = False  # forward filtering instead of pick and stick

    @property
    def model(self) -> ModelConfig:
        """Options of its model."""
        mixture = self.kind.startswith("SVFM")
        return ModelConfig(
            stochastic=mixture,
            components=_COMPONENTS if mixture else 1,
            hidden_layers=self.point.layers,
            hidden_units=self.point.units,
            selection="filter" if self.filtering else "stick",
            activation=self.activation,  # type: ignore[arg-type]
            gate="mlp",
        )


@dataclass(frozen=True, slots=True)
class TrainedClassifier:
    """Weights and validation results of one training."""

    spec: ClassifierSpec
    weights: dict[str, torch.Tensor]
    valid_accuracy: float
    valid_loss: float = 0.0

    def model(self) -> Classifier:
        """The classifier, with more steps of Runge-Kutta 4 than in training.

        Forward filtering may change the component at every step: there the steps are part of the model.
        """
        model = Classifier(self.spec.model, 2, self.spec.seed, _TRAIN_STEPS if self.spec.filtering else _TEST_STEPS)
        model.load_state_dict(self.weights)
        return model.eval()


def _split(spec: ClassifierSpec, part: int) -> Points:
    """Points for training (0), validation (1) and test (2): other seeds, same set."""
    return draw_points(spec.points, 3 * spec.seed + part + 1, spec.noise)


def test_points(spec: ClassifierSpec) -> Points:
    """Points that neither training nor the choice of penalty saw."""
    return _split(spec, 2)


@torch.no_grad()
def accuracy(model: Classifier, points: Points) -> float:
    """Share of points whose most likely class is right; stochastic models are averaged over a few noises."""
    guess = model.predict(points.x, _SAMPLES).argmax(-1)
    return float((guess == points.label).double().mean())


def _train_one(spec: ClassifierSpec) -> TrainedClassifier:
    data, valid = _split(spec, 0), _split(spec, 1)
    trained = train(
        lambda seed: Classifier(spec.model, 2, seed, _TRAIN_STEPS),
        lambda model, batch, seed: classifier_loss(model, batch[0], batch[1], spec.penalty, seed),
        (data.x, data.label),
        (valid.x, valid.label),
        TrainConfig(
            seed=spec.seed,
            steps=spec.steps,
            batch_size=spec.point.batch,
            learning_rate=spec.point.rate,
            gate_learning_rate=spec.point.rate,
        ),
    )
    done = TrainedClassifier(spec, trained.model.state_dict(), 0.0, trained.report.best_valid)
    return replace(done, valid_accuracy=accuracy(done.model(), valid))


_kept: dict[ClassifierSpec, TrainedClassifier] = {}


def _fetch(specs: Sequence[ClassifierSpec], tick: Tick) -> list[TrainedClassifier]:
    """Train what is not there yet."""
    missing = [s for s in dict.fromkeys(specs) if s not in _kept]
    if missing:
        done = run_all(_train_one, missing, tick, "training classifiers:")
        _kept.update({t.spec: t for t in done})
    return [_kept[s] for s in specs]


def train_all(specs: Sequence[ClassifierSpec], tick: Tick) -> list[TrainedClassifier]:
    """Train every spec; those with TVLoss get their penalty first."""
    plain = dict.fromkeys(_plain(s) for s in specs if s.kind.endswith("TVLoss"))
    tried = _fetch([replace(s, penalty=p) for s, p in itertools.product(plain, _PENALTIES)], tick)
    return _fetch([_with_penalty(s, tried) for s in specs], tick)


def _plain(spec: ClassifierSpec) -> ClassifierSpec:
    """The training that the penalty is chosen by, at the usual noise."""
    return ClassifierSpec(spec.points, spec.kind, steps=spec.steps if spec.noise is None else STEPS[spec.points])


def _with_penalty(spec: ClassifierSpec, tried: list[TrainedClassifier]) -> ClassifierSpec:
    if not spec.kind.endswith("TVLoss"):
        return spec
    same = [t for t in tried if replace(t.spec, penalty=0.0) == _plain(spec)]
    best = max(t.valid_accuracy for t in same)
    good = [t.spec.penalty for t in same if t.valid_accuracy >= best - _TOLERATED_LOSS]
    return replace(spec, penalty=max(good))
