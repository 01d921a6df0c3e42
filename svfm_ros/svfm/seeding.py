"""Initial fields from the data: a component whose field starts far from all data gets no gradient and is never used.

The velocities in the data are clustered, and each field starts with the mean velocity of one cluster.
"""

import torch
from torch import Tensor

from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel

__all__ = ["cluster_centres", "seeded", "set_initial_velocities"]


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
