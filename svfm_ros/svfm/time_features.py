"""How networks see time: not at all, as a number, or as the tuple (cos, sin) that repeats with a period.

The paper writes ``t / l`` with ``l = pi / 12``; what has a period of 24 h for t in hours is ``cos(t * pi / 12)``, and
that is what we take: ``2 pi t / period``.
"""

import math

import torch
from torch import Tensor

from svfm_ros.config.svfm_config import ModelConfig

__all__ = ["time_tuple", "time_width", "with_time"]

_WIDTH = {"none": 0, "raw": 1, "cyclic": 2}


def time_tuple(t: Tensor, period: float) -> Tensor:
    """``(..., 2)``: the cosine and sine of time on a circle of that period."""
    angle = t * (2.0 * math.pi / period)
    return torch.stack((torch.cos(angle), torch.sin(angle)), dim=-1)


def time_width(config: ModelConfig) -> int:
    """How many inputs time takes."""
    return _WIDTH[config.time]


def with_time(config: ModelConfig, t: Tensor, h: Tensor) -> Tensor:
    """States ``(..., D)`` with the features of time ``()`` or ``h``'s leading shape appended."""
    if config.time == "none":
        return h
    seen = t.unsqueeze(-1) if config.time == "raw" else time_tuple(t, config.period)
    return torch.cat((h, seen.to(h.dtype).expand(*h.shape[:-1], -1)), dim=-1)
