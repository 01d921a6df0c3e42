"""The optimiser behind the free walker."""

import pytest
import torch

from svfm_ros.forecasting.fit.free_walker_fit import _Adam


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
