"""The model as a classifier: every component carries a point to its end, where a linear layer gives class logits.

The class probabilities are mixed with the memberships, so that the loss is eq. 8 with a categorical density. Under
forward filtering the memberships follow eq. 5 at every time of the grid, and the state of component k becomes the mean
of the states that switch into k: the exact mixture has K^T terms.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.losses import class_mixture_loss, combine, transport_loss, variance_loss
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import origin_shares, switch_weights
from svfm_ros.svfm.noise import Noise
from svfm_ros.svfm.solver.rk4 import Rollout, grid, rk4

__all__ = ["Classified", "Classifier", "classifier_loss"]


@dataclass(frozen=True, slots=True)
class Classified:
    """Logits and paths of a batch; T steps of the grid."""

    logits: Tensor  # (B, K, C)
    log_weight: Tensor  # (T + 1, B, K), log pi(t_i)
    states: Tensor  # (T + 1, B, K, D)
    moves: Tensor  # (T, B, K, D), displacements along the field, before components are mixed
    slopes: Tensor  # (T + 1, B, K, D)

    @property
    def log_prob(self) -> Tensor:
        """Log class probabilities (B, C), mixed over components."""
        return torch.logsumexp(torch.log_softmax(self.logits, dim=-1) + self.log_weight[-1].unsqueeze(-1), dim=1)


class Classifier(nn.Module):
    """A mixture of fields over unit time and a linear layer to ``classes`` logits at the end."""

    def __init__(self, config: ModelConfig, classes: int, seed: int = 0, steps: int = 10) -> None:
        super().__init__()
        if classes < 2 or steps < 1:
            raise DataError(f"expected at least two classes and one step, got {classes} and {steps}")
        self.flow = MixtureModel(config, seed)
        self.steps = steps
        generator = torch.Generator().manual_seed(seed + 1)
        bound = config.width**-0.5
        self.weight = nn.Parameter((torch.rand(config.width, classes, generator=generator) * 2 - 1) * bound)
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor, noise: Noise | None = None) -> Classified:
        """Solve from points (B, dim) at time 0 to time 1; without noise, along the median fields."""
        h0 = self.flow.pad(x)
        if noise is None:
            noise = Noise.none(len(x), h0.shape[-1], device=h0.device, dtype=h0.dtype)
        times = grid(0.0, 1.0, self.steps, like=h0)
        start = h0.expand(self.flow.config.components, -1, -1)
        log_prior = self.flow.log_prior(times[0], h0)
        if self.flow.config.selection == "filter" and self.flow.config.components > 1:
            return self._filtered(start, times, noise, log_prior)
        out = self._solved(start, times, noise)
        states, slopes = out.states.transpose(1, 2), out.slopes.transpose(1, 2)
        log_weight = log_prior.expand(len(times), -1, -1)
        return Classified(self.logits(states[-1]), log_weight, states, states.diff(dim=0), slopes)

    def _solved(self, h: Tensor, times: Tensor, noise: Noise) -> Rollout:
        """States and slopes (T + 1, K, B, D) from states (K, B, D), each component along its own field."""
        return rk4(lambda t, x: self.flow.velocity_each(t, x, noise.eps_u, noise.eps_v), h, times)

    def _filtered(self, h: Tensor, times: Tensor, noise: Noise, log_weight: Tensor) -> Classified:
        """The same with switches at every time of the grid (eq. 5)."""
        states, moves, slopes, weights = [h], [], [], [log_weight]
        for i in range(1, len(times)):
            out = self._solved(h, times[i - 1 : i + 1], noise)
            arrived = out.states[-1]
            joint = switch_weights(self.flow, times[i], arrived, log_weight.exp())
            moves.append(arrived - h)
            slopes.append(out.slopes[0])
            h = torch.einsum("bjk,jbi->kbi", origin_shares(joint), arrived)
            log_weight = joint.sum(1).clamp_min(1e-12).log()
            states.append(h)
            weights.append(log_weight)
        slopes.append(self.flow.velocity_each(times[-1], h, noise.eps_u, noise.eps_v))
        path, move, slope = (torch.stack(x).transpose(1, 2) for x in (states, moves, slopes))
        return Classified(self.logits(path[-1]), torch.stack(weights), path, move, slope)

    def logits(self, h: Tensor) -> Tensor:
        """Logits (..., C) of states (..., D)."""
        return h @ self.weight + self.bias

    def predict(self, x: Tensor, samples: int = 1, seed: int = 0) -> Tensor:
        """Class probabilities (B, C), averaged over frozen noises; a deterministic model needs no samples."""
        if not self.flow.config.stochastic:
            return self.forward(x).log_prob.exp()
        out = self.forward(x.repeat(samples, 1), self.flow.draw(seed, samples * len(x)))
        return out.log_prob.exp().view(samples, len(x), -1).mean(0)


def classifier_loss(model: Classifier, x: Tensor, label: Tensor, penalty: float = 0.0, seed: int = 0) -> Tensor:
    """Mean class mixture loss over a batch, plus ``penalty`` times TVLoss; new frozen noise for each seed."""
    noise = model.flow.draw(seed, len(x)) if model.flow.config.stochastic else None
    out = model.forward(x, noise)
    losses = {"class": class_mixture_loss(out.logits, out.log_weight[-1], label)}
    if penalty > 0.0:
        weight = out.log_weight.exp()
        losses["TLoss"] = transport_loss(out.moves, weight[:-1])
        losses["VLoss"] = variance_loss(out.slopes[1:], weight[1:])
    return combine(losses, penalty).mean()
