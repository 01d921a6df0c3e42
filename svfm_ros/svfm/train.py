"""One plain training loop for every model and every loss.

A caller brings a way to make a model from a seed, an objective ``(model, batch, seed) -> mean loss`` and tensors with
one row per example. The loop brings Adam, batches, clipping, looks at the validation loss, early stopping, restarts and
a report. It prints nothing, touches no global random state, gives the same weights for the same seed, and can go on
where it was interrupted. A loss, gradient or weight that is not finite ends a restart with its best weights kept.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from svfm_ros.config.options import to_mapping
from svfm_ros.config.svfm_config import TrainConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.tensor_file import read_tensors, write_tensors
from svfm_ros.svfm.training_report import CurvePoint, Restart, TrainReport

__all__ = ["Batch", "Objective", "Progress", "Trained", "train"]

M = TypeVar("M", bound=nn.Module)
Batch = tuple[Tensor, ...]
Objective = Callable[[M, Batch, int], Tensor]
Progress = Callable[[CurvePoint], None]

_VALIDATION_SEED = 2**31 - 1
_SEEDS_PER_RESTART = 1_000_003
_KIND = "svfm_ros training state"
_PLAIN = ("step", "best_step", "best_valid", "stale", "stopped")


@dataclass(frozen=True, slots=True)
class Trained(Generic[M]):
    """The kept model, in evaluation mode, and how it came about."""

    model: M
    report: TrainReport


@dataclass(slots=True)
class _Run(Generic[M]):
    """One restart on its way."""

    index: int
    seed: int
    model: M
    optimiser: torch.optim.Adam
    generator: torch.Generator
    best: dict[str, Tensor]
    step: int = 0
    best_step: int = 0
    best_valid: float = math.inf
    stale: int = 0  # looks since the best
    stopped: str = ""
    queue: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))  # rows left of this pass


@dataclass(slots=True)
class _History:
    """What all restarts so far left behind."""

    curve: list[CurvePoint] = field(default_factory=list)
    done: list[Restart] = field(default_factory=list)
    kept: dict[str, Tensor] = field(default_factory=dict)  # weights of the best restart

    @classmethod
    def of(cls, saved: dict[str, Any] | None) -> "_History":
        if saved is None:
            return cls()
        curve, done = [CurvePoint(**p) for p in saved["curve"]], [Restart(**r) for r in saved["done"]]
        return cls(curve, done, saved["kept"])

    def close(self, run: _Run[Any]) -> None:
        """Write a restart down, and keep its weights if no earlier one was as good."""
        if not any(r.best_valid <= run.best_valid for r in self.done):
            self.kept = run.best
        self.done.append(Restart(run.seed, run.step, run.best_step, run.best_valid, run.stopped))

    def best(self) -> int:
        """The restart whose weights are kept."""
        return min(range(len(self.done)), key=lambda i: (self.done[i].best_valid, i))


def train(
    make_model: Callable[[int], M],
    objective: Objective[M],
    data: Batch,
    valid: Batch | None,
    config: TrainConfig,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    use: Callable[[M], Tensor] | None = None,
    state_path: Path | None = None,
) -> Trained[M]:
    """Fit and keep the best restart by validation loss (by training loss where ``valid`` is None).

    ``use(model)`` gives the share of each component for the report. With ``state_path`` the state is written there at
    every look, and a training that was interrupted goes on from it; the file is removed when all is done.
    """
    began = time.monotonic()
    data, valid = _checked(data, device), None if valid is None else _checked(valid, device)
    saved = _load(state_path, config)
    history = _History.of(saved)
    for index in range(len(history.done), config.restarts):
        run = _start(make_model, index, config, device)
        if saved is not None:
            _restore(run, saved)
            saved = None
        while not run.stopped:
            mean_loss = _advance(run, objective, data, config)
            history.curve.append(_look(run, objective, data if valid is None else valid, config, mean_loss))
            if progress is not None:
                progress(history.curve[-1])
            if state_path is not None:
                write_tensors(state_path, _state(run, history, config))
        history.close(run)
    model = make_model(config.seed).to(device)
    model.load_state_dict(history.kept)
    if state_path is not None:
        state_path.unlink(missing_ok=True)
    return Trained(model.eval(), _report(history, model, use, time.monotonic() - began))


def _report(history: _History, model: M, use: Callable[[M], Tensor] | None, seconds: float) -> TrainReport:
    with torch.no_grad():
        shares = tuple(use(model).tolist()) if use is not None else ()
    return TrainReport(tuple(history.curve), tuple(history.done), history.best(), seconds, shares)


def _checked(data: Batch, device: torch.device | str) -> Batch:
    rows = {len(x) for x in data}
    if len(rows) != 1 or rows == {0}:
        raise DataError(f"expected tensors with the same number of rows, at least one, got {[len(x) for x in data]}")
    for x in data:
        if x.is_floating_point() and not bool(torch.isfinite(x).all()):
            raise DataError("expected finite training data, got NaN or infinity")
    return tuple(x.to(device) for x in data)


def _start(make_model: Callable[[int], M], index: int, config: TrainConfig, device: torch.device | str) -> _Run[M]:
    seed = config.seed + index * _SEEDS_PER_RESTART
    model = make_model(seed).to(device)
    optimiser = torch.optim.Adam(_groups(model, config), lr=config.learning_rate)
    return _Run(index, seed, model, optimiser, torch.Generator().manual_seed(seed), _copy(model))


def _groups(model: nn.Module, config: TrainConfig) -> list[dict[str, Any]]:
    """The selection's networks learn at their own rate: a gate that commits early kills components."""
    gate = [p for name, p in model.named_parameters() if "selection." in name]
    rest = [p for name, p in model.named_parameters() if "selection." not in name]
    groups = [{"params": rest, "base": config.learning_rate}, {"params": gate, "base": config.gate_learning_rate}]
    return [g for g in groups if g["params"]]


def _advance(run: _Run[M], objective: Objective[M], data: Batch, config: TrainConfig) -> Tensor:
    """Steps up to the next look; gives the mean loss, which is not finite if any loss or gradient was not."""
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
        total = total + loss.detach() + 0.0 * norm  # a NaN stays; nothing is asked of the device here
        run.step += 1
    return total / steps


def _set_rates(optimiser: torch.optim.Adam, done: float, config: TrainConfig) -> None:
    share = config.final_rate + (1.0 - config.final_rate) * 0.5 * (1.0 + math.cos(math.pi * done))
    for group in optimiser.param_groups:
        group["lr"] = group["base"] * share


def _next_batch(run: _Run[M], data: Batch, config: TrainConfig) -> Batch:
    rows = len(data[0])
    if config.batch_size == 0 or config.batch_size >= rows:
        return data
    if len(run.queue) < config.batch_size:
        run.queue = torch.randperm(rows, generator=run.generator).to(data[0].device)
    chosen, run.queue = run.queue[: config.batch_size], run.queue[config.batch_size :]
    return tuple(x[chosen] for x in data)


def _look(run: _Run[M], objective: Objective[M], judged: Batch, config: TrainConfig, mean_loss: Tensor) -> CurvePoint:
    """Judge the weights: keep them if they are the best, stop if they broke, got no better or are done."""
    run.model.eval()
    train_loss = float(mean_loss)
    with torch.no_grad():
        valid_loss = float(objective(run.model, judged, _VALIDATION_SEED))
    finite = math.isfinite(train_loss) and math.isfinite(valid_loss) and _all_finite(run.model)
    if finite and valid_loss < run.best_valid:
        run.best, run.best_step, run.best_valid, run.stale = _copy(run.model), run.step, valid_loss, 0
    else:
        run.stale += 1
    if not finite:
        run.stopped = f"not finite by step {run.step}"
    elif run.step >= config.steps:
        run.stopped = "all steps done"
    elif config.patience and run.stale >= config.patience:
        run.stopped = f"no better for {run.stale} looks"
    return CurvePoint(run.index, run.step, train_loss, valid_loss, run.optimiser.param_groups[0]["lr"])


def _all_finite(model: nn.Module) -> bool:
    return bool(torch.stack([torch.isfinite(p).all() for p in model.parameters()]).all())


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach().clone() for name, x in model.state_dict().items()}


def _state(run: _Run[M], history: _History, config: TrainConfig) -> dict[str, Any]:
    """All that is needed to go on from here as if nothing had happened."""
    return {
        "kind": _KIND,
        "config": to_mapping(config),
        "model": run.model.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "generator": run.generator.get_state(),
        "queue": run.queue.clone(),
        "run": {name: getattr(run, name) for name in _PLAIN},
        "best": run.best,
        "kept": history.kept,
        "curve": [asdict(p) for p in history.curve],
        "done": [asdict(r) for r in history.done],
    }


def _load(path: Path | None, config: TrainConfig) -> dict[str, Any] | None:
    """The state at the path, if there is one; its options must be ours."""
    if path is None or not path.exists():
        return None
    state = read_tensors(path, _KIND)
    if state["config"] != to_mapping(config):
        raise DataError(f"expected {path} to hold a training with the same options, got different ones; remove it")
    return state


def _restore(run: _Run[M], saved: dict[str, Any]) -> None:
    run.model.load_state_dict(saved["model"])
    run.optimiser.load_state_dict(saved["optimiser"])
    run.generator.set_state(saved["generator"])
    run.best = saved["best"]
    run.queue = saved["queue"].to(next(run.model.parameters()).device)
    for name in _PLAIN:
        setattr(run, name, saved["run"][name])
