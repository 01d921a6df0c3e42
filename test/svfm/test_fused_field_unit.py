"""The unit in one piece gives what the unit written out in torch gives, forward and backward."""

import pytest
import torch

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.svfm.fields import realise, with_time
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.noise import Noise

STILL = 0.05


def model_of(dim: int, stochastic: bool, max_speed: float) -> MixtureModel:
    config = ModelConfig(dim=dim, components=3, stochastic=stochastic, max_speed=max_speed, still_speed=STILL)
    return MixtureModel(config, seed=1).double()


@pytest.mark.parametrize("max_speed", [0.0, 1.5])
@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_velocities_and_gradients_are_those_of_the_formulas(dim: int, stochastic: bool, max_speed: float) -> None:
    model = model_of(dim, stochastic, max_speed)
    noise = Noise.draw(5, 7, dim, dtype=torch.float64)
    h = torch.randn(3, 7, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    t, wanted = torch.zeros((), dtype=torch.float64), [h, *model.fields.parameters()]
    weight = torch.linspace(-1.0, 2.0, 3 * 7 * dim, dtype=torch.float64).view(3, 7, dim)
    found = model.velocity_each(t, h, noise.eps_u, noise.eps_v)
    plain = realise(model.fields(with_time(model.config, t, h)), noise.eps_u, noise.eps_v, STILL)
    torch.testing.assert_close(found, plain, rtol=1e-10, atol=1e-12)
    for a, b in zip(
        torch.autograd.grad((found * weight).sum(), wanted),
        torch.autograd.grad((plain * weight).sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-12)


def test_the_gradient_holds_where_a_field_stands_still() -> None:
    model = model_of(2, True, 1.0)
    with torch.no_grad():
        for parameter in model.fields.parameters():
            parameter.zero_()
    noise = Noise.draw(0, 4, 2, dtype=torch.float64)
    h = torch.zeros(3, 4, 2, dtype=torch.float64)
    velocity = model.velocity_each(torch.zeros((), dtype=torch.float64), h, noise.eps_u, noise.eps_v)
    velocity.sum().backward()
    assert float(velocity.detach().abs().max()) == 0.0
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.fields.parameters() if p.grad is not None)


def test_noise_of_each_field_and_row_counts() -> None:
    """Noise may be given for every field: it must not be mixed up with the rows'."""
    model = model_of(2, True, 1.5)
    generator = torch.Generator().manual_seed(3)
    h, eps_u = (torch.randn(3, 5, 2, dtype=torch.float64, generator=generator) for _ in range(2))
    eps_v = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    t = torch.zeros((), dtype=torch.float64)
    found = model.velocity_each(t, h, eps_u, eps_v)
    torch.testing.assert_close(found, realise(model.fields(with_time(model.config, t, h)), eps_u, eps_v, STILL))


def test_rows_in_single_precision() -> None:
    model = model_of(2, True, 1.5).float()
    noise = Noise.draw(5, 50, 2)
    h = torch.randn(3, 50, 2, generator=torch.Generator().manual_seed(4))
    found = model.velocity_each(torch.zeros(()), h, noise.eps_u, noise.eps_v)
    plain = realise(model.fields(with_time(model.config, torch.zeros(()), h)), noise.eps_u, noise.eps_v, STILL)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)
