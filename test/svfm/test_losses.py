import math

import pytest
import torch
from known_fields import constant_model

from svfm_ros.errors import ConfigError, DataError
from svfm_ros.svfm.losses import (
    class_mixture_loss,
    combine,
    forecast_loss,
    gaussian_log_density,
    mixture_density_loss,
    observed_cov,
    squared_error,
    transport_loss,
    transport_variance_loss,
    variance_loss,
)
from svfm_ros.svfm.moments import propagate
from svfm_ros.svfm.solver.rk4 import grid


def t(x):
    return torch.tensor(x, dtype=torch.float64)


def test_mixture_density_loss_by_hand():
    # 0.25 N(0; 0, 1) + 0.75 N(0; 1, 4) = 0.25 * 0.3989423 + 0.75 * 0.1994711 * exp(-1/8) = 0.2317588
    loss = mixture_density_loss(t([[0.0]]), t([[[0.0], [1.0]]]), t([[[[1.0]], [[4.0]]]]), t([[0.25, 0.75]]).log())
    assert float(loss) == pytest.approx(1.462059, abs=1e-5)


def test_gaussian_density_by_hand_in_the_plane():
    # cov [[2, 1], [1, 2]]: det 3, inverse [[2, -1], [-1, 2]] / 3; x = (1, 0): quadratic form 2/3.
    value = gaussian_log_density(t([1.0, 0.0]), t([0.0, 0.0]), t([[2.0, 1.0], [1.0, 2.0]]))
    assert float(value) == pytest.approx(-1.0 / 3.0 - 0.5 * math.log(3.0) - math.log(2.0 * math.pi))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_gaussian_density_agrees_with_torch_in_any_dimension(size):
    g = torch.Generator().manual_seed(size)
    x, mean = torch.randn(2, 4, size, generator=g, dtype=torch.float64)
    root = torch.randn(4, size, size, generator=g, dtype=torch.float64)
    cov = observed_cov(root @ root.mT, t(0.3))
    expected = torch.distributions.MultivariateNormal(mean, cov).log_prob(x)
    torch.testing.assert_close(gaussian_log_density(x, mean, cov), expected)


def test_transport_loss_by_hand():
    # Component 0 goes 0, 1, 3: (1 + 4) / 2 = 2.5. Component 1 goes 0, 0, 2: (0 + 4) / 2 = 2. Weights 0.25 and 0.75.
    moves = t([[[[1.0], [0.0]]], [[[2.0], [2.0]]]])  # (2, 1, 2, 1)
    assert float(transport_loss(moves, t([[0.25, 0.75]]))) == pytest.approx(0.25 * 2.5 + 0.75 * 2.0)
    changing = t([[[1.0, 0.0]], [[0.0, 1.0]]])  # the weight may change in time: step 1 of component 0, step 2 of 1
    assert float(transport_loss(moves, changing)) == pytest.approx((1.0 + 4.0) / 2)


def test_variance_loss_by_hand():
    # Slopes (1, 0) and (0, 1): their mean is (0.5, 0.5), each is 0.5 away in the square.
    slopes = t([[[[1.0, 0.0], [2.0, 2.0]]], [[[0.0, 1.0], [2.0, 2.0]]]])  # (2, 1, 2, 2); component 1 is straight
    assert float(variance_loss(slopes, t([[1.0, 0.0]]))) == pytest.approx(0.5)
    assert float(variance_loss(slopes, t([[0.4, 0.6]]))) == pytest.approx(0.2)


def test_straight_uniform_motion_has_the_least_transport_and_no_variance():
    model = constant_model([[3.0, 4.0]], stochastic=False)
    zero = torch.zeros(1, 2).double()
    out = propagate(model, zero, grid(0.0, 1.0, 5, like=zero))
    # Five steps of length one: (1/5) sum 1 = 1.
    torch.testing.assert_close(transport_variance_loss(out), t([1.0]))


def test_path_losses_are_expected_over_the_noise():
    # Steps of v / 4 with log v ~ N(0, 0.3^2): E[v^2] / 16 = exp(2 * 0.09) / 16; constant fields have no variance.
    model = constant_model([[1.0]], sigma_v=0.3)
    zero = torch.zeros(1, 1).double()
    out = propagate(model, zero, grid(0.0, 1.0, 4, like=zero))
    assert transport_variance_loss(out).item() == pytest.approx(math.exp(0.18) / 16, rel=1e-3)


def test_switching_under_filtering_is_not_transport():
    """Fields 1 and -3, two steps of 0.5, even odds of switching: after step 1 both components mix to the mean -0.5.

    Moves are 0.5 and -1.5 in both steps, weights 0.5 and 0.5: TLoss = (0.25 + 2.25) / 2 = 1.25 and VLoss = 0.
    The mixed means move by -0.5 only: their displacement is not the transport along the fields.
    """
    model = constant_model([[1.0], [-3.0]], stochastic=False, selection="filter", stickiness=0.0)
    zero = torch.zeros(1, 1).double()
    out = propagate(model, zero, grid(0.0, 1.0, 2, like=zero))
    torch.testing.assert_close(out.mean[1, 0, :, 0], t([-0.5, -0.5]))
    torch.testing.assert_close(out.moves[:, 0, :, 0, 0], t([[0.5, -1.5], [0.5, -1.5]]))
    torch.testing.assert_close(transport_variance_loss(out), t([1.25]))


def test_forecast_loss_is_the_mean_of_the_secondary_loss_over_time():
    model = constant_model([[1.0, 0.0]], stochastic=False)
    zero = torch.zeros(2, 2).double()
    out = propagate(model, zero, grid(0.0, 2.0, 2, like=zero))  # at (1, 0) and (2, 0)
    targets = t([[[1.0, 1.0], [1.0, 0.0]], [[2.0, 0.0], [2.0, 3.0]]])  # (T, B, dim)
    torch.testing.assert_close(forecast_loss(out, targets, None), t([0.5, 4.5]))
    # With a floor of one: -log N = |x - mean|^2 / 2 + log 2 pi.
    expected = t([0.25, 2.25]) + math.log(2.0 * math.pi)
    torch.testing.assert_close(forecast_loss(out, targets, t(1.0)), expected)


def test_class_mixture_loss_by_hand():
    logits = t([[[0.9, 0.1], [0.2, 0.8]]]).log()
    # 0.75 * 0.1 + 0.25 * 0.8 = 0.275
    loss = class_mixture_loss(logits, t([[0.75, 0.25]]).log(), torch.tensor([1]))
    assert float(loss) == pytest.approx(-math.log(0.275))


def test_losses_combine_with_lambda():
    losses = {"class": t([1.0, 2.0]), "TLoss": t([3.0, 4.0]), "VLoss": t([5.0, 6.0])}
    torch.testing.assert_close(combine(losses, 0.1), t([1.8, 3.0]))
    torch.testing.assert_close(combine({"MDLoss": t([2.0])}, 0.5), t([2.0]))


@pytest.mark.parametrize("path", ["TLoss", "VLoss", "TVLoss"])
def test_following_the_data_and_going_straight_contradict(path):
    with pytest.raises(ConfigError, match="expected FLoss without TLoss or VLoss"):
        combine({"FLoss": t([1.0]), path: t([1.0])}, 0.1)


def test_wrong_input_is_refused():
    with pytest.raises(ConfigError, match="expected losses among"):
        combine({"Loss": t([1.0])}, 0.1)
    with pytest.raises(ConfigError, match="at least one predictive loss"):
        combine({"TLoss": t([1.0])}, 0.1)
    with pytest.raises(DataError, match="expected one target per row"):
        mixture_density_loss(t([[0.0], [1.0]]), t([[[0.0]]]), t([[[[1.0]]]]), t([[0.0]]))
    model = constant_model([[1.0], [2.0]], stochastic=False)
    zero = torch.zeros(1, 1).double()
    out = propagate(model, zero, grid(0.0, 1.0, 1, like=zero))
    with pytest.raises(ConfigError, match="expected one component for the squared error, got 2"):
        forecast_loss(out, torch.zeros(1, 1, 1).double(), None)
    assert float(squared_error(t([3.0, 4.0]), t([0.0, 0.0]))) == 25.0
