"""The tasks of fig. 1 in one dimension: where paths start, where they end, and the true density of the ends."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["CASES", "SPREAD", "Case"]

SPREAD = 0.1
"""Standard deviation of the ends around +1 and -1."""

_LOG_SPREAD = 0.35  # of the speeds in the scaling task


@dataclass(frozen=True, slots=True)
class Case:
    """One task: where paths start, where they end, and the density the ends are drawn from."""

    name: str
    title: str
    starts: tuple[float, ...]  # increasing
    draw: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]  # rows -> starts (n, 1), ends (n, 1)
    log_density: Callable[[Tensor, Tensor], Tensor]  # starts (n, 1), ends (n, 1) -> (n,)


def _sides(rows: int) -> Tensor:
    """+1 and -1 in equal parts (n, 1)."""
    return torch.where(torch.arange(rows) % 2 == 0, 1.0, -1.0).unsqueeze(1)


def _normal(x: Tensor, mean: Tensor, spread: float) -> Tensor:
    return (-0.5 * ((x - mean) / spread).square() - math.log(spread * math.sqrt(2.0 * math.pi))).squeeze(-1)


def _draw_crossing(rows: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    x = _sides(rows)
    return x, -x + SPREAD * torch.randn(rows, 1, generator=g)


def _draw_splitting(rows: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.zeros(rows, 1), _sides(rows) + SPREAD * torch.randn(rows, 1, generator=g)


def _draw_scaling(rows: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.zeros(rows, 1), torch.exp(_LOG_SPREAD * torch.randn(rows, 1, generator=g))


def _crossing_density(x: Tensor, y: Tensor) -> Tensor:
    return _normal(y, -x, SPREAD)


def _splitting_density(x: Tensor, y: Tensor) -> Tensor:
    return torch.logaddexp(_normal(y, x + 1.0, SPREAD), _normal(y, x - 1.0, SPREAD)) - math.log(2.0)


def _scaling_density(x: Tensor, y: Tensor) -> Tensor:
    log_speed = torch.log((y - x).clamp_min(1e-9))
    return _normal(log_speed, torch.zeros_like(y), _LOG_SPREAD) - log_speed.squeeze(-1)


CASES = {
    "crossing": Case(
        "crossing",
        "from ±1 to ∓1: paths must cross",
        (-1.0, 1.0),
        _draw_crossing,
        _crossing_density,
    ),
    "splitting": Case(
        "splitting",
        "from 0 to ±1: one start, two ends",
        (0.0,),
        _draw_splitting,
        _splitting_density,
    ),
    "scaling": Case(
        "scaling",
        "from 0 to wherever a log-normal speed leads",
        (0.0,),
        _draw_scaling,
        _scaling_density,
    ),
}
