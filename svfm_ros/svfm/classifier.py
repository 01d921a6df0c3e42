"""The model as a classifier: every component carries a point to its end, and a linear layer reads classes off there.

The class probabilities are mixed with the memberships, so the loss is eq. 8 with a categorical density. States and
slopes along the way are kept, because TLoss and VLoss regularise them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.losses import class_mixture_loss, combine, transport_loss, variance_loss
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.noise import Noise
from svfm_ros.svfm.solver.rk4 import grid, rk4

__all__ = ["Classified", "Classifier", "classifier_loss"]


@dataclass(frozen=True, slots=True)
class Classified:
    """What a batch was carried to; T steps of the grid."""

    logits: Tensor  # (B, K, C)
    log_weight: Tensor  # (B, K), log pi(t_0)
    states: Tensor  # (T + 1, B, K, D)
    slopes: Tensor  # (T + 1, B, K, D)

    @property
    def log_prob(self) -> Tensor:
        """Log class probabilities (B, C), mixed over components."""
        return torch.logsumexp(torch.log_softmax(self.logits, dim=-1) + self.log_weight.unsqueeze(-1), dim=1)


class Classifier(nn.Module):
    """A mixture of fields over unit time and a linear read-out of ``classes`` at the end."""

    def __init__(self, config: ModelConfig, classes: int, seed: int = 0, steps: int = 10) -> None:
        super().__init__()
        if config.selection != "stick":
            raise DataError(f"expected a classifier to pick and stick, got selection {config.selection!r}")
        if classes < 2 or steps < 1:
            raise DataError(f"expected at least two classes and one step, got {classes} and {steps}")
        self.flow = MixtureModel(config, seed)
        self.steps = steps
        generator = torch.Generator().manual_seed(seed + 1)
        bound = config.width**-0.5
        self.weight = nn.Parameter((torch.rand(config.width, classes, generator=generator) * 2 - 1) * bound)
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor, noise: Noise | None = None) -> Classified:
        """Carry points (B, dim) from time 0 to 1; without noise, along the median fields."""
        h0 = self.flow.pad(x)
        if noise is None:
            noise = Noise.none(len(x), h0.shape[-1], device=h0.device, dtype=h0.dtype)
        eps_u, eps_v = noise.eps_u, noise.eps_v
        times = grid(0.0, 1.0, self.steps, like=h0)
        start = h0.expand(self.flow.config.components, -1, -1)
        out = rk4(lambda t, h: self.flow.velocity_each(t, h, eps_u, eps_v), start, times)
        states, slopes = out.states.transpose(1, 2), out.slopes.transpose(1, 2)
        return Classified(self.read(states[-1]), self.flow.log_prior(times[0], h0), states, slopes)

    def read(self, h: Tensor) -> Tensor:
        """Logits (..., C) of states (..., D)."""
        return h @ self.weight + self.bias

    def predict(self, x: Tensor, samples: int = 1, seed: int = 0) -> Tensor:
        """Class probabilities (B, C), averaged over frozen noises; a deterministic model needs no samples."""
        if not self.flow.config.stochastic:
            return self.forward(x).log_prob.exp()
        out = self.forward(x.repeat(samples, 1), self.flow.draw(seed, samples * len(x)))
        return out.log_prob.exp().view(samples, len(x), -1).mean(0)


def classifier_loss(model: Classifier, x: Tensor, label: Tensor, penalty: float = 0.0, seed: int = 0) -> Tensor:
    """Mean class mixture loss over a batch, with TVLoss weighted by ``penalty``; fresh frozen noise for each seed."""
    noise = model.flow.draw(seed, len(x)) if model.flow.config.stochastic else None
    out = model.forward(x, noise)
    losses = {"class": class_mixture_loss(out.logits, out.log_weight, label)}
    if penalty > 0.0:
        weight = out.log_weight.exp()
        losses["TLoss"] = transport_loss(out.states, weight)
        losses["VLoss"] = variance_loss(out.slopes[1:], weight)
    return combine(losses, penalty).mean()
