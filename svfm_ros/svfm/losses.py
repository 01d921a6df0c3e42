"""The paper's losses, one function per equation. Each gives one value per row; a caller averages.

Shapes: B rows, K components, T times after the first, D dimensions. Path losses are computed per component and weighted
by its membership.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from svfm_ros.errors import ConfigError, DataError
from svfm_ros.svfm.moments import Moments

__all__ = [
    "class_mixture_loss",
    "combine",
    "forecast_loss",
    "gaussian_log_density",
    "mixture_density_loss",
    "observed_cov",
    "squared_error",
    "transport_loss",
    "transport_variance_loss",
    "variance_loss",
]

_LOG_2PI = math.log(2.0 * math.pi)
_PREDICTIVE = ("MDLoss", "FLoss", "class")
_PATH = ("TLoss", "VLoss", "TVLoss")


def gaussian_log_density(x: Tensor, mean: Tensor, cov: Tensor) -> Tensor:
    """Log density (...) of x (..., D) under means (..., D) and covariances (..., D, D)."""
    off, size = x - mean, x.shape[-1]
    if size == 1:
        var = cov[..., 0, 0]
        return -0.5 * (off[..., 0].square() / var + torch.log(var) + _LOG_2PI)
    if size == 2:
        return _plane_log_density(off, cov)
    root = torch.linalg.cholesky(cov)
    white: Tensor = torch.linalg.solve_triangular(root, off.unsqueeze(-1), upper=False).squeeze(-1)
    log_det = 2.0 * torch.log(torch.diagonal(root, dim1=-2, dim2=-1)).sum(-1)
    return -0.5 * (white.square().sum(-1) + log_det + size * _LOG_2PI)


def _plane_log_density(off: Tensor, cov: Tensor) -> Tensor:
    """The same in two dimensions, written out."""
    x, y = off.unbind(-1)
    xx, xy, yy = cov[..., 0, 0], cov[..., 0, 1], cov[..., 1, 1]
    det = xx * yy - xy * xy
    return -0.5 * ((x * x * yy - 2.0 * x * y * xy + y * y * xx) / det + torch.log(det)) - _LOG_2PI


def observed_cov(cov: Tensor, floor: Tensor) -> Tensor:
    """Covariances (..., D, D) plus observation noise of standard deviation ``floor``, which bounds them from below."""
    return cov + floor * floor * torch.eye(cov.shape[-1], device=cov.device, dtype=cov.dtype)


def mixture_density_loss(x: Tensor, mean: Tensor, cov: Tensor, log_weight: Tensor) -> Tensor:
    """MDLoss, eq. 8: -log sum_k p(x | mean_k, cov_k) pi_k.

    x (..., D), mean (..., K, D), cov (..., K, D, D), log_weight (..., K); gives (...).
    """
    if x.shape[:-1] != log_weight.shape[:-1] or mean.shape[-1] != x.shape[-1]:
        raise DataError(f"expected one target per row of {tuple(mean.shape)}, got targets {tuple(x.shape)}")
    return -torch.logsumexp(gaussian_log_density(x.unsqueeze(-2), mean, cov) + log_weight, dim=-1)


def squared_error(x: Tensor, mean: Tensor) -> Tensor:
    """Squared distance (...) between (..., D) and (..., D): the secondary loss of a single deterministic field."""
    return (x - mean).square().sum(-1)


def transport_loss(moves: Tensor, weight: Tensor) -> Tensor:
    """TLoss, eq. 9: mean over i of |h(t_i) - h(t_{i-1})|^2, weighted over components.

    moves (T, B, K, D) are the displacements along the field from t_{i-1} to t_i, before components are mixed at t_i;
    weight (B, K), or (T, B, K) at t_0 to t_{T-1}: a path follows component k from t_{i-1} on. Gives (B,).
    """
    return _weighted(moves.square().sum(-1), weight)


def variance_loss(slopes: Tensor, weight: Tensor) -> Tensor:
    """VLoss, eq. 10: mean over i of |dh(t_i) - mean of dh|^2, weighted over components.

    slopes (T, B, K, D) at t_1 to t_T; weight (B, K) or (T, B, K); gives (B,).
    """
    return _weighted((slopes - slopes.mean(0)).square().sum(-1), weight)


def transport_variance_loss(moments: Moments) -> Tensor:
    """TVLoss (B,): eq. 9 plus eq. 10, expected over components and over the noise within each (its sigma points)."""
    weight = (moments.log_weight.exp().unsqueeze(-1) * moments.point_weight).flatten(2)  # (T + 1, B, K * S)
    moves, slopes = moments.moves.flatten(2, 3), moments.slopes[1:].flatten(2, 3)
    return transport_loss(moves, weight[:-1]) + variance_loss(slopes, weight[1:])


def _weighted(per_step: Tensor, weight: Tensor) -> Tensor:
    """(T, B, K) averaged over time and weighted over components: (B,)."""
    return (per_step * weight).sum(-1).mean(0)


def forecast_loss(moments: Moments, targets: Tensor, floor: Tensor | None) -> Tensor:
    """FLoss, eq. 11: mean over t_1..t_T of a secondary loss against interpolated positions (T, B, dim); gives (B,).

    The secondary loss is MDLoss, or the squared error of a single deterministic field where ``floor`` is None.
    """
    if floor is None:
        if moments.mean.shape[2] != 1:
            raise ConfigError(f"expected one component for the squared error, got {moments.mean.shape[2]}")
        return squared_error(targets, moments.mean[1:, :, 0]).mean(0)
    cov = observed_cov(moments.cov[1:], floor)
    return mixture_density_loss(targets, moments.mean[1:], cov, moments.log_weight[1:]).mean(0)


def class_mixture_loss(logits: Tensor, log_weight: Tensor, label: Tensor) -> Tensor:
    """Eq. 8 for classes: -log sum_k softmax(logits_k)[label] pi_k; (B, K, C), (B, K), (B,) to (B,)."""
    log_class = torch.log_softmax(logits, dim=-1)
    own = log_class.gather(-1, label.view(-1, 1, 1).expand(-1, logits.shape[1], 1)).squeeze(-1)
    return -torch.logsumexp(own + log_weight, dim=-1)


def combine(losses: Mapping[str, Tensor], penalty: float) -> Tensor:
    """One predictive loss plus ``penalty`` times the path losses; FLoss with a path loss is refused.

    FLoss penalises paths that deviate from the data, TLoss and VLoss paths that are long or curved: they conflict.
    """
    unknown = [name for name in losses if name not in _PREDICTIVE + _PATH]
    if unknown:
        raise ConfigError(f"expected losses among {', '.join(_PREDICTIVE + _PATH)}, got {unknown[0]!r}")
    paths = [name for name in losses if name in _PATH]
    if "FLoss" in losses and paths:
        raise ConfigError(f"expected FLoss without TLoss or VLoss, which conflict with it, got FLoss with {paths[0]}")
    if len(paths) == len(losses):
        raise ConfigError(f"expected at least one predictive loss of {', '.join(_PREDICTIVE)}, got none")
    total = torch.stack([loss for name, loss in losses.items() if name in _PREDICTIVE]).sum(0)
    return total + penalty * torch.stack([losses[name] for name in paths]).sum(0) if paths else total
