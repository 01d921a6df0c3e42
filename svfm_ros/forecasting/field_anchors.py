"""What a field should look like where nobody walked: lead back to the walks and on with them.

A network says something everywhere, also a step beside the walks it learned from, and a sampled path gets there.
Anchors are points around each group's walks with the velocity that a kernel average of that group suggests, turned a
little towards the middle of the walks. They start the fields off, and weigh on them lightly afterwards.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.forecasting.likelihood import WalkBatch
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = ["Anchors", "anchor_loss", "draw_anchors"]

_KERNEL_M = 0.2  # width of the average
_AROUND_M = 0.35  # how far around the walks anchors are drawn
_RETURN_PER_S = 1.0  # how fast a field leads back
_PER_POINT = 2
_MOST = 1500  # anchors per field: more say nothing new


@dataclass(frozen=True, slots=True)
class Anchors:
    """Per field: points and the velocities wanted there; padded, with a weight of zero where there is none."""

    xy: Tensor  # (K, M, 2), metres
    velocity: Tensor  # (K, M, 2), m/s
    weight: Tensor  # (K, M)


def draw_anchors(walks: WalkBatch, group: Tensor, model: WalkModel, generator: torch.Generator) -> Anchors:
    """Anchors for every field from the walks of its group (N,)."""
    drawn = [_of_group(walks, group == k, model, generator) for k in range(model.config.components)]
    most = max(len(xy) for xy, _ in drawn)
    xy, velocity = torch.zeros(len(drawn), most, 2), torch.zeros(len(drawn), most, 2)
    weight = torch.zeros(len(drawn), most)
    for k, (points, wanted) in enumerate(drawn):
        xy[k, : len(points)], velocity[k, : len(points)] = points, wanted
        weight[k, : len(points)] = 1.0
    return Anchors(xy, velocity, weight)


def _of_group(walks: WalkBatch, mine: Tensor, model: WalkModel, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    index = torch.arange(walks.xy.shape[1] - 1)
    skip = min(len(model.raw_ramp), 2)  # the first steps are slower than the field
    use = (index < walks.steps.unsqueeze(-1)) & (index >= skip) & mine.unsqueeze(-1)  # (N, I)
    if not bool(use.any()):
        return torch.zeros(0, 2), torch.zeros(0, 2)
    here = walks.xy[:, :-1][use]
    velocity = (walks.xy[:, 1:] - walks.xy[:, :-1])[use] / model.dt_s
    starts = walks.xy[mine][:, : skip + 1].reshape(-1, 2)  # but the field has to begin where walks begin
    centres = torch.cat((here, starts))
    pick = torch.randint(len(centres), (min(_MOST, _PER_POINT * len(centres)),), generator=generator)
    at = centres[pick] + _AROUND_M * torch.randn(len(pick), 2, generator=generator)
    return at, _suggested(at, here, velocity)


def _suggested(at: Tensor, here: Tensor, velocity: Tensor) -> Tensor:
    """Velocity (M, 2) at points (M, 2) from a kernel average over recorded ones."""
    squared: Tensor = torch.cdist(at, here).square()
    width = squared.amin(1, keepdim=True).clamp_min(_KERNEL_M**2)  # far away, the nearest few decide
    share = torch.softmax(-0.5 * squared / width, dim=1)
    mean: Tensor = share @ velocity
    middle = share @ here
    speed = torch.linalg.vector_norm(mean, dim=1, keepdim=True).clamp_min(1e-6)
    ahead = mean / speed
    back = middle - at
    back = back - ahead * (back * ahead).sum(1, keepdim=True)
    turned = mean + _RETURN_PER_S * back
    length: Tensor = torch.linalg.vector_norm(turned, dim=1, keepdim=True)
    wanted: Tensor = turned * (speed / length.clamp_min(1e-6))
    return wanted


def anchor_loss(model: WalkModel, anchors: Anchors, spread_mps: float) -> Tensor:
    """Nats against velocities that differ from the anchors' by more than ``spread_mps``."""
    a = model.fields(model.features(anchors.xy)).a * model.config.unit_m  # (K, M, 2)
    off: Tensor = (a - anchors.velocity).square().sum(-1) * anchors.weight
    return 0.5 * off.sum() / spread_mps**2
