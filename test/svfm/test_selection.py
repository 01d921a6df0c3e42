import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.model import MixtureModel
from svfm_ros.svfm.selection import choose, filter_step, joint_weights, sample_next

PSI = torch.tensor([[[0.9, 0.1], [0.3, 0.7]]]).double()
EMIT = torch.tensor([[0.8, 0.2]]).double()
HALF = torch.tensor([[0.5, 0.5]]).double()


def simplex(rows, k, seed):
    x = torch.rand(rows, k, generator=torch.Generator().manual_seed(seed)).double() + 0.01
    return x / x.sum(-1, keepdim=True)


def test_forward_filtering_by_hand():
    # psi * pi = (0.4, 0.1); Psi^T of it = (0.36 + 0.03, 0.04 + 0.07) = (0.39, 0.11); normalised (0.78, 0.22).
    torch.testing.assert_close(filter_step(PSI, EMIT, HALF), torch.tensor([[0.78, 0.22]]).double())
    joint = joint_weights(PSI, EMIT, HALF)
    torch.testing.assert_close(joint[0], torch.tensor([[0.72, 0.08], [0.06, 0.14]]).double())


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10_000))
def test_beliefs_stay_on_the_simplex_and_are_the_joint_summed(k, seed):
    transition = simplex(5 * k, k, seed).view(5, k, k)
    emission, belief = simplex(5, k, seed + 1), simplex(5, k, seed + 2)
    after = filter_step(transition, emission, belief)
    torch.testing.assert_close(after.sum(-1), torch.ones(5).double())
    torch.testing.assert_close(after, joint_weights(transition, emission, belief).sum(1))
    assert bool((after >= 0).all())


def test_flat_evidence_and_no_switching_leave_a_belief_alone():
    belief = simplex(4, 3, 0)
    after = filter_step(torch.eye(3).double().expand(4, 3, 3), torch.full((4, 3), 1 / 3).double(), belief)
    torch.testing.assert_close(after, belief)


def test_a_component_is_chosen_by_its_share():
    p = torch.tensor([[0.2, 0.5, 0.3]])
    u = torch.tensor([0.0, 0.19, 0.2, 0.69, 0.71, 1.0 - 2**-24, 1.0])
    assert choose(p.expand(7, 3), u).tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert choose(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([0.0])).tolist() == [1]


def test_sampled_switches_follow_eq_5_and_stick_where_they_can():
    n = 200_000
    belief = torch.tensor([[0.2, 0.5, 0.3]]).expand(n, 3)
    emission = torch.tensor([[0.1, 0.3, 0.6]]).expand(n, 3)
    transition = simplex(3, 3, 5).float().expand(n, 3, 3)
    u = torch.rand(2, n, generator=torch.Generator().manual_seed(0))
    component = choose(belief, u[0])
    after = sample_next(transition, emission, belief, component, u[1])
    shares = torch.bincount(after, minlength=3) / n
    torch.testing.assert_close(shares, filter_step(transition, emission, belief)[0], atol=0.005, rtol=0.0)
    flat = torch.full((n, 3), 1 / 3)
    assert torch.equal(sample_next(torch.eye(3).expand(n, 3, 3), flat, belief, component, u[1]), component)


def test_networks_give_rows_on_the_simplex_and_stick_at_first():
    model = MixtureModel(ModelConfig(components=4, selection="filter", stickiness=3.0, gate="mlp"))
    h = torch.randn(7, 2, generator=torch.Generator().manual_seed(0))
    transition = model.log_transition(torch.zeros(7), h).exp()
    torch.testing.assert_close(transition.sum(-1), torch.ones(7, 4))
    assert bool((torch.diagonal(transition, dim1=1, dim2=2) > 0.8).all())
    torch.testing.assert_close(model.log_emission(torch.zeros(7), h).exp().sum(-1), torch.ones(7))
    torch.testing.assert_close(model.log_prior(torch.zeros(7), h).exp().sum(-1), torch.ones(7))


def test_a_model_that_sticks_has_no_transitions():
    with pytest.raises(DataError, match="expected a model with selection 'filter'"):
        MixtureModel(ModelConfig()).log_transition(torch.zeros(1), torch.zeros(1, 2))
