"""Networks and the stochastic vector field unit (eqs. 6 and 7).

One field is a vector ``a(h, t)`` with direction ``mu_u = a / |a|`` and median length ``mu_v = |a|``, and two variances,
all from one representation. A realised velocity is

    v u,   u = normalise(mu_u + sqrt(tau_u) s (I - mu_u mu_u^T) eps_u),   v = mu_v exp(sqrt(tau_v) eps_v)

so that ``u . mu_u > 0`` whatever the noise, and in one dimension direction noise vanishes. ``s = |a| / sqrt(|a|^2 +
still^2)`` fades the direction noise out where a field stops: with it the velocity is smooth in ``a`` even at ``a = 0``,
which solvers and gradients both need.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.svfm.fused_field_unit import UnitConstants, fused_velocity

__all__ = [
    "ACTIVATIONS",
    "FieldNet",
    "FieldParams",
    "StackedMLP",
    "Weights",
    "dot",
    "mlp",
    "realise",
    "time_tuple",
    "time_width",
    "with_time",
]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "silu": nn.functional.silu,
    "softplus": nn.functional.softplus,
}

Weights = Sequence[tuple[Tensor, Tensor]]
"""Layer by layer: weight (G, in, out) and bias (G, 1, out) of G networks of one shape."""

_TINY = 1e-12
_FEW = 4
_TIME_WIDTH = {"none": 0, "raw": 1, "cyclic": 2}


def time_tuple(t: Tensor, period: float) -> Tensor:
    """``(cos, sin)`` of ``2 pi t / period``, shape (..., 2).

    The paper writes ``t / l`` with ``l = pi / 12``; what has a period of 24 h for t in hours is ``cos(t pi / 12)``.
    """
    angle = t * (2.0 * math.pi / period)
    return torch.stack((torch.cos(angle), torch.sin(angle)), dim=-1)


def time_width(config: ModelConfig) -> int:
    """Number of network inputs that time takes: 0, 1 (t itself) or 2 (the time tuple)."""
    return _TIME_WIDTH[config.time]


def with_time(config: ModelConfig, t: Tensor, h: Tensor) -> Tensor:
    """States (..., D) with the features of time () or ``h``'s leading shape appended."""
    if config.time == "none":
        return h
    features = t.unsqueeze(-1) if config.time == "raw" else time_tuple(t, config.period)
    return torch.cat((h, features.to(h.dtype).expand(*h.shape[:-1], -1)), dim=-1)


@dataclass(frozen=True, slots=True)
class FieldParams:
    """Outputs of the field networks at some states; the leading shape is that of the states, mostly (B, K)."""

    a: Tensor  # (..., D)
    sigma_u: Tensor | None = None  # (...) sqrt(tau_u); None for deterministic fields
    sigma_v: Tensor | None = None  # (...) sqrt(tau_v)

    @property
    def tau_v(self) -> Tensor:
        """Variance of the log-length (...); zero where fields are deterministic."""
        return torch.zeros_like(self.a[..., 0]) if self.sigma_v is None else self.sigma_v.square()

    @property
    def mean(self) -> Tensor:
        """The mean field ``mu_v exp(tau_v / 2) mu_u`` (..., D)."""
        return self.a if self.sigma_v is None else self.a * torch.exp(0.5 * self.tau_v).unsqueeze(-1)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Inner products (...) of vectors (..., D); written out for few dimensions, where torch's sums are slow."""
    if x.shape[-1] > _FEW:
        return (x * y).sum(-1)
    first, *rest = zip(x.unbind(-1), y.unbind(-1), strict=True)
    total = first[0] * first[1]
    for xi, yi in rest:
        total = torch.addcmul(total, xi, yi)
    return total


def realise(params: FieldParams, eps_u: Tensor, eps_v: Tensor, still: float) -> Tensor:
    """Velocities (..., D) for frozen noise eps_u (..., D) and eps_v (...), which broadcast against the params."""
    a = params.a
    if params.sigma_u is None or params.sigma_v is None:
        return a
    grow = torch.exp(params.sigma_v * eps_v)
    if a.shape[-1] == 1:
        return a * grow.unsqueeze(-1)
    aa, ae = dot(a, a), dot(a, eps_u)
    # The tangent (|a|^2 eps - a (a . eps)) side is orthogonal to a and spread |a| s long per unit of noise.
    side = params.sigma_u * torch.rsqrt(aa + (still * still + _TINY))
    tangent = torch.addcmul(aa.unsqueeze(-1) * eps_u, a, ae.unsqueeze(-1), value=-1.0)
    squared = torch.addcmul(aa * dot(eps_u, eps_u), ae, ae, value=-1.0)  # |tangent|^2 / |a|^2
    # |a + side tangent| = |a| sqrt(1 + side^2 squared): what is left after dividing has the length |a| exactly.
    length = grow * torch.rsqrt(1.0 + side * side * squared.clamp_min(0.0))
    return torch.addcmul(a, side.unsqueeze(-1), tangent) * length.unsqueeze(-1)


class StackedMLP(nn.Module):
    """G networks of one shape as batched matrix products: input (N, in) or (G, N, in), output (G, N, out)."""

    def __init__(
        self, groups: int, sizes: Sequence[int], activation: str, generator: torch.Generator, last_gain: float = 1.0
    ) -> None:
        super().__init__()
        self.activation = activation
        self.layers = len(sizes) - 1
        for i, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
            bound = (last_gain if i == self.layers - 1 else 1.0) / math.sqrt(max(n_in, 1))
            self.register_parameter(f"weight{i}", _uniform((groups, n_in, n_out), bound, generator))
            self.register_parameter(f"bias{i}", _uniform((groups, 1, n_out), bound, generator))

    def weights(self, groups: Tensor | None = None) -> Weights:
        """The layers, or those of some of the networks."""
        pairs = [(self._layer("weight", i), self._layer("bias", i)) for i in range(self.layers)]
        return pairs if groups is None else [(w[groups], b[groups]) for w, b in pairs]

    def _layer(self, kind: str, i: int) -> Tensor:
        """Read the parameter table directly: Module's attribute look-up is slow, and this runs at every evaluation."""
        return cast(Tensor, self._parameters[f"{kind}{i}"])

    def forward(self, x: Tensor) -> Tensor:
        """Output of every network (G, N, out)."""
        return mlp(self.weights(), x, ACTIVATIONS[self.activation])


def mlp(weights: Weights, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """(N, in) or (G, N, in) through G networks: (G, N, out)."""
    groups = weights[0][0].shape[0]
    if groups == 1:  # plain matrix products are faster than batches of one
        x = x.reshape(-1, x.shape[-1])
        for i, (w, b) in enumerate(weights):
            x = torch.addmm(b[0], activation(x) if i else x, w[0])
        return x.unsqueeze(0)
    x = x.expand(groups, -1, -1)
    for i, (w, b) in enumerate(weights):
        x = torch.baddbmm(b, activation(x) if i else x, w)
    return x


class FieldNet(nn.Module):
    """K fields: representation z and, from it, the vector a and both spreads (fig. 3 of the paper)."""

    def __init__(self, config: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        outputs = config.width + (2 if config.stochastic else 0)
        hidden = [config.hidden_units] * config.hidden_layers
        sizes = [config.width + time_width(config), *hidden, outputs]
        self.net = StackedMLP(config.components, sizes, config.activation, generator)

    def forward(self, x: Tensor, weights: Weights | None = None) -> FieldParams:
        """Features (N, in) or (G, N, in) to params with leading shape (G, N)."""
        out = self._raw(x, weights)
        width = self.config.width
        a = _bounded(out[..., :width], self.config.max_speed)
        if not self.config.stochastic:
            return FieldParams(a)
        sigma = self.config.max_log_spread * torch.sigmoid(out[..., width:] + self._offset)
        return FieldParams(a, sigma[..., 0], sigma[..., 1])

    def velocity(self, x: Tensor, eps_u: Tensor, eps_v: Tensor, still: float) -> Tensor:
        """``realise(forward(x), ...)`` (G, N, D), by one compiled loop on the CPU."""
        if x.device.type != "cpu" or not self.config.stochastic:
            return realise(self.forward(x), eps_u, eps_v, still)
        c = self.config
        inverse_speed2 = 0.0 if c.max_speed <= 0.0 else 1.0 / (c.max_speed * c.max_speed)
        constants = UnitConstants(inverse_speed2, still * still + _TINY, c.max_log_spread, self._offset)
        return fused_velocity(self._raw(x, None), eps_u, eps_v, constants)

    def _raw(self, x: Tensor, weights: Weights | None) -> Tensor:
        return mlp(weights or self.net.weights(), x, ACTIVATIONS[self.config.activation])

    @property
    def _offset(self) -> float:
        """A sigmoid keeps the spread below its bound; with this, an output of zero gives the first value."""
        first, most = self.config.first_log_spread, self.config.max_log_spread
        return math.log(first / (most - first))


def _bounded(raw: Tensor, max_speed: float) -> Tensor:
    """The same direction, with a length that approaches max_speed smoothly; 0 leaves it as it is."""
    if max_speed <= 0.0:
        return raw
    squared = dot(raw, raw).unsqueeze(-1)
    return raw * torch.rsqrt(1.0 + squared * (1.0 / (max_speed * max_speed)))


def _uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter((torch.rand(shape, generator=generator) * 2.0 - 1.0) * bound)
