"""First fields that look at the data: a component that starts where no data is gets no gradient and dies.

The velocities seen in the data are clustered (k-means++ and a few rounds of Lloyd's), and each field starts leaning
towards one cluster. Where they go from there is up to training.
"""

import torch
from torch import Tensor

from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel

__all__ = ["cluster_centres", "lean", "seeded"]

_ROUNDS = 10


def seeded(model: MixtureModel, velocities: Tensor, seed: int) -> MixtureModel:
    """The model with its K fields leaning towards clusters of velocities (N, dim)."""
    lean(model, cluster_centres(velocities, model.config.components, seed))
    return model


@torch.no_grad()
def lean(model: MixtureModel, velocities: Tensor) -> None:
    """Set the output biases so that field k has about velocity k of (K, dim) before training."""
    k, dim, bound = model.config.components, model.config.dim, model.config.max_speed
    if velocities.shape != (k, dim) or not bool(torch.isfinite(velocities).all()):
        raise DataError(f"expected finite velocities ({k}, {dim}), got shape {tuple(velocities.shape)}")
    bias = model.fields.net.weights()[-1][1]  # (K, 1, outputs)
    raw = velocities.to(bias)
    if bound > 0.0:  # undo the smooth bound
        share = (raw.norm(dim=-1, keepdim=True) / bound).clamp(max=0.99)
        raw = raw * torch.rsqrt(1.0 - share.square())
    bias[:, 0, :dim] = raw


def cluster_centres(points: Tensor, count: int, seed: int) -> Tensor:
    """Centres (count, dim) of clusters of points (N, dim); where points are fewer than centres, some coincide."""
    if points.ndim != 2 or len(points) == 0:
        raise DataError(f"expected points (N, dim) with N >= 1, got shape {tuple(points.shape)}")
    generator = torch.Generator().manual_seed(seed)
    host = points.detach().double().cpu()
    centres = host[torch.randint(len(host), (1,), generator=generator)]
    for _ in range(count - 1):
        far = torch.cdist(host, centres).min(dim=1).values.square()
        weights = far if float(far.sum()) > 0.0 else torch.ones_like(far)
        centres = torch.cat((centres, host[torch.multinomial(weights, 1, generator=generator)]))
    for _ in range(_ROUNDS):
        own = torch.nn.functional.one_hot(torch.cdist(host, centres).argmin(dim=1), count).to(host)  # (N, count)
        size = own.sum(0).unsqueeze(-1)
        centres = torch.where(size > 0, own.T @ host / size.clamp_min(1.0), centres)
    return centres.to(points)
