"""Training of a forecaster as in the paper: FLoss (eq. 11) along walks that are interpolated by cubic splines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.errors import DataError
from svfm_ros.svfm.losses import forecast_loss
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.training import Batch

__all__ = ["Normaliser", "walk_batch", "walk_objective"]


@dataclass(frozen=True, slots=True)
class Normaliser:
    """``encode(x) = (x - shift) / scale``; a length of one state unit is ``scale`` metres."""

    shift: tuple[float, ...]  # (dim,), in metres
    scale: float  # metres per state unit

    @classmethod
    def fit(cls, x: Tensor) -> "Normaliser":
        """From positions (N, dim): their mean, and the root mean square over all axes as the scale."""
        if x.ndim != 2 or x.shape[0] == 0 or not bool(torch.isfinite(x).all()):
            raise DataError(f"expected finite positions (N, dim) with N >= 1, got shape {tuple(x.shape)}")
        shift = x.double().mean(0)
        scale = float((x.double() - shift).square().mean().sqrt())
        return cls(tuple(shift.tolist()), scale if scale > 0.0 else 1.0)

    def encode(self, x: Tensor) -> Tensor:
        """Metres (..., dim) to state units."""
        return (x - x.new_tensor(self.shift)) / self.scale

    def decode(self, x: Tensor) -> Tensor:
        """State units (..., dim) to metres."""
        return x * self.scale + x.new_tensor(self.shift)


Array = NDArray[np.float64]


def walk_batch(times: Sequence[Array], positions: Sequence[Array], steps: int, horizon: float | None = None) -> Batch:
    """Walks (each (N_i,) times and (N_i, dim) positions) on a grid of ``steps`` equal steps from its first time.

    The grid ends at the walk's last time, or ``horizon`` after the first; after its last time a walk stays where it
    ended. Gives starts (B, dim), times (B, steps + 1) in float64 and targets (B, steps, dim) for ``walk_objective``.
    """
    if len(times) != len(positions) or not times or steps < 1:
        raise DataError(f"expected walks and at least one step, got {len(times)} times, {len(positions)} positions")
    grids = np.stack(
        [t[0] + np.linspace(0.0, (t[-1] - t[0]) if horizon is None else horizon, steps + 1) for t in times]
    )
    targets = np.stack([_interpolated(t, xy, g) for t, xy, g in zip(times, positions, grids, strict=True)])
    path = torch.as_tensor(targets, dtype=torch.get_default_dtype())
    return path[:, 0], torch.as_tensor(grids), path[:, 1:]


def _interpolated(times: Array, xy: Array, grid: Array) -> Array:
    """Positions (T + 1, dim) of the not-a-knot cubic through a walk, constant after its end."""
    from scipy.interpolate import CubicSpline

    if len(times) < 2 or not np.isfinite(xy).all() or not (np.diff(times) > 0).all():
        raise DataError(f"expected two or more finite positions at increasing times, got {len(times)}")
    return np.asarray(CubicSpline(times, xy, bc_type="not-a-knot")(np.minimum(grid, times[-1])))


def walk_objective(model: MixtureModel, batch: Batch, seed: int) -> Tensor:  # noqa: ARG001 (no noise is drawn)
    """FLoss of a batch made by ``walk_batch``: squared error for a single deterministic field, otherwise MDLoss."""
    start, times, targets = batch
    moments = propagate(model, start, times.T)
    single = not model.config.stochastic and model.config.components == 1
    return forecast_loss(moments, targets.transpose(0, 1), None if single else model.floor()).mean()
