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

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm import ModelConfig
from svfm_ros.svfm.cyclic import time_width

__all__ = ["ACTIVATIONS", "FieldNet", "FieldParams", "StackedMLP", "Weights", "mlp", "realise"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "silu": nn.functional.silu,
    "softplus": nn.functional.softplus,
}

Weights = Sequence[tuple[Tensor, Tensor]]
"""Layer by layer: weight (G, in, out) and bias (G, 1, out) of G networks of one shape."""

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class FieldParams:
    """What the networks say about the fields at some states; the leading shape is the states' own, mostly (B, K)."""

    a: Tensor  # (..., D)
    log_tau_u: Tensor | None = None  # (...), None for deterministic fields
    log_tau_v: Tensor | None = None  # (...)

    @property
    def mu_v(self) -> Tensor:
        """Median length (...)."""
        return torch.sqrt(torch.linalg.vecdot(self.a, self.a) + _TINY)

    @property
    def mu_u(self) -> Tensor:
        """Mean direction (..., D)."""
        return self.a / self.mu_v.unsqueeze(-1)

    @property
    def tau_u(self) -> Tensor:
        """Variance of the direction in the tangent plane (...); zero where fields are deterministic."""
        return torch.zeros_like(self.a[..., 0]) if self.log_tau_u is None else self.log_tau_u.exp()

    @property
    def tau_v(self) -> Tensor:
        """Variance of the log-length (...)."""
        return torch.zeros_like(self.a[..., 0]) if self.log_tau_v is None else self.log_tau_v.exp()

    @property
    def mean(self) -> Tensor:
        """The mean field ``mu_v exp(tau_v / 2) mu_u`` (..., D)."""
        return self.a if self.log_tau_v is None else self.a * torch.exp(0.5 * self.tau_v).unsqueeze(-1)


def realise(params: FieldParams, eps_u: Tensor, eps_v: Tensor, still: float) -> Tensor:
    """Velocities (..., D) for frozen noise eps_u (..., D) and eps_v (...), which broadcast against the params."""
    a = params.a
    if params.log_tau_u is None or params.log_tau_v is None:
        return a
    grow = torch.exp(torch.exp(0.5 * params.log_tau_v) * eps_v).unsqueeze(-1)
    if a.shape[-1] == 1:
        return a * grow
    aa = torch.linalg.vecdot(a, a).unsqueeze(-1)
    ae = torch.linalg.vecdot(a, eps_u).unsqueeze(-1)
    ee = torch.linalg.vecdot(eps_u, eps_u).unsqueeze(-1)
    r2 = aa + (still * still + _TINY)
    spread = torch.exp(0.5 * params.log_tau_u).unsqueeze(-1)
    side = spread * torch.rsqrt(r2)  # times the tangent below: spread |a| s (I - mu mu^T) eps
    tangent = torch.addcmul(aa * eps_u, a, ae, value=-1.0)  # |a|^2 eps - a (a . eps), orthogonal to a
    q = torch.clamp(torch.addcmul(aa * ee, ae, ae, value=-1.0), min=0.0) / r2
    # The length of a + side * tangent is |a| sqrt(1 + spread^2 q): dividing leaves a vector of length |a| exactly.
    return torch.addcmul(a, side, tangent) * (grow * torch.rsqrt(1.0 + spread * spread * q))


class StackedMLP(nn.Module):
    """G networks of one shape as batched matrix products: input (N, in) or (G, N, in), output (G, N, out)."""

    def __init__(
        self, groups: int, sizes: Sequence[int], activation: str, generator: torch.Generator, last_gain: float = 1.0
    ) -> None:
        super().__init__()
        self.activation = activation
        self.weight = nn.ParameterList()
        self.bias = nn.ParameterList()
        for i, (n_in, n_out) in enumerate(itertools.pairwise(sizes)):
            bound = (last_gain if i == len(sizes) - 2 else 1.0) / math.sqrt(max(n_in, 1))
            self.weight.append(_uniform((groups, n_in, n_out), bound, generator))
            self.bias.append(_uniform((groups, 1, n_out), bound, generator))

    def weights(self, groups: Tensor | None = None) -> Weights:
        """The layers, or those of some of the networks."""
        pairs = zip(self.weight, self.bias, strict=True)
        return list(pairs) if groups is None else [(w[groups], b[groups]) for w, b in pairs]

    def forward(self, x: Tensor) -> Tensor:
        """Output of every network (G, N, out)."""
        return mlp(self.weights(), x, ACTIVATIONS[self.activation])


def mlp(weights: Weights, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """(N, in) or (G, N, in) through G networks: (G, N, out)."""
    groups = weights[0][0].shape[0]
    if groups == 1:  # plain matrix products are quicker than batches of one
        x = x.reshape(-1, x.shape[-1])
        for i, (w, b) in enumerate(weights):
            x = torch.addmm(b[0], activation(x) if i else x, w[0])
        return x.unsqueeze(0)
    x = x.expand(groups, -1, -1)
    for i, (w, b) in enumerate(weights):
        x = torch.baddbmm(b, activation(x) if i else x, w)
    return x


class FieldNet(nn.Module):
    """K fields: representation z and, linear in it, the vector a and both log-variances (fig. 3 of the paper)."""

    def __init__(self, config: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        outputs = config.width + (2 if config.stochastic else 0)
        hidden = [config.hidden_units] * config.hidden_layers
        sizes = [config.width + time_width(config), *hidden, outputs]
        self.net = StackedMLP(config.components, sizes, config.activation, generator)

    def forward(self, x: Tensor, weights: Weights | None = None) -> FieldParams:
        """Features (N, in) or (G, N, in) to params with leading shape (G, N)."""
        out = mlp(weights or self.net.weights(), x, ACTIVATIONS[self.config.activation])
        width = self.config.width
        a = _bounded(out[..., :width], self.config.max_speed)
        if not self.config.stochastic:
            return FieldParams(a)
        log_tau = self._log_variance(out[..., width:])
        return FieldParams(a, log_tau[..., 0], log_tau[..., 1])

    def _log_variance(self, raw: Tensor) -> Tensor:
        """Log-variances that start at first_log_spread and stay below max_log_spread."""
        high, first = math.log(self.config.max_log_spread), math.log(self.config.first_log_spread)
        # log(e^-x + e^-y) is a smooth minimum of x and y; the offset makes raw = 0 give the first value exactly.
        offset = first - math.log1p(-math.exp(first - high))
        return -2.0 * nn.functional.softplus(-(raw + (offset - high))) + 2.0 * high


def _bounded(raw: Tensor, max_speed: float) -> Tensor:
    """The same direction, with a length that approaches max_speed smoothly; 0 leaves it as it is."""
    if max_speed <= 0.0:
        return raw
    squared = torch.linalg.vecdot(raw, raw).unsqueeze(-1)
    return raw * torch.rsqrt(1.0 + squared * (1.0 / (max_speed * max_speed)))


def _uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> nn.Parameter:
    return nn.Parameter((torch.rand(shape, generator=generator) * 2.0 - 1.0) * bound)
