"""Objectives for ``train``: what the paper minimises, batch by batch.

Endpoints: MDLoss at the end of the path, with TVLoss if wanted. Walks: FLoss along the path, against the not-a-knot
spline through the recorded positions, on a grid of each walk's own times.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from svfm_ros.errors import DataError
from svfm_ros.svfm.losses import (
    combine,
    forecast_loss,
    mixture_density_loss,
    observed_cov,
    transport_variance_loss,
)
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import Moments, propagate
from svfm_ros.svfm.solver.rk4 import grid
from svfm_ros.svfm.spline import CubicSpline
from svfm_ros.svfm.train import Batch, Objective

__all__ = ["endpoint_objective", "walk_batch", "walk_objective"]


def endpoint_objective(steps: int, penalty: float = 0.0) -> Objective[MixtureModel]:
    """For batches of starts (B, dim) and ends (B, dim) after a unit of time, in ``steps`` steps of Runge-Kutta 4."""

    def objective(model: MixtureModel, batch: Batch, seed: int) -> Tensor:  # noqa: ARG001
        start, end = batch
        moments = propagate(model, start, grid(0.0, 1.0, steps, like=start))
        losses = {"MDLoss": _end_loss(model, moments, end)}
        if penalty > 0.0:
            losses["TVLoss"] = transport_variance_loss(moments)
        return combine(losses, penalty).mean()

    return objective


def _end_loss(model: MixtureModel, moments: Moments, end: Tensor) -> Tensor:
    cov = observed_cov(moments.cov[-1], model.floor())
    return mixture_density_loss(end, moments.mean[-1], cov, moments.log_weight[-1])


def walk_batch(times: Sequence[Tensor], positions: Sequence[Tensor], steps: int) -> Batch:
    """Walks (each (N_i,) times and (N_i, dim) positions) on grids of ``steps`` equal steps from first to last time.

    Gives starts (B, dim), grids (B, steps + 1) and targets (B, steps, dim), as ``walk_objective`` reads them.
    """
    if len(times) != len(positions) or not times or steps < 1:
        raise DataError(f"expected walks and at least one step, got {len(times)} times, {len(positions)} positions")
    starts, grids, targets = [], [], []
    for t, xy in zip(times, positions, strict=True):
        spline = CubicSpline(t, xy)
        share = torch.linspace(0.0, 1.0, steps + 1, dtype=xy.dtype, device=xy.device)
        own = t[0] + share * (t[-1] - t[0])
        starts.append(xy[0])
        grids.append(own)
        targets.append(spline(own[1:]))
    return torch.stack(starts), torch.stack(grids), torch.stack(targets)


def walk_objective(model: MixtureModel, batch: Batch, seed: int) -> Tensor:  # noqa: ARG001
    """FLoss (eq. 11) of a batch made by ``walk_batch``; squared error for a single deterministic field."""
    start, times, targets = batch
    moments = propagate(model, start, times.T)
    single = not model.config.stochastic and model.config.components == 1
    return forecast_loss(moments, targets.transpose(0, 1), None if single else model.floor()).mean()
