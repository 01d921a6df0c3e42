"""Not-a-knot cubics against scipy's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline as ScipySpline

from svfm_ros.errors import DataError
from svfm_ros.svfm.spline import CubicSpline


def knots(seed: int, n: int, batch: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.05, 2.0, (batch, n)), axis=1) - 3.0
    return times, rng.normal(size=(batch, n, 2))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 40))
def test_equals_scipy(seed, n):
    times, values = knots(seed, n)
    asked = np.linspace(times.min() - 0.5, times.max() + 0.5, 33)
    spline = CubicSpline(torch.tensor(times), torch.tensor(values))
    peers = [ScipySpline(t, v, bc_type="not-a-knot") for t, v in zip(times, values, strict=True)]
    for ours, order in ((spline(torch.tensor(asked)), 0), (spline.velocity(torch.tensor(asked)), 1)):
        theirs = np.stack([p(asked, order) for p in peers])
        assert np.allclose(ours.numpy(), theirs, rtol=1e-8, atol=1e-8 * (1 + np.abs(theirs).max()))


def test_many_knots_stay_accurate():
    times = np.sort(np.random.default_rng(0).uniform(0, 100, 3000))
    spline = CubicSpline(torch.tensor(times), torch.tensor(np.sin(times))[:, None])
    asked = np.linspace(times[0], times[-1], 997)
    assert np.allclose(spline(torch.tensor(asked))[:, 0].numpy(), ScipySpline(times, np.sin(times))(asked), atol=1e-10)


def test_passes_through_the_knots():
    times, values = knots(1, 9)
    found = CubicSpline(torch.tensor(times), torch.tensor(values))(torch.tensor(times))
    assert np.allclose(found.numpy(), values, atol=1e-12)


@pytest.mark.parametrize(("n", "degree"), [(2, 1), (3, 2), (4, 3), (7, 3)])
def test_polynomials_come_back(n, degree):
    times = torch.tensor([0.0, 0.3, 1.0, 1.1, 2.5, 2.6, 4.0], dtype=torch.float64)[:n]
    asked = torch.linspace(-1, 5, 50, dtype=torch.float64)
    spline = CubicSpline(times, (times**degree - 2 * times)[:, None])
    assert torch.allclose(spline(asked)[:, 0], asked**degree - 2 * asked, atol=1e-9)


def test_one_set_of_times_serves_a_batch():
    times, values = knots(2, 6)
    shared = torch.tensor(times[0])
    batch = CubicSpline(shared, torch.tensor(values))(torch.linspace(-2, 2, 5))
    for i in range(3):
        assert torch.allclose(batch[i], CubicSpline(shared, torch.tensor(values[i]))(torch.linspace(-2, 2, 5)))


def test_gradients_reach_the_values():
    times, values = knots(3, 6, batch=2)
    asked = torch.linspace(-2, 3, 4, dtype=torch.float64)

    def positions(v):
        return CubicSpline(torch.tensor(times), v)(asked)

    assert torch.autograd.gradcheck(positions, torch.tensor(values, requires_grad=True))


@pytest.mark.parametrize(
    ("times", "values", "says"),
    [
        (torch.tensor([0.0]), torch.zeros(1, 2), "at least 2"),
        (torch.tensor([0.0, 1.0, 2.0]), torch.zeros(2, 2), "times: expected"),
        (torch.tensor([0.0, 1.0, 1.0]), torch.zeros(3, 2), "rise"),
        (torch.tensor([0.0, 2.0, 1.0]), torch.zeros(3, 2), "rise"),
        (torch.tensor([0.0, 1.0]), torch.full((2, 2), torch.nan), "finite"),
        (torch.tensor([0.0, torch.inf]), torch.zeros(2, 2), "finite"),
        (torch.tensor([0.0, 1.0]), torch.zeros(2), "values: expected"),
        (torch.tensor([0.0, 1.0]), torch.zeros(2, 2, dtype=torch.long), "values: expected"),
    ],
)
def test_refuses(times, values, says):
    with pytest.raises(DataError, match=says):
        CubicSpline(times, values)
