import pytest
import torch
from known_fields import constant_model

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.sampling import sample_paths
from svfm_ros.svfm.solver.rk4 import check_times, grid, rk4


def test_rk4_has_order_four():
    def field(t, h):
        return h * torch.cos(t).unsqueeze(-1)

    one = torch.ones(1, 1).double()
    errors = []
    for steps in (8, 16, 32):
        end = rk4(field, one, grid(0.0, 2.0, steps, like=one)).states[-1]
        errors.append(abs(float(end) - float(torch.exp(torch.sin(torch.tensor(2.0).double())))))
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(16, rel=0.2)


@pytest.mark.parametrize("options", [{}, {"correlation": 0.4}, {"selection": "filter"}])
def test_same_seed_same_paths_on_any_batch_split(options):
    model = MixtureModel(ModelConfig(components=3, time="cyclic", **options), seed=1).double()
    x0 = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)).double()
    times = grid(0.0, 1.0, 5, like=x0)
    whole = sample_paths(model, x0, times, model.draw(3, 12))
    for rows in (torch.arange(5), torch.tensor([11, 2, 7])):
        part = sample_paths(model, x0[rows], times, model.draw(3, rows))
        torch.testing.assert_close(part.states, whole.states[:, rows], rtol=1e-12, atol=1e-12)
        assert torch.equal(part.component, whole.component[:, rows])


def test_a_picked_component_sticks_and_a_filtered_one_may_switch():
    still = constant_model([[1.0], [-1.0]], stochastic=False)
    filtering = constant_model([[1.0], [-1.0]], stochastic=False, selection="filter", stickiness=1.0)
    x0 = torch.zeros(400, 1).double()
    times = grid(0.0, 1.0, 4, like=x0)
    stuck = sample_paths(still, x0, times, still.draw(0, 400))
    assert bool((stuck.component == stuck.component[0]).all())
    assert set(stuck.states[-1].flatten().tolist()) == {1.0, -1.0}
    switched = sample_paths(filtering, x0, times, filtering.draw(0, 400))
    changes = (switched.component.diff(dim=0) != 0).double().mean()
    assert float(changes) == pytest.approx(1.0 / (1.0 + 2.718281828), abs=0.04)
    torch.testing.assert_close(
        switched.states.diff(dim=0)[..., 0], 0.25 * (1.0 - 2.0 * switched.component[:-1]).double()
    )


def test_wrong_times_and_noise_are_refused():
    model = MixtureModel(ModelConfig())
    x0 = torch.zeros(3, 2)
    for times in ([0.0], [0.0, 0.0], [0.0, 2.0, 1.0], [0.0, float("nan")]):
        with pytest.raises(DataError, match="expected"):
            sample_paths(model, x0, torch.tensor(times), model.draw(0, 3))
    with pytest.raises(DataError, match="expected noise for 3 rows"):
        sample_paths(model, x0, torch.tensor([0.0, 1.0]), model.draw(0, 4))
    with pytest.raises(DataError, match="end after the start"):
        grid(1.0, 1.0, 3, like=x0)
    with pytest.raises(DataError, match=r"expected times \(T \+ 1,\) or"):
        check_times(torch.zeros(3, 2, 2), 2)
