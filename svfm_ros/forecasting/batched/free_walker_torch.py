"""The free walker in torch, for many rows at once: to learn it, and to forecast on a GPU.

Every function here computes what the compiled one of ``free_walker.py`` that its docstring names computes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.forecasting.free_walker import (
    GOING,
    LEAST_M,
    LOG_SCALES,
    LOG_STILL,
    MEMORY,
    MOST_M,
    SCALE_M,
    STILL_M,
    SWAY_M,
)

__all__ = [
    "NextMove",
    "in_frame",
    "move_log_densities",
    "next_move",
    "part_log_densities",
    "rotated",
    "student_log_densities",
    "way_back",
]


@dataclass(frozen=True, slots=True)
class NextMove:
    """The mixture of the next move, P parts; centres and scales along and across the direction."""

    direction: Tensor  # (..., 2)
    log_share: Tensor  # (..., P)
    centre: Tensor  # (..., P, 2), metres
    scale: Tensor  # (..., P, 2), metres


def next_move(weights: Mapping[str, Tensor], moves: Tensor, known: Tensor) -> NextMove:
    """From the last moves (..., MEMORY, 2), newest first, of which ``known`` (...) are known; ``free_predict``.

    Without ``sway`` among the weights, those who stand are not drawn back.
    """
    u, base_m, features = _context(moves, known)
    hidden = torch.tanh(features @ weights["w1"] + weights["b1"])
    out = torch.tanh(hidden @ weights["w2"] + weights["b2"]) @ weights["w3"] + weights["b3"]
    going = out[..., : 5 * GOING].unflatten(-1, (GOING, 5))
    base_m = base_m[..., None, None]
    centre = in_frame(moves[..., 0, :], u).unsqueeze(-2) + base_m * going[..., :2]
    scale = base_m * torch.exp(going[..., 2:4].clamp(*LOG_SCALES))
    still = (STILL_M * torch.exp(out[..., 5 * GOING + 1].clamp(*LOG_STILL)))[..., None, None]
    back = torch.zeros_like(centre[..., 0, :])
    if "sway" in weights:
        share, narrower = weights["sway"].unbind()
        back, still = share * in_frame(way_back(moves, known), u), narrower * still
    return NextMove(
        u,
        torch.log_softmax(torch.cat([going[..., 4], out[..., 5 * GOING : 5 * GOING + 1]], -1), -1),
        torch.cat([centre, back.unsqueeze(-2)], -2),
        torch.cat([scale, still.expand(*still.shape[:-1], 2)], -2),
    )


def move_log_densities(expected: NextMove, move: Tensor, nu: Tensor) -> Tensor:
    """Log densities (...) of moves (..., 2), whatever part they come from."""
    return torch.logsumexp(part_log_densities(expected, move, nu) + expected.log_share, -1)


def part_log_densities(expected: NextMove, move: Tensor, nu: Tensor, noise_var: Tensor | float = 0.0) -> Tensor:
    """Log densities (..., P) of moves (..., 2) in each part; ``noise_var`` is added to the square of every scale."""
    scale = torch.sqrt(expected.scale.square() + noise_var)
    z = (in_frame(move, expected.direction).unsqueeze(-2) - expected.centre) / scale
    return student_log_densities(z, nu).sum(-1) - torch.log(scale).sum(-1)


def way_back(moves: Tensor, known: Tensor) -> Tensor:
    """Vectors (..., 2) from the position now to the mean of the last positions; compare ``_way_back``."""
    count = known.unsqueeze(-1)
    weight = (count - torch.arange(MEMORY, device=moves.device)).clamp(min=0) / (count + 1.0)
    back = -(weight.unsqueeze(-1) * moves).sum(-2)
    return back / (1.0 + (back.square().sum(-1, keepdim=True) / SWAY_M**2).square())


def _context(moves: Tensor, known: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Direction (..., 2), base scale in metres and features (..., FEATURES); compare ``context``."""
    is_known = torch.arange(MEMORY, device=moves.device) < known.unsqueeze(-1)
    x = torch.where(is_known.unsqueeze(-1), moves, 0.0)
    total, recent = x.sum(-2), x[..., :2, :].sum(-2)
    recent = torch.where(recent.norm(dim=-1, keepdim=True) < 0.02, total, recent)
    length = recent.norm(dim=-1, keepdim=True)
    ahead, left = (recent / length.clamp(min=1e-9)).unbind(-1)
    moves_on = length.squeeze(-1) > 1e-6
    u = torch.stack([torch.where(moves_on, ahead, 1.0), torch.where(moves_on, left, 0.0)], -1)
    n = known.clamp(min=1).unsqueeze(-1)
    mean = total / n
    x = torch.where(is_known.unsqueeze(-1), moves, mean.unsqueeze(-2))
    unsteady = torch.sqrt((x - mean.unsqueeze(-2)).square().sum((-2, -1)) / n.squeeze(-1))
    speed = mean.norm(dim=-1)
    own = in_frame(x, u.unsqueeze(-2)) / SCALE_M
    more = [torch.log(unsteady + 0.01) + 3.0, torch.log(speed + 0.02) + 1.5]
    more += [(own[..., 0, 1] - own[..., 1, 1]) * 2.0, known / MEMORY - 0.5]
    base_m = (LEAST_M + 0.3 * unsteady + 0.06 * speed).clamp(max=MOST_M)
    return u, base_m, torch.cat([own.flatten(-2), torch.stack(more, -1)], -1)


def in_frame(x: Tensor, u: Tensor) -> Tensor:
    """Along and across (..., 2) of vectors in the frame with direction ``u``."""
    along, across = (x * u).sum(-1), x[..., 1] * u[..., 0] - x[..., 0] * u[..., 1]
    return torch.stack([along, across], -1)


def rotated(x: Tensor, u: Tensor) -> Tensor:
    """The reverse of ``in_frame``."""
    (along, across), (ux, uy) = x.unbind(-1), u.unbind(-1)
    return torch.stack([along * ux - across * uy, along * uy + across * ux], -1)


def student_log_densities(z: Tensor, nu: Tensor) -> Tensor:
    """Log densities of standard Student-t; compare ``student_log_density``."""
    norm = torch.lgamma(0.5 * (nu + 1.0)) - torch.lgamma(0.5 * nu) - 0.5 * torch.log(nu * math.pi)
    return norm - 0.5 * (nu + 1.0) * torch.log1p(z * z / nu)
