"""Random numbers of a path, drawn before it is solved.

The paper records the generator's state and resets it; here the draws are a function of (seed, path, campaign) and are
passed in, so that every solver stage evaluates the same field and no global state changes. Each number is a hash of its
index, not the next of a stream: a path gets the same numbers in any batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.errors import DataError

__all__ = ["Noise", "hashed_uniform"]

# SplitMix64 (Steele, Lea and Flood 2014), as signed integers because torch has no unsigned 64-bit arithmetic.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_A = 0xBF58476D1CE4E5B9 - 2**64
_MIX_B = 0x94D049BB133111EB - 2**64
_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True)
class Noise:
    """Frozen draws for a batch of paths; ``campaign`` counts how often they were drawn anew."""

    seed: int
    path: Tensor  # (B,) int64, which path of the seed each row is
    campaign: int
    eps_u: Tensor  # (B, D) standard normal, for the direction
    eps_v: Tensor  # (B,) standard normal, for the log-length
    u_component: Tensor  # (B,) uniform on [0, 1), for the choice of component

    @classmethod
    def draw(
        cls,
        seed: int,
        paths: int | Tensor,
        width: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "Noise":
        """Draws for paths 0..B-1, or for the paths named by an integer tensor ``(B,)``; width is the state's D."""
        path = torch.arange(paths, device=device) if isinstance(paths, int) else paths.to(device)
        if path.ndim != 1 or path.dtype.is_floating_point:
            raise DataError(f"expected path numbers as integers (B,), got {path.dtype} {tuple(path.shape)}")
        return cls._at(int(seed), path.long(), 0, width, dtype)

    @classmethod
    def _at(cls, seed: int, path: Tensor, campaign: int, width: int, dtype: torch.dtype) -> "Noise":
        uniform = hashed_uniform(seed, path, campaign, width + 2)  # (B, D + 2) float64
        normal = torch.special.ndtri(uniform[:, 1:]).to(dtype)
        # Rounding to float32 may give exactly 1, which is outside the last component.
        u_component = uniform[:, 0].clamp(max=1.0 - 2.0**-24).to(dtype)
        return cls(seed, path, campaign, normal[:, 1:], normal[:, 0], u_component)

    @classmethod
    def none(
        cls, rows: int, width: int, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> "Noise":
        """Zero noise: the median field of each component."""
        zero = torch.zeros(rows, width + 2, device=device, dtype=dtype)
        return cls(0, torch.arange(rows, device=device), 0, zero[:, 2:], zero[:, 1], zero[:, 0] + 0.5)

    def next(self, keep: float | Tensor = 1.0) -> "Noise":
        """The noise of the next campaign: eps keeps its correlation ``keep`` with now, the uniform is new."""
        fresh = Noise._at(self.seed, self.path, self.campaign + 1, self.eps_u.shape[1], self.eps_u.dtype)
        rho = torch.as_tensor(keep, device=self.eps_u.device, dtype=self.eps_u.dtype)
        rest = torch.sqrt(torch.clamp(1.0 - rho * rho, min=0.0))
        eps_u, eps_v = rho * self.eps_u + rest * fresh.eps_u, rho * self.eps_v + rest * fresh.eps_v
        return Noise(self.seed, self.path, fresh.campaign, eps_u, eps_v, fresh.u_component)

    def take(self, rows: Tensor) -> "Noise":
        """The draws of some rows, by index or mask."""
        return Noise(
            self.seed, self.path[rows], self.campaign, self.eps_u[rows], self.eps_v[rows], self.u_component[rows]
        )

    def __len__(self) -> int:
        return self.path.shape[0]


def hashed_uniform(seed: int, path: Tensor, campaign: int, count: int) -> Tensor:
    """Uniforms strictly inside (0, 1), ``(B, count)`` float64, each a hash of (seed, path, campaign, column)."""
    key = _mix(_mix(path + _wrapped(seed * _GOLDEN)) + _wrapped(campaign * _MIX_A))  # (B,)
    column = torch.arange(1, count + 1, device=path.device) * _GOLDEN  # overflow wraps, as intended
    bits = _mix(key[:, None] + column)  # (B, count)
    return (_shift_right(bits, 11).double() + 0.5) * _UNIT


def _mix(x: Tensor) -> Tensor:
    x = x + _GOLDEN
    x = (x ^ _shift_right(x, 30)) * _MIX_A
    x = (x ^ _shift_right(x, 27)) * _MIX_B
    return x ^ _shift_right(x, 31)


def _shift_right(x: Tensor, n: int) -> Tensor:
    """Logical shift: torch's own shift copies the sign bit."""
    return (x >> n) & ((1 << (64 - n)) - 1)


def _wrapped(x: int) -> int:
    """The same 64 bits as a signed number."""
    return (x + 2**63) % 2**64 - 2**63
