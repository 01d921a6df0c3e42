"""Training of the paper's classifiers: VF, VF+TVLoss, SVFM and SVFM+TVLoss, all with the same bound on field length.

The weight of TVLoss is chosen on validation points, once for each set: the largest whose accuracy there is within half
a percentage point of the best. Trained classifiers are cached for later experiments in the same process.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from svfm_ros.config.svfm_config import ModelConfig, TrainConfig
from svfm_ros.experiments.experiment import Tick, run_all
from svfm_ros.experiments.toy_sets import Points, draw_points
from svfm_ros.svfm.classifier import Classifier, classifier_loss
from svfm_ros.svfm.training import train

__all__ = [
    "GRID",
    "KINDS",
    "STEPS",
    "ClassifierSpec",
    "GridPoint",
    "TrainedClassifier",
    "accuracy",
    "test_points",
    "train_all",
]

KINDS = ("VF", "VF+TVLoss", "SVFM", "SVFM+TVLoss")
STEPS = {"circles": 600, "moons": 400, "xor": 800}  # one field cannot tear a ring; the edges of exclusive or are sharp
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


GRID = tuple(itertools.starmap(GridPoint, itertools.product((1, 2), (32, 64), (50, 100), (1e-2, 1e-3))))
"""The values of the paper."""


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
        """The classifier, with more steps of Runge-Kutta 4 than in training."""
        model = Classifier(self.spec.model, 2, self.spec.seed, _TEST_STEPS)
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
