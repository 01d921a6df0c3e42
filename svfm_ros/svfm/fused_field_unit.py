"""Eqs. 6 and 7 and their gradient as one compiled loop: from network outputs to realised velocities.

In torch they are about twenty small operations and as many for the gradient, and at these sizes the cost of starting an
operation dominates: a training step takes 2.1 times longer in torch with 2 fields and 100 rows, 1.3 times with 4 fields
and 80 walks. The formulas are those of ``fields.realise``; a test compares the two. CPU only: on a GPU the operations
of ``fields`` are used.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from svfm_ros.compiled import kernel

__all__ = ["UnitConstants", "fused_velocity"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class UnitConstants:
    """Constants of the unit."""

    inverse_speed2: float  # one over the square of the greatest length; 0 where there is none
    still2: float  # square of the speed below which direction noise fades, and a tiny number
    most: float  # the greatest spread
    offset: float  # what is added to a raw spread


def fused_velocity(raw: Tensor, eps_u: Tensor, eps_v: Tensor, constants: UnitConstants) -> Tensor:
    """Velocities (G, N, D) of stochastic fields from raw outputs (G, N, D + 2) and frozen noise.

    Noise is (G, N, D) and (G, N), or what broadcasts to it, and gets no gradient.
    """
    shape = raw.shape[:-1]
    noise_u, noise_v = eps_u.expand(*shape, -1).contiguous(), eps_v.expand(shape).contiguous()
    return _Realised.apply(raw, noise_u, noise_v, constants)  # type: ignore[no-any-return, no-untyped-call]


class _Realised(torch.autograd.Function):
    """Raw outputs of the networks to realised velocities."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor, eps_u: Tensor, eps_v: Tensor, constants: UnitConstants) -> Tensor:
        rows = raw.contiguous()
        out = torch.empty_like(eps_u)
        c = constants
        _velocity(_flat(rows), _flat(eps_u), _line(eps_v), _flat(out), c.inverse_speed2, c.still2, c.most, c.offset)
        ctx.save_for_backward(rows, eps_u, eps_v)
        ctx.constants = constants
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        rows, eps_u, eps_v = ctx.saved_tensors
        out = torch.empty_like(rows)
        c, grad = ctx.constants, grad.contiguous()
        _velocity_back(
            *(_flat(rows), _flat(eps_u), _line(eps_v), _flat(grad), _flat(out)),
            *(c.inverse_speed2, c.still2, c.most, c.offset),
        )
        return out, None, None, None


def _flat(x: Tensor) -> Array:
    """(G, N, n) as rows (G * N, n), without a copy."""
    return x.detach().view(-1, x.shape[-1]).numpy()


def _line(x: Tensor) -> Array:
    return x.detach().view(-1).numpy()


@kernel
def _bound_back(raw: Array, grad: Array, speed2: float) -> None:
    """Gradients of bounded vectors become those of raw ones, in place; columns beyond those of ``raw`` stay."""
    for n in range(len(raw)):
        q, along = 0.0, 0.0
        for i in range(raw.shape[1]):
            q += raw[n, i] * raw[n, i]
            along += raw[n, i] * grad[n, i]
        b = 1.0 / np.sqrt(1.0 + q * speed2)
        pull = speed2 * b * b * b * along
        for i in range(raw.shape[1]):
            grad[n, i] = grad[n, i] * b - raw[n, i] * pull


@kernel
def _parts(
    raw: Array, eps_u: Array, speed2: float, most: float, offset: float
) -> tuple[float, float, float, float, float, float]:
    """Of one row: factor that bounds its length, a . a, a . eps, eps . eps, and both spreads."""
    width = len(eps_u)
    q, qe, ee = 0.0, 0.0, 0.0
    for i in range(width):
        q += raw[i] * raw[i]
        qe += raw[i] * eps_u[i]
        ee += eps_u[i] * eps_u[i]
    b = 1.0 / np.sqrt(1.0 + q * speed2)
    sigma_u = most / (1.0 + np.exp(-(raw[width] + offset)))
    sigma_v = most / (1.0 + np.exp(-(raw[width + 1] + offset)))
    return b, q * b * b, qe * b, ee, sigma_u, sigma_v


@kernel
def _velocity(
    raw: Array, eps_u: Array, eps_v: Array, out: Array, speed2: float, still2: float, most: float, offset: float
) -> None:
    width = eps_u.shape[1]
    for n in range(len(raw)):
        b, aa, ae, ee, sigma_u, sigma_v = _parts(raw[n], eps_u[n], speed2, most, offset)
        side = sigma_u / np.sqrt(aa + still2)
        across = max(aa * ee - ae * ae, 0.0) if width > 1 else 0.0
        length = np.exp(sigma_v * eps_v[n]) / np.sqrt(1.0 + side * side * across)
        for i in range(width):
            a = raw[n, i] * b
            out[n, i] = (a + side * (aa * eps_u[n, i] - a * ae)) * length


@kernel
def _velocity_back(
    raw: Array,
    eps_u: Array,
    eps_v: Array,
    grad: Array,
    out: Array,
    speed2: float,
    still2: float,
    most: float,
    offset: float,
) -> None:
    width = eps_u.shape[1]
    for n in range(len(raw)):
        b, aa, ae, ee, sigma_u, sigma_v = _parts(raw[n], eps_u[n], speed2, most, offset)
        h = 1.0 / np.sqrt(aa + still2)
        side = sigma_u * h
        across = max(aa * ee - ae * ae, 0.0) if width > 1 else 0.0
        p = 1.0 / np.sqrt(1.0 + side * side * across)
        grow = np.exp(sigma_v * eps_v[n])
        length = grow * p
        # Backwards, in the order of the lines above; d_x is the gradient of x.
        d_length, d_side, d_aa, d_ae = 0.0, 0.0, 0.0, 0.0
        for i in range(width):
            a, g = raw[n, i] * b, grad[n, i]
            tangent = aa * eps_u[n, i] - a * ae
            d_length += g * (a + side * tangent)
            d_side += g * length * tangent
            d_aa += g * length * side * eps_u[n, i]
            d_ae -= g * length * side * a
        d_square = -0.5 * p * p * p * grow * d_length
        d_side += 2.0 * d_square * side * across
        if across > 0.0:
            d_aa += d_square * side * side * ee
            d_ae -= 2.0 * d_square * side * side * ae
        d_aa -= 0.5 * d_side * sigma_u * h * h * h
        for i in range(width):
            a = raw[n, i] * b
            out[n, i] = grad[n, i] * length * (1.0 - side * ae) + d_ae * eps_u[n, i] + 2.0 * d_aa * a
        out[n, width] = d_side * h * sigma_u * (1.0 - sigma_u / most)
        out[n, width + 1] = d_length * length * eps_v[n] * sigma_v * (1.0 - sigma_v / most)
    _bound_back(raw[:, :width], out, speed2)
