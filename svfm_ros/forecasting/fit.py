"""Fit a walk model to whole walks by path likelihood.

The fields are sorted out before they are fitted: walks are grouped by where they end, each group gets a field of its
own, and the field starts as the average of its group (see ``anchors``). Later a walk may leave its group's field only
for a good reason. Without this, fields share walks or die, and what a field says beside the walks is left to chance.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.config.forecast_config import PathTrainConfig, WalkModelConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.field_anchors import Anchors, anchor_loss, draw_anchors
from svfm_ros.forecasting.fit_habits import fit_gate, set_habits
from svfm_ros.forecasting.grouping import group_points
from svfm_ros.forecasting.likelihood import WalkBatch, filter_walks, log_likelihood
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.types import WalkWindows

__all__ = ["PathTrained", "as_batch", "group_ends", "held_out_nll", "train_paths"]

T = TypeVar("T", WalkBatch, Anchors)

_HELD = 1e4  # nats against following another group's field while fields are sorted: more than a walk can gain
_START_STEPS, _START_RATE = 120, 1e-2
_NUMBERS_RATE = 3.0
_CLIP = 1.0  # largest norm of the gradient
_SEEDS_PER_RESTART = 1_000_003


@dataclass(frozen=True, slots=True)
class PathTrained:
    """The kept model, in evaluation mode, and how it came about."""

    model: WalkModel
    nll: float  # of the training walks, nats per step
    use: tuple[float, ...]  # share of the walks that start with each field
    seconds: float
    curve: tuple[float, ...] = field(default=(), repr=False)  # training loss, one value per step


def as_batch(windows: WalkWindows, ended: NDArray[np.bool_] | None = None) -> WalkBatch:
    """Rows as tensors. A row ends its walk if it is the last of that walk, unless ``ended`` (N,) says otherwise."""
    keep = windows.lengths >= 2
    if not keep.any():
        raise DataError(f"expected walks of at least two positions, got none among {len(windows)}")
    if not np.isfinite(windows.xy).all():
        raise DataError("expected finite positions, got NaN or infinity")
    over = (_last_rows(windows) if ended is None else np.asarray(ended, dtype=np.bool_))[keep]
    used = int(windows.lengths.max())
    return WalkBatch(
        xy=torch.as_tensor(windows.xy[keep, :used], dtype=torch.float32),
        steps=torch.as_tensor(windows.lengths[keep] - 1),
        hour=torch.as_tensor(windows.start_hour[keep], dtype=torch.float32),
        ended=torch.as_tensor(over),
    )


def _last_rows(windows: WalkWindows) -> NDArray[np.bool_]:
    last: dict[str, int] = {}
    for row, name in enumerate(windows.walk_ids):
        if name not in last or windows.start_ns[row] >= windows.start_ns[last[name]]:
            last[name] = row
    return np.isin(np.arange(len(windows)), list(last.values()))


def group_ends(ends_xy: NDArray[np.float64], config: WalkModelConfig, seed: int = 0) -> NDArray[np.int64]:
    """A group for each endpoint (N, 2), numbered from 0; as many as the config asks for, or as there are."""
    return group_points(ends_xy, config.group_m, config.most_components, seed, config.components)


def train_paths(
    walks: WalkBatch,
    dt_s: float,
    model_config: WalkModelConfig | None = None,
    config: PathTrainConfig | None = None,
    *,
    start: WalkModel | None = None,
    progress: Callable[[int, float], None] | None = None,
    device: torch.device | str = "cpu",
) -> PathTrained:
    """Fit, and keep the likeliest of the restarts. With ``start``, training goes on from that model's weights.

    ``device`` is where the steps are taken; walks come from the CPU, and the model is there in the end.
    """
    model_config, config = model_config or WalkModelConfig(), config or PathTrainConfig()
    began = time.monotonic()
    runs = [_one(walks, dt_s, model_config, config, r, start, progress, device) for r in range(config.restarts)]
    best = min(runs, key=lambda run: run.nll)
    return replace(best, seconds=time.monotonic() - began)


def _one(
    walks: WalkBatch,
    dt_s: float,
    model_config: WalkModelConfig,
    config: PathTrainConfig,
    restart: int,
    start: WalkModel | None,
    progress: Callable[[int, float], None] | None,
    device: torch.device | str,
) -> PathTrained:
    seed = config.seed + restart * _SEEDS_PER_RESTART
    if start is None:
        model, group = _fresh(walks, dt_s, model_config, seed)
    else:
        model, group = _copy(start), None
    curve = _fit(model.to(device), _moved(walks, device), group, config, seed, progress)
    model.cpu()
    fit_gate(model, walks, seed % 2**31)
    with torch.no_grad():
        nll = held_out_nll(model, walks)
        use = _use(model, walks)
    return PathTrained(model.eval(), nll, use, 0.0, tuple(curve))


def _fresh(walks: WalkBatch, dt_s: float, config: WalkModelConfig, seed: int) -> tuple[WalkModel, Tensor]:
    rows = torch.arange(len(walks.xy))
    ends = walks.xy[rows, walks.steps].double().numpy()
    group = torch.as_tensor(group_ends(ends, config, seed % 2**31))
    components = config.components or int(group.max()) + 1
    seen = torch.arange(walks.xy.shape[1]) <= walks.steps.unsqueeze(-1)
    floor = walks.xy[seen]
    middle = floor.mean(0).tolist()
    model = WalkModel(replace(config, components=components), dt_s, (middle[0], middle[1]), seed)
    model.low, model.high = floor.amin(0), floor.amax(0)
    _start_ramp(model, walks)
    set_habits(model, walks, torch.nn.functional.one_hot(group, components), seed % 2**31)
    return model, group


@torch.no_grad()
def _start_ramp(model: WalkModel, walks: WalkBatch) -> None:
    """How fast people set off, read off the walks: the likelihood finds it slowly and spoils the fields meanwhile."""
    length = torch.linalg.vector_norm(walks.xy[:, 1:] - walks.xy[:, :-1], dim=-1)  # (N, I)
    index = torch.arange(length.shape[1])
    under_way = (index >= len(model.raw_ramp)) & (index < walks.steps.unsqueeze(-1))
    if not bool(under_way.any()):
        return
    for i in range(min(len(model.raw_ramp), length.shape[1])):
        share = length[:, i][walks.steps > i].median() / length[under_way].median().clamp_min(1e-6)
        model.raw_ramp[i] = torch.logit(share.clamp(0.05, 0.97))


def _copy(start: WalkModel) -> WalkModel:
    model = WalkModel(start.config, start.dt_s, (float(start.shift[0]), float(start.shift[1])))
    model.load_state_dict(start.state_dict())
    return model


def _fit(
    model: WalkModel,
    walks: WalkBatch,
    group: Tensor | None,
    config: PathTrainConfig,
    seed: int,
    progress: Callable[[int, float], None] | None,
) -> list[float]:
    networks = [p for p in model.parameters() if p.ndim > 1]
    numbers = [p for p in model.parameters() if p.ndim <= 1]  # few and well determined: they may move faster
    rate = [config.learning_rate, _NUMBERS_RATE * config.learning_rate]
    optimiser = torch.optim.Adam([{"params": networks}, {"params": numbers}], lr=config.learning_rate)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, config.steps + 1, pct_start=0.1)
    generator = torch.Generator().manual_seed(seed)
    moves = walks.steps.sum()
    curve: list[float] = []
    anchors = None if group is None else draw_anchors(_moved(walks, "cpu"), group, model, generator)
    if group is not None and anchors is not None:
        group, anchors = group.to(walks.xy.device), _moved(anchors, walks.xy.device)
        _start_fields(model, anchors)
    good = {name: x.clone() for name, x in model.state_dict().items()}
    model.train()
    for step in range(config.steps):
        held = None if group is None else _held(group, model.config.components, step, config)
        loss = -log_likelihood(model, _shifted(walks, config.jitter_m, generator), held).sum() / moves
        total = loss + _penalty(model, config) / moves
        if anchors is not None:
            total = total + anchor_loss(model, anchors, config.anchor_mps) / moves
        optimiser.zero_grad(set_to_none=True)
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        value = float(loss.detach())
        if not math.isfinite(value) or not math.isfinite(float(norm)):
            model.load_state_dict(good)  # the last weights that worked
            break
        if step % 20 == 0:
            good = {name: x.clone() for name, x in model.state_dict().items()}
        optimiser.step()
        rates.step()
        curve.append(value)
        if progress is not None:
            progress(step, value)
    return curve


def _moved(tensors: T, device: torch.device | str) -> T:
    """A dataclass of tensors, all of them on that device."""
    return replace(tensors, **{f.name: getattr(tensors, f.name).to(device) for f in fields(tensors)})


def _start_fields(model: WalkModel, anchors: Anchors) -> None:
    """Lay the fields onto the anchors before anything else is learned."""
    optimiser = torch.optim.Adam(model.fields.parameters(), lr=_START_RATE)
    for _ in range(_START_STEPS):
        optimiser.zero_grad(set_to_none=True)
        (anchor_loss(model, anchors, 1.0) / anchors.weight.sum()).backward()
        optimiser.step()


def _held(group: Tensor, components: int, step: int, config: PathTrainConfig) -> Tensor:
    """Log weights (N, K) that hold each walk to its group's field, firmly while the fields are sorted out."""
    held = _HELD if step < config.sorting * config.steps else config.loyalty
    own = torch.nn.functional.one_hot(group, components).bool()
    return torch.where(own, 0.0, -held)


def _shifted(walks: WalkBatch, jitter_m: float, generator: torch.Generator) -> WalkBatch:
    if jitter_m == 0.0:
        return walks
    shift = jitter_m * torch.randn(len(walks.xy), 1, 2, generator=generator).to(walks.xy.device)
    return replace(walks, xy=walks.xy + shift)


def _penalty(model: WalkModel, config: PathTrainConfig) -> Tensor:
    """A Gaussian prior on the weights, in nats: it weighs less the more walks there are. Biases go free."""
    nets = [w for w, _ in model.fields.net.weights()[1:]]  # the first layer sets how fine a detail is seen
    ends = [w for w, _ in model.ends.weights()]
    return config.decay * _squares(nets) + config.end_decay * _squares(ends)


def _squares(weights: list[Tensor]) -> Tensor:
    return torch.stack([w.square().sum() for w in weights]).sum()


@torch.no_grad()
def held_out_nll(model: WalkModel, walks: WalkBatch) -> float:
    """Minus the log density of walks, nats per step."""
    return float(-log_likelihood(model, walks).sum() / walks.steps.sum())


def _use(model: WalkModel, walks: WalkBatch) -> tuple[float, ...]:
    belief = filter_walks(model, walks).belief.sum((1, 3)).mean(0)
    return tuple(round(float(b), 4) for b in belief)
