"""Which field a path follows: pick and stick (eq. 2) and forward filtering (eqs. 3 to 5).

Beliefs are probabilities over components, (B, K). Under filtering, ``sample_next`` couples consecutive draws: the
shares of the components among sampled paths are those of eq. 5, with as few switches as possible.
"""

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.fields import StackedMLP, time_width

__all__ = ["Selection", "choose", "filter_step", "joint_weights", "sample_next"]

_TINY = 1e-12


class Selection(nn.Module):
    """The networks behind pi(t_0), and behind Psi and psi where the model filters; fed with state and time features."""

    def __init__(self, config: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        k = config.components
        self.prior_net = self._net(k, generator)
        filtering = config.selection == "filter" and k > 1
        self.transition_net = self._net(k * k, generator) if filtering else None
        self.emission_net = self._net(k, generator) if filtering else None

    def _net(self, outputs: int, generator: torch.Generator) -> StackedMLP:
        config = self.config
        hidden = [config.hidden_units] if config.gate == "mlp" else []
        sizes = [config.width + time_width(config), *hidden, outputs]
        return StackedMLP(1, sizes, config.activation, generator, last_gain=0.1)

    def log_prior(self, x: Tensor) -> Tensor:
        """Log pi(t_0) (N, K) from features (N, in), eq. 2."""
        return torch.log_softmax(self.prior_net(x)[0], dim=-1)

    def log_transition(self, x: Tensor) -> Tensor:
        """Log Psi (N, K, K), rows on the simplex, eq. 3; ``stickiness`` favours staying."""
        if self.transition_net is None:
            raise DataError(f"expected a model with selection 'filter' and K > 1, got {self.config.selection!r}")
        k = self.config.components
        logits = self.transition_net(x)[0].view(-1, k, k)
        stay = self.config.stickiness * torch.eye(k, device=x.device, dtype=x.dtype)
        return torch.log_softmax(logits + stay, dim=-1)

    def log_emission(self, x: Tensor) -> Tensor:
        """Log psi (N, K), on the simplex, eq. 4."""
        if self.emission_net is None:
            raise DataError(f"expected a model with selection 'filter' and K > 1, got {self.config.selection!r}")
        return torch.log_softmax(self.emission_net(x)[0], dim=-1)


def filter_step(transition: Tensor, emission: Tensor, belief: Tensor) -> Tensor:
    """Eq. 5: pi(t_i) proportional to Psi(t_i)^T (psi(t_i) * pi(t_{i-1})); (B, K, K), (B, K), (B, K) to (B, K)."""
    weighted = torch.einsum("bjk,bj->bk", transition, emission * belief)
    return weighted / weighted.sum(-1, keepdim=True).clamp_min(_TINY)


def joint_weights(transition: Tensor, emission: Tensor, belief: Tensor) -> Tensor:
    """P(was j, is k) of the same step, (B, K, K); summed over j it is ``filter_step``."""
    joint = transition * (emission * belief).unsqueeze(-1)
    return joint / joint.sum((-2, -1), keepdim=True).clamp_min(_TINY)


def choose(probabilities: Tensor, u: Tensor) -> Tensor:
    """Component (B,) of each row by inverting the cumulative sum of (B, K) at uniforms (B,)."""
    edges = probabilities.cumsum(-1)
    edges = edges / edges[:, -1:]
    index = (u.unsqueeze(-1) >= edges).sum(-1)
    return index.clamp(max=probabilities.shape[-1] - 1)


def sample_next(transition: Tensor, emission: Tensor, belief: Tensor, component: Tensor, u: Tensor) -> Tensor:
    """The next component (B,) of paths that follow ``component`` ~ belief, with eq. 5 as its distribution.

    The evidence psi first moves as few paths as possible from belief to ``psi * belief`` (a maximal coupling), then
    each path follows its row of Psi.
    """
    updated = emission * belief
    updated = updated / updated.sum(-1, keepdim=True).clamp_min(_TINY)
    own = torch.nn.functional.one_hot(component, belief.shape[-1]).to(belief.dtype)  # (B, K)
    stay = (updated / belief.clamp_min(_TINY)).clamp(max=1.0)
    stay = (own * stay).sum(-1, keepdim=True)  # (B, 1), probability of keeping the component after the evidence
    gain = (updated - belief).clamp_min(0.0)
    gain = gain / gain.sum(-1, keepdim=True).clamp_min(_TINY)
    after = own * stay + gain * (1.0 - stay)  # (B, K)
    return choose(torch.einsum("bjk,bj->bk", transition, after), u)
