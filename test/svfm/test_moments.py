import itertools
import math

import numpy as np
import pytest
import torch
from known_fields import constant_model, linear_model

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.solver.rk4 import grid

ZERO = torch.zeros(1, 2).double()


def test_frozen_noise_adds_up_linearly_along_and_across_the_way():
    a = torch.tensor([1.2, 1.6]).double()  # length 2
    model = constant_model([a.tolist()], sigma_u=0.02, sigma_v=0.03)
    out = propagate(model, ZERO, grid(0.0, 3.0, 6, like=ZERO))
    axes = torch.stack((a, torch.stack((-a[1], a[0])))) / 2.0  # along and across the way
    cov = axes @ out.cov[:, 0, 0] @ axes.T
    t = torch.linspace(0, 3, 7).double()
    torch.testing.assert_close(cov[:, 0, 0].sqrt(), 2.0 * 0.03 * t, rtol=5e-3, atol=1e-12)
    torch.testing.assert_close(cov[:, 1, 1].sqrt(), 2.0 * 0.02 * t, rtol=5e-3, atol=1e-12)


def test_moments_go_through_the_fields_slope():
    # h(T) = h0 exp(rate T exp(sigma e)): moments by quadrature against three sigma points.
    model = linear_model(0.8, sigma_v=0.1).requires_grad_(False)
    out = propagate(model, torch.ones(1, 1).double(), grid(0.0, 1.0, 20, like=ZERO))
    x, w = np.polynomial.hermite_e.hermegauss(40)
    h, w = np.exp(0.8 * np.exp(0.1 * x)), w / w.sum()
    mean, var = w @ h, w @ h**2 - (w @ h) ** 2
    assert float(out.mean[-1]) == pytest.approx(mean, rel=1e-4)
    assert float(out.cov[-1]) == pytest.approx(var, rel=1e-2)
    without_slope = 0.1 * (math.exp(0.8) - 1.0)  # spread added up step by step, blind to how the field stretches it
    assert float(out.cov[-1]) ** 0.5 > 1.4 * without_slope


@pytest.mark.parametrize("options", [{}, {"correlation": 0.3}, {"selection": "filter"}, {"augment": 1}])
def test_moments_agree_with_sampled_paths(options):
    config = ModelConfig(components=2, activation="tanh", first_log_spread=0.2, **options)
    model = MixtureModel(config, seed=4)
    x0, n = torch.full((1, 2), 0.3), 20_000
    times = grid(0.0, 2.0, 8, like=x0)
    with torch.no_grad():
        out = propagate(model, x0, times)
    weight = out.log_weight[-1, 0].exp()
    mean = weight @ out.mean[-1, 0]
    off = out.mean[-1, 0] - mean
    cov = torch.einsum("k,kij->ij", weight, out.cov[-1, 0]) + torch.einsum("k,ki,kj->ij", weight, off, off)
    end = sample_paths(model, x0.expand(n, -1), times, model.draw(1, n)).states[-1]
    scale = float(cov.diagonal().max())
    torch.testing.assert_close(end.mean(0), mean, atol=0.03 * math.sqrt(scale), rtol=0.0)
    torch.testing.assert_close(torch.cov(end.T), cov, atol=0.04 * scale, rtol=0.0)


def test_fresh_noise_spreads_with_the_square_root_of_time():
    model = constant_model([[1.0]], sigma_v=0.01, correlation=0.0)
    out = propagate(model, torch.zeros(1, 1).double(), grid(0.0, 4.0, 16, like=ZERO))
    step = 0.25 * 0.01
    torch.testing.assert_close(out.cov[:, 0, 0, 0, 0], torch.arange(17).double() * step**2, rtol=1e-3, atol=1e-6)


def test_correlated_noise_lies_between_by_its_formula():
    # Sum of N steps of an AR(1) noise: variance sum_ij rho^|i-j|.
    model = constant_model([[1.0]], sigma_v=0.01, correlation=0.5).requires_grad_(False)
    out = propagate(model, torch.zeros(1, 1).double(), grid(0.0, 2.0, 8, like=ZERO))
    lag = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    expected = (0.25 * 0.01) ** 2 * np.exp(-0.5 * lag).sum()
    assert float(out.cov[-1, 0, 0, 0, 0]) == pytest.approx(expected, rel=2e-3)


def test_filtered_moments_of_constant_fields_are_exact():
    """Matching keeps the first two moments exactly where fields are constant: compare with all K^T histories."""
    drift = [[1.0], [-2.0]]
    model = constant_model(drift, stochastic=False, selection="filter", stickiness=1.0).requires_grad_(False)
    psi = torch.tensor([0.7, 0.3]).double()
    with torch.no_grad():
        model.selection.emission_net.weights()[-1][1].copy_(psi.log())
    stay = math.e / (math.e + 1.0)
    transition = np.array([[stay, 1 - stay], [1 - stay, stay]])
    times = grid(0.0, 1.5, 3, like=ZERO)
    out = propagate(model, torch.zeros(1, 1).double(), times)
    total, mean, square = 0.0, 0.0, 0.0
    for ks in itertools.product((0, 1), repeat=4):  # the field on each of three stretches, and the one after
        p = 0.5
        for j, k in itertools.pairwise(ks):
            p *= float(psi[j]) * transition[j, k]
        h = 0.5 * sum(drift[k][0] for k in ks[:3])
        total, mean, square = total + p, mean + p * h, square + p * h * h
    weight = out.log_weight[-1, 0].exp()
    ours = float(weight @ out.mean[-1, 0, :, 0])
    ours_square = float(weight @ (out.cov[-1, 0, :, 0, 0] + out.mean[-1, 0, :, 0].square()))
    assert ours == pytest.approx(mean / total, abs=1e-6)
    assert ours_square == pytest.approx(square / total, abs=1e-5)


def test_each_row_may_have_its_own_times():
    model = MixtureModel(ModelConfig(components=2, time="raw"), seed=2).double()
    x0 = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).double()
    ends = torch.tensor([0.5, 1.0, 2.0]).double()
    own = torch.linspace(0, 1, 5).double()[:, None] * ends
    out = propagate(model, x0, own)
    for row in range(3):
        alone = propagate(model, x0[row : row + 1], own[:, row])
        torch.testing.assert_close(out.mean[:, row], alone.mean[:, 0])
        torch.testing.assert_close(out.cov[:, row], alone.cov[:, 0])


@pytest.mark.parametrize("options", [{}, {"correlation": 0.5, "learn_correlation": True}, {"selection": "filter"}])
def test_gradients_reach_every_weight_and_are_finite(options):
    model = MixtureModel(ModelConfig(components=2, **options), seed=0)
    x0 = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    out = propagate(model, x0, grid(0.0, 1.0, 4, like=x0))
    (out.mean[-1].sum() + out.cov[-1].sum() + (out.log_weight[-1] * torch.tensor([1.0, 2.0])).sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name


def test_empty_starts_are_refused():
    with pytest.raises(DataError, match="expected starts"):
        propagate(MixtureModel(ModelConfig()), torch.zeros(0, 2), torch.tensor([0.0, 1.0]))
