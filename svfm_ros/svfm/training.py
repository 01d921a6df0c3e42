"""One training loop for every model and loss of the paper: Adam on batches, early stopping, restarts.

A caller gives a function that makes a model from a seed, an objective ``(model, batch, seed) -> mean loss`` and tensors
with one row per example. The loop prints nothing, leaves the global random state alone and gives the same weights for
the same seed. A loss, gradient or weight that is not finite ends a restart; its best weights so far are kept.

A component whose field starts far from all data gets no gradient and is never used. ``seeded`` prevents this: it
clusters the velocities in the data, and each field starts with the mean velocity of one cluster.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm_config import TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel

__all__ = [
    "Batch",
    "CurvePoint",
    "Objective",
    "Restart",
    "TrainReport",
    "Trained",
    "cluster_centres",
    "seeded",
    "set_initial_velocities",
    "train",
]


def seeded(model: MixtureModel, velocities: Tensor, seed: int) -> MixtureModel:
    """The model with its K fields set to the centres of K clusters of velocities (N, dim)."""
    set_initial_velocities(model, cluster_centres(velocities, model.config.components, seed))
    return model


@torch.no_grad()
def set_initial_velocities(model: MixtureModel, velocities: Tensor) -> None:
    """Set the output biases so that field k has about velocity k of (K, dim) before training."""
    k, dim, bound = model.config.components, model.config.dim, model.config.max_speed
    if velocities.shape != (k, dim) or not bool(torch.isfinite(velocities).all()):
        raise DataError(f"expected finite velocities ({k}, {dim}), got shape {tuple(velocities.shape)}")
    bias = model.fields.net.weights()[-1][1]  # (K, 1, outputs)
    raw = velocities.to(bias)
    if bound > 0.0:  # invert the smooth bound
        share = (raw.norm(dim=-1, keepdim=True) / bound).clamp(max=0.99)
        raw = raw * torch.rsqrt(1.0 - share.square())
    bias[:, 0, :dim] = raw


def cluster_centres(points: Tensor, count: int, seed: int) -> Tensor:
    """k-means centres (count, dim) of points (N, dim); where distinct points are fewer, centres repeat."""
    from sklearn.cluster import KMeans

    if points.ndim != 2 or len(points) == 0:
        raise DataError(f"expected points (N, dim) with N >= 1, got shape {tuple(points.shape)}")
    host = points.detach().double().cpu()
    distinct = min(count, len(host.unique(dim=0)))
    centres = KMeans(distinct, n_init=1, random_state=seed % 2**32).fit(host.numpy()).cluster_centers_
    return torch.as_tensor(centres)[torch.arange(count) % distinct].to(points)


M = TypeVar("M", bound=nn.Module)
Batch = tuple[Tensor, ...]
Objective = Callable[[M, Batch, int], Tensor]

_VALIDATION_SEED = 2**31 - 1
_SEEDS_PER_RESTART = 1_000_003


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Training and validation loss at one validation."""

    restart: int
    step: int
    train_loss: float  # mean since the last validation
    valid_loss: float


@dataclass(frozen=True, slots=True)
class Restart:
    """Summary of one training from its own initial weights."""

    seed: int
    steps: int
    best_step: int
    best_valid: float
    stopped: str  # "all steps done", "no improvement in N validations" or "not finite by step N"


@dataclass(frozen=True, slots=True)
class TrainReport:
    """Loss curve and summary of all restarts."""

    curve: tuple[CurvePoint, ...]
    restarts: tuple[Restart, ...]
    kept: int  # index of the restart whose weights are returned
    seconds: float

    @property
    def best_valid(self) -> float:
        """Validation loss of the returned weights."""
        return self.restarts[self.kept].best_valid


@dataclass(frozen=True, slots=True)
class Trained(Generic[M]):
    """The trained model, in evaluation mode, and its report."""

    model: M
    report: TrainReport


@dataclass(slots=True)
class _RestartState(Generic[M]):
    """A restart in progress."""

    index: int
    seed: int
    model: M
    optimiser: torch.optim.Adam
    generator: torch.Generator
    best: dict[str, Tensor]
    step: int = 0
    best_step: int = 0
    best_valid: float = math.inf
    since_best: int = 0  # validations since the best one
    stopped: str = ""
    queue: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))  # rows left in this epoch

    def summary(self) -> Restart:
        return Restart(self.seed, self.step, self.best_step, self.best_valid, self.stopped)


def train(
    make_model: Callable[[int], M], objective: Objective[M], data: Batch, valid: Batch | None, config: TrainConfig
) -> Trained[M]:
    """The model of the restart with the lowest validation loss (training loss where ``valid`` is None).

    ``data`` and ``valid`` are on the device of the models that ``make_model`` returns.
    """
    began = time.monotonic()
    _check(data)
    if valid is not None:
        _check(valid)
    curve: list[CurvePoint] = []
    runs: list[_RestartState[M]] = []
    for index in range(config.restarts):
        run = _start(make_model, index, config)
        while not run.stopped:
            mean_loss = _advance(run, objective, data, config)
            curve.append(_validate(run, objective, data if valid is None else valid, config, mean_loss))
        runs.append(run)
    kept = min(runs, key=lambda r: (r.best_valid, r.index))
    kept.model.load_state_dict(kept.best)
    restarts = tuple(r.summary() for r in runs)
    return Trained(kept.model.eval(), TrainReport(tuple(curve), restarts, kept.index, time.monotonic() - began))


def _check(data: Batch) -> None:
    rows = {len(x) for x in data}
    if len(rows) != 1 or rows == {0}:
        raise DataError(f"expected tensors with the same number of rows, at least one, got {[len(x) for x in data]}")
    for x in data:
        if x.is_floating_point() and not bool(torch.isfinite(x).all()):
            raise DataError("expected finite training data, got NaN or infinity")


def _start(make_model: Callable[[int], M], index: int, config: TrainConfig) -> _RestartState[M]:
    seed = config.seed + index * _SEEDS_PER_RESTART
    model = make_model(seed)
    optimiser = torch.optim.Adam(_groups(model, config), lr=config.learning_rate)
    return _RestartState(index, seed, model, optimiser, torch.Generator().manual_seed(seed), _copy(model))


def _groups(model: nn.Module, config: TrainConfig) -> list[dict[str, Any]]:
    """Parameter groups: the selection's networks have a learning rate of their own."""
    gate = [p for name, p in model.named_parameters() if "selection." in name]
    rest = [p for name, p in model.named_parameters() if "selection." not in name]
    groups = [{"params": rest, "base": config.learning_rate}, {"params": gate, "base": config.gate_learning_rate}]
    return [g for g in groups if g["params"]]


def _advance(run: _RestartState[M], objective: Objective[M], data: Batch, config: TrainConfig) -> Tensor:
    """Train up to the next validation; the mean loss (), not finite if any loss or gradient was not."""
    run.model.train()
    total = torch.zeros((), device=data[0].device)
    steps = min(config.check_every, config.steps - run.step)
    for _ in range(steps):
        _set_rates(run.optimiser, run.step / config.steps, config)
        run.optimiser.zero_grad(set_to_none=True)
        loss = objective(run.model, _next_batch(run, data, config), run.seed + run.step)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(run.model.parameters(), config.clip or math.inf)
        run.optimiser.step()
        total = total + loss.detach() + 0.0 * norm  # NaN propagates without a wait for the device
        run.step += 1
    return total / steps


def _set_rates(optimiser: torch.optim.Adam, done: float, config: TrainConfig) -> None:
    share = config.final_rate + (1.0 - config.final_rate) * 0.5 * (1.0 + math.cos(math.pi * done))
    for group in optimiser.param_groups:
        group["lr"] = group["base"] * share


def _next_batch(run: _RestartState[M], data: Batch, config: TrainConfig) -> Batch:
    rows = len(data[0])
    if config.batch_size == 0 or config.batch_size >= rows:
        return data
    if len(run.queue) < config.batch_size:
        run.queue = torch.randperm(rows, generator=run.generator).to(data[0].device)
    chosen, run.queue = run.queue[: config.batch_size], run.queue[config.batch_size :]
    return tuple(x[chosen] for x in data)


def _validate(
    run: _RestartState[M], objective: Objective[M], valid: Batch, config: TrainConfig, mean_loss: Tensor
) -> CurvePoint:
    """Compute the validation loss, copy the weights if it is the lowest, and decide whether to stop."""
    run.model.eval()
    train_loss = float(mean_loss)
    with torch.no_grad():
        valid_loss = float(objective(run.model, valid, _VALIDATION_SEED))
    finite = math.isfinite(train_loss) and math.isfinite(valid_loss) and _all_finite(run.model)
    if finite and valid_loss < run.best_valid:
        run.best, run.best_step, run.best_valid, run.since_best = _copy(run.model), run.step, valid_loss, 0
    else:
        run.since_best += 1
    if not finite:
        run.stopped = f"not finite by step {run.step}"
    elif run.step >= config.steps:
        run.stopped = "all steps done"
    elif config.patience and run.since_best >= config.patience:
        run.stopped = f"no improvement in {run.since_best} validations"
    return CurvePoint(run.index, run.step, train_loss, valid_loss)


def _all_finite(model: nn.Module) -> bool:
    return bool(torch.stack([torch.isfinite(p).all() for p in model.parameters()]).all())


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach().clone() for name, x in model.state_dict().items()}
