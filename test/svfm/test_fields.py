import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import ConfigError, DataError
from svfm_ros.svfm.fields import FieldParams, dot, realise, time_tuple, with_time
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.noise import Noise

COMPONENTS = st.floats(-5, 5)


def params(a, sigma_u, sigma_v):
    a = torch.tensor(a, dtype=torch.float64)
    shape = a.shape[:-1]
    return FieldParams(a, torch.full(shape, sigma_u, dtype=a.dtype), torch.full(shape, sigma_v, dtype=a.dtype))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 5).flatmap(lambda d: st.tuples(*[st.lists(COMPONENTS, min_size=d, max_size=d)] * 2)),
    st.floats(0.01, 3.0),
    st.floats(-3, 3),
)
def test_direction_never_turns_against_its_mean_and_length_is_log_normal(vectors, sigma, eps_v):
    a, eps = vectors
    if math.hypot(*a) < 1e-3:
        return
    p = params([a], sigma, 0.3)
    v = realise(p, torch.tensor([eps], dtype=torch.float64), torch.tensor([eps_v], dtype=torch.float64), still=0.0)
    assert float(dot(v, p.a)) > 0.0
    assert float(v.norm()) == pytest.approx(math.hypot(*a) * math.exp(0.3 * eps_v), rel=1e-9)


def test_direction_is_the_projected_normal_of_the_tangent_plane():
    a = torch.tensor([3.0, 4.0, 12.0]).double()
    eps = torch.tensor([0.3, -1.1, 0.7]).double()
    mu = a / 13.0
    u = mu + 0.5 * (eps - mu * (mu @ eps))
    v = realise(params([a.tolist()], 0.5, 1e-9), eps[None], torch.zeros(1).double(), still=0.0)
    torch.testing.assert_close(v[0], 13.0 * u / u.norm())


def test_one_dimension_has_no_direction_noise():
    v = realise(params([[-2.0]], 1.0, 0.5), torch.tensor([[9.0]]).double(), torch.tensor([1.0]).double(), 0.01)
    assert float(v) == pytest.approx(-2.0 * math.exp(0.5))


def test_velocity_is_smooth_where_the_field_stops():
    eps = torch.tensor([1.3, -2.0]).double()

    def velocity(a):
        sigma = torch.tensor(0.8).double()
        return realise(FieldParams(a, sigma, sigma), eps, torch.tensor(0.4).double(), still=0.1)

    at_zero = torch.autograd.functional.jacobian(velocity, torch.zeros(2).double())
    torch.testing.assert_close(at_zero, math.exp(0.32) * torch.eye(2).double())
    for angle in torch.linspace(0, 6, 7).tolist():  # the slope is the same from every side
        near = 1e-6 * torch.tensor([math.cos(angle), math.sin(angle)]).double()
        torch.testing.assert_close(torch.autograd.functional.jacobian(velocity, near), at_zero, atol=1e-4, rtol=0.0)


def test_mean_field_is_the_mean_of_a_log_normal_length():
    p = params([[0.6, 0.8]], 0.1, 0.5)
    torch.testing.assert_close(p.mean[0], math.exp(0.125) * torch.tensor([0.6, 0.8]).double())
    assert float(p.tau_v) == pytest.approx(0.25)


def test_lengths_stay_below_the_bound_and_short_ones_are_left_alone():
    model = MixtureModel(ModelConfig(components=3, max_speed=2.0))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(100.0)
        far = model.unit(torch.zeros(()), 50.0 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0)))
    assert 1.9 < float(far.a.norm(dim=-1).max()) <= 2.0 + 1e-5
    plain, bounded = (MixtureModel(ModelConfig(max_speed=m), seed=3) for m in (0.0, 1e4))
    h = torch.ones(1, 2)
    torch.testing.assert_close(plain.unit(torch.zeros(()), h).a, bounded.unit(torch.zeros(()), h).a)


def test_the_cube_has_eight_corners_and_all_of_them_run():
    names = set()
    for stochastic in (False, True):
        for components in (1, 3):
            for augment in (0, 2):
                config = ModelConfig(stochastic=stochastic, components=components, augment=augment)
                names.add(config.corner)
                model = MixtureModel(config)
                h = model.pad(torch.randn(5, 2, generator=torch.Generator().manual_seed(1)))
                noise = model.draw(0, 5)
                field = model.realise(noise, model.pick(torch.zeros(5), h, noise))
                assert field(torch.zeros(5), h).shape == (5, 2 + augment)
                assert model.unit(torch.zeros(5), h).a.shape == (5, components, 2 + augment)
    assert names == {"VF", "SVF", "VFM", "SVFM", "A-VF", "A-SVF", "A-VFM", "A-SVFM"}


@pytest.mark.parametrize("time", ["none", "raw", "cyclic"])
def test_a_realised_field_is_its_own_component_row_by_row(time):
    model = MixtureModel(ModelConfig(components=5, time=time), seed=7).double()
    g = torch.Generator().manual_seed(2)
    h, t = torch.randn(40, 2, generator=g).double(), torch.rand(40, generator=g).double()
    noise = model.draw(5, 40)
    component = torch.randint(0, 4, (40,), generator=g)  # component 4 never occurs
    every = model.unit(t, h)
    rows = torch.arange(40)
    own = FieldParams(every.a[rows, component], every.sigma_u[rows, component], every.sigma_v[rows, component])
    expected = realise(own, noise.eps_u, noise.eps_v, model.config.still_speed)
    field = model.realise(noise, component)
    torch.testing.assert_close(field(t, h), expected)
    some = torch.tensor([3, 17, 4])
    torch.testing.assert_close(field.take(some)(t[some], h[some]), expected[some])
    torch.testing.assert_close(
        field.take(component == 2)(t[component == 2], h[component == 2]), expected[component == 2]
    )
    origin = torch.full((40,), 0.25).double()
    shifted = model.realise(noise, component, origin)
    torch.testing.assert_close(shifted(t - 0.25, h), expected)


def test_components_evaluated_on_their_own_states_agree_with_all_on_one():
    model = MixtureModel(ModelConfig(components=3, time="raw"), seed=1)
    h, t = torch.randn(6, 2, generator=torch.Generator().manual_seed(3)), torch.rand(6)
    each = model.fields(with_time(model.config, t, h.expand(3, -1, -1)))
    torch.testing.assert_close(each.a.transpose(0, 1), model.unit(t, h).a)


def test_first_weights_follow_the_seed_and_nothing_else():
    state = torch.get_rng_state()
    one, two, other = MixtureModel(ModelConfig(), 3), MixtureModel(ModelConfig(), 3), MixtureModel(ModelConfig(), 4)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters(), strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def test_wrong_input_is_refused():
    model = MixtureModel(ModelConfig())
    with pytest.raises(DataError, match="expected states with 2 dimensions, got shape"):
        model.pad(torch.zeros(4, 3))
    with pytest.raises(DataError, match="expected a component for each of 4 rows"):
        model.realise(Noise.none(4, 2), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ConfigError, match="below max_floor"):
        ModelConfig(learn_floor=True, floor=1.0, max_floor=0.5)
    with pytest.raises(ConfigError, match="finite correlation"):
        ModelConfig(learn_correlation=True)


def test_a_quarter_of_a_day_is_a_quarter_of_a_turn():
    hours = torch.tensor([0.0, 6.0, 12.0, 18.0, 24.0])
    expected = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
    torch.testing.assert_close(time_tuple(hours, 24.0), expected, atol=1e-6, rtol=0.0)


def test_a_cyclic_field_repeats_with_its_period_and_a_raw_one_does_not():
    h, t = torch.ones(3, 2).double(), torch.tensor([0.1, 2.0, 5.0]).double()
    cyclic = MixtureModel(ModelConfig(time="cyclic", period=2 * math.pi)).double()
    raw = MixtureModel(ModelConfig(time="raw")).double()
    torch.testing.assert_close(cyclic.unit(t, h).a, cyclic.unit(t + 8 * math.pi, h).a)
    assert not torch.allclose(raw.unit(t, h).a, raw.unit(t + 8 * math.pi, h).a)


def test_one_time_serves_a_whole_batch():
    config = ModelConfig(time="cyclic")
    h = torch.zeros(4, 3, 2)
    one = with_time(config, torch.tensor(5.0), h)
    torch.testing.assert_close(one, with_time(config, torch.full((3,), 5.0), h))
    assert one.shape == (4, 3, 4)
    assert with_time(ModelConfig(time="none"), torch.tensor(5.0), h) is h
