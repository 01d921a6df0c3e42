"""Training of the free walker: its density and its optimiser."""

import numpy as np
import pytest
import torch

from svfm_ros.forecasting.fit.free_walker_fit import _Adam, _log_density, _samples, _weights
from svfm_ros.forecasting.free_walker import FREE_ANY, FREE_COLUMNS, FreeWalkerPrior, free_log_densities


def test_training_maximises_the_density_that_forecasts_use() -> None:
    rng = np.random.default_rng(0)
    track = np.cumsum([0.4, 0.05] + 0.03 * rng.standard_normal((12, 2)), axis=0)
    free, out = FreeWalkerPrior.load().free, np.empty((len(track) - 1, FREE_COLUMNS))
    free_log_densities(track, np.zeros(len(out)), free.parts, 1.0, out)
    weights = {name: torch.as_tensor(x, dtype=torch.float32) for name, x in _weights(free).items()}
    found = _log_density(weights, _samples([track], [1.0], rng, drop=0.0))
    np.testing.assert_allclose(found, out[1:, FREE_ANY], atol=1e-3)  # of the first move nothing is learnt by descent


def test_one_huge_gradient_does_not_shorten_the_steps_after_it() -> None:
    """Adam divides by the size of recent gradients; their norm is cut at 1, so an outlier counts as 1."""
    weight = torch.zeros(1, requires_grad=True)
    adam = _Adam([weight], 0.1, 1000)
    moved = []
    for slope in (1e6, 1.0, 1.0):
        before = weight.item()
        adam.step(slope * weight.sum())
        moved.append(before - weight.item())
    assert moved == pytest.approx([0.001, 0.002, 0.003], rel=1e-3)  # the rate rises over the first 100 steps
