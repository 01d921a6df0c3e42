"""Positions in metres to network inputs of zero mean and unit scale, and back; one scale for all axes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.errors import DataError

__all__ = ["Normaliser"]


@dataclass(frozen=True, slots=True)
class Normaliser:
    """``encode(x) = (x - shift) / scale``; a length of one state unit is ``scale`` metres."""

    shift: tuple[float, ...]  # (dim,), in metres
    scale: float  # metres per state unit

    @classmethod
    def identity(cls, dim: int) -> "Normaliser":
        """Shift 0 and scale 1."""
        return cls((0.0,) * dim, 1.0)

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
