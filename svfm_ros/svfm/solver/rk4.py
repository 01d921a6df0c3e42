"""Fixed-step Runge-Kutta 4 on a grid, through which training differentiates.

The graph is the same at every training step and nothing waits for the device. Times are one grid for all rows or one
grid per row; they may be float64 while states are float32.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.errors import DataError
from svfm_ros.svfm.solver.array_backend import Field

__all__ = ["Rollout", "check_times", "grid", "rk4"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """States and their slopes at every time of the grid, the first included."""

    states: Tensor  # (T + 1, ..., N, D)
    slopes: Tensor  # the same shape


def grid(start: float, end: float, steps: int, *, like: Tensor) -> Tensor:
    """``steps + 1`` times from start to end, on the device and in the type of ``like``."""
    if steps < 1 or not end > start:
        raise DataError(f"expected an end after the start and at least one step, got {start} to {end} in {steps}")
    return torch.linspace(start, end, steps + 1, device=like.device, dtype=like.dtype)


def check_times(times: Tensor, rows: int) -> None:
    """Refuse times that are not (T + 1,) or (T + 1, rows), finite and increasing."""
    if times.ndim not in (1, 2) or times.shape[0] < 2 or (times.ndim == 2 and times.shape[1] != rows):
        raise DataError(f"expected times (T + 1,) or (T + 1, {rows}) with T >= 1, got shape {tuple(times.shape)}")
    if not bool((times.diff(dim=0) > 0).all()):
        raise DataError("expected finite times that increase, got some that do not")


def rk4(field: Field, h: Tensor, times: Tensor) -> Rollout:
    """Follow ``field(t, h)`` from h (..., N, D) along times (T + 1,) or (T + 1, N)."""
    slope = field(times[0], h)
    states, slopes = [h], [slope]
    for t, dt in zip(times[:-1], times.diff(dim=0).to(h.dtype), strict=True):
        h = _step(field, t, h, dt, slope)
        slope = field(t + dt, h)
        states.append(h)
        slopes.append(slope)
    return Rollout(torch.stack(states), torch.stack(slopes))


def _step(field: Field, t: Tensor, h: Tensor, dt: Tensor, k1: Tensor) -> Tensor:
    """One step; ``k1`` is the slope at its start, known from the end of the last step."""
    step = dt.unsqueeze(-1)  # (1,) or (N, 1)
    half = 0.5 * step
    middle = t + 0.5 * dt
    k2 = field(middle, torch.addcmul(h, half, k1))
    k3 = field(middle, torch.addcmul(h, half, k2))
    k4 = field(t + dt, torch.addcmul(h, step, k3))
    return torch.addcmul(h, step * (1.0 / 6.0), k1 + 2.0 * (k2 + k3) + k4)
