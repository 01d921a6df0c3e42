"""Sampled paths: draw the noise and the component first, then solve an ordinary field.

Under pick and stick with frozen noise a path is one solve. Otherwise a campaign ends at every time of the grid: there
the noise decorrelates by its correlation time and, under filtering, a path may switch to another field (eq. 5).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.noise import Noise
from svfm_ros.svfm.selection import choose, filter_step, sample_next
from svfm_ros.svfm.solver.rk4 import check_times, rk4

__all__ = ["SampledPaths", "sample_paths"]


@dataclass(frozen=True, slots=True)
class SampledPaths:
    """One path per row."""

    states: Tensor  # (T + 1, B, dim), observation noise left out
    component: Tensor  # (T + 1, B), the field a path follows from that time on


@torch.no_grad()
def sample_paths(model: MixtureModel, x0: Tensor, times: Tensor, noise: Noise) -> SampledPaths:
    """Paths from starts (B, dim) along times (T + 1,); the same noise gives the same paths in any batch."""
    check_times(times, len(x0))
    if len(x0) != len(noise) or times.ndim != 1:
        raise DataError(f"expected noise for {len(x0)} rows and times (T + 1,), got {len(noise)} and {times.ndim}-d")
    h0 = model.pad(x0)
    belief = model.log_prior(times[0], h0).exp()
    component = choose(belief, noise.u_component)
    filtering = model.config.selection == "filter" and model.config.components > 1
    if not filtering and (model.config.correlation == math.inf or not model.config.stochastic):
        states = rk4(model.realise(noise, component), h0, times).states
        return SampledPaths(model.observed(states), component.expand(len(times), -1))
    return _sample_campaigns(model, h0, times, noise, belief, component, filtering)


def _sample_campaigns(
    model: MixtureModel,
    h: Tensor,
    times: Tensor,
    noise: Noise,
    belief: Tensor,
    component: Tensor,
    filtering: bool,
) -> SampledPaths:
    states, components = [h], [component]
    for i in range(1, len(times)):
        h = rk4(model.realise(noise, component), h, times[i - 1 : i + 1]).states[-1]
        noise = noise.next(model.keep(times[i] - times[i - 1]))
        if filtering:
            transition, emission = model.log_transition(times[i], h).exp(), model.log_emission(times[i], h).exp()
            component = sample_next(transition, emission, belief, component, noise.u_component)
            belief = filter_step(transition, emission, belief)
        states.append(h)
        components.append(component)
    return SampledPaths(model.observed(torch.stack(states)), torch.stack(components))
