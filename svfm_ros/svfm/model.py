"""The model: a mixture of (stochastic) vector fields, with three switches for the eight corners of the paper's cube.

``unit`` evaluates all K fields at once. ``realise`` binds frozen noise and a component per row and gives an ordinary
right-hand side ``f(t, h)``: between two switches a path is an ordinary differential equation.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.fields import FieldNet, FieldParams, Weights, realise, with_time
from svfm_ros.svfm.noise import Noise
from svfm_ros.svfm.selection import Selection, choose

__all__ = ["MixtureModel", "RealisedField"]


class MixtureModel(nn.Module):
    """K fields and the selection between them; states are (B, D) with D = dim + augment."""

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        self.fields = FieldNet(config, generator)
        self.selection = Selection(config, generator)
        if config.learn_floor:
            self.raw_floor = nn.Parameter(torch.tensor(math.log(config.floor / (config.max_floor - config.floor))))
        if config.learn_correlation:
            self.log_correlation = nn.Parameter(torch.tensor(math.log(config.correlation)))

    def unit(self, t: Tensor, h: Tensor) -> FieldParams:
        """All K fields at times () or (B,) and states (B, D): params of leading shape (B, K)."""
        return _swapped(self.fields.forward(with_time(self.config, t, h)))

    def velocity_each(self, t: Tensor, h: Tensor, eps_u: Tensor, eps_v: Tensor) -> Tensor:
        """Realised field k at states h[k]: (K, N, D); noise (K, N, D) and (K, N), or what broadcasts to it."""
        return self.fields.velocity(with_time(self.config, t, h), eps_u, eps_v, self.config.still_speed)

    def log_prior(self, t: Tensor, h: Tensor) -> Tensor:
        """Log pi(t_0) (B, K), eq. 2."""
        return self.selection.log_prior(with_time(self.config, t, h))

    def log_transition(self, t: Tensor, h: Tensor) -> Tensor:
        """Log Psi (B, K, K), eq. 3."""
        return self.selection.log_transition(with_time(self.config, t, h))

    def log_emission(self, t: Tensor, h: Tensor) -> Tensor:
        """Log psi (B, K), eq. 4."""
        return self.selection.log_emission(with_time(self.config, t, h))

    def pick(self, t: Tensor, h: Tensor, noise: Noise) -> Tensor:
        """A component (B,) for each row drawn from pi(t_0) with the row's uniform."""
        return choose(self.log_prior(t, h).exp(), noise.u_component)

    def realise(self, noise: Noise, component: Tensor, origin: Tensor | None = None) -> "RealisedField":
        """The field each row follows; ``origin`` (B,) is added to the solver's time before it enters the networks."""
        return RealisedField.of(self, noise, component, origin)

    def pad(self, x: Tensor) -> Tensor:
        """What is observed (..., dim) as a state (..., D), with zeros where the model is augmented."""
        if x.shape[-1] != self.config.dim:
            raise DataError(f"expected states with {self.config.dim} dimensions, got shape {tuple(x.shape)}")
        return nn.functional.pad(x, (0, self.config.augment)) if self.config.augment else x

    def observed(self, h: Tensor) -> Tensor:
        """The part of a state that is observed (..., dim)."""
        return h[..., : self.config.dim]

    def floor(self) -> Tensor:
        """Standard deviation () of the observation noise."""
        if self.config.learn_floor:
            return self.config.max_floor * torch.sigmoid(self.raw_floor)
        return torch.full((), self.config.floor, device=self.device, dtype=self.dtype)

    def keep(self, dt: float | Tensor) -> Tensor:
        """Correlation of a path's noise across a time ``dt``."""
        dt = torch.as_tensor(dt, device=self.device, dtype=self.dtype)
        if self.config.learn_correlation:
            return torch.exp(-dt * torch.exp(-self.log_correlation))
        if self.config.correlation == 0.0:
            return torch.zeros_like(dt)
        return torch.exp(-dt / self.config.correlation)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.fields.net.weights()[0][0].device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self.fields.net.weights()[0][0].dtype

    def draw(self, seed: int, paths: int | Tensor) -> Noise:
        """Frozen noise that fits this model's state, device and type."""
        return Noise.draw(seed, paths, self.config.width, device=self.device, dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows sorted by component and padded to equal counts, so that each row is evaluated by one network, not by K."""

    present: Tensor  # (G,) the components that occur
    rows: Tensor | None  # (G * M,) row at each position; None if there is one group
    position: Tensor | None  # (B,) position of each row

    @classmethod
    def of(cls, component: Tensor) -> "_Groups":
        present, group, counts = torch.unique(component, return_inverse=True, return_counts=True)
        if present.shape[0] <= 1:
            return cls(present, None, None)
        most = int(counts.max())
        order = torch.argsort(group, stable=True)
        first = counts.cumsum(0) - counts
        within = torch.arange(len(group), device=group.device) - first[group[order]]
        position = torch.empty_like(group)
        position[order] = group[order] * most + within
        rows = torch.zeros(present.shape[0] * most, dtype=torch.long, device=group.device)
        rows[position] = torch.arange(len(group), device=group.device)
        return cls(present, rows, position)

    def pack(self, x: Tensor) -> Tensor:
        """Rows (B, n) in the groups' order (G, M, n)."""
        if self.rows is None:
            return x.unsqueeze(0)
        return x.index_select(0, self.rows).view(self.present.shape[0], -1, x.shape[-1])

    def unpack(self, x: Tensor) -> Tensor:
        """Back to rows (B, n)."""
        return x[0] if self.position is None else x.reshape(-1, x.shape[-1]).index_select(0, self.position)


@dataclass(frozen=True, slots=True)
class RealisedField:
    """An ordinary right-hand side: one component and one frozen noise per row."""

    model: MixtureModel
    noise: Noise
    component: Tensor  # (B,)
    origin: Tensor | None  # (B,)
    groups: _Groups
    weights: Weights
    eps_u: Tensor  # (G, M, D), the noise in the groups' order
    eps_v: Tensor  # (G, M)

    @classmethod
    def of(cls, model: MixtureModel, noise: Noise, component: Tensor, origin: Tensor | None) -> "RealisedField":
        """Bind noise and components; weights and noise are gathered here, once."""
        if component.shape != noise.path.shape:
            raise DataError(f"expected a component for each of {len(noise)} rows, got {tuple(component.shape)}")
        groups = _Groups.of(component)
        net = model.fields.net
        weights = net.weights() if model.config.components == 1 else net.weights(groups.present)
        eps_u, eps_v = groups.pack(noise.eps_u), groups.pack(noise.eps_v.unsqueeze(-1)).squeeze(-1)
        return cls(model, noise, component, origin, groups, weights, eps_u, eps_v)

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        """dh/dt (B, D) at times () or (B,) and states (B, D)."""
        params = self._packed_params(t, h)
        return self.groups.unpack(realise(params, self.eps_u, self.eps_v, self.model.config.still_speed))

    def _packed_params(self, t: Tensor, h: Tensor) -> FieldParams:
        x = with_time(self.model.config, t if self.origin is None else t + self.origin, h)
        return self.model.fields.forward(self.groups.pack(x), self.weights)

    def take(self, rows: Tensor) -> "RealisedField":
        """The field of some rows, by index or mask."""
        origin = None if self.origin is None else self.origin[rows]
        return RealisedField.of(self.model, self.noise.take(rows), self.component[rows], origin)


def _swapped(params: FieldParams) -> FieldParams:
    """Leading shape (K, B) to (B, K)."""
    u, v = params.sigma_u, params.sigma_v
    return FieldParams(params.a.transpose(0, 1), None if u is None else u.T, None if v is None else v.T)
