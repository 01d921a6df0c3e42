"""Inputs that the solver refuses, how a row can fail, gradients, and the methods of torchdiffeq."""

import pytest
import torch
from ode_problems import Oscillators, all_problems, decay, logistic, oscillators, rotation

from svfm_ros.errors import ConfigError, DataError
from svfm_ros.svfm.solver.solve import SolverConfig, Status, solve

PROBLEMS = all_problems()
ONE = torch.ones(2, 1, dtype=torch.float64)
UNIT = torch.tensor([0.0, 1.0])


@pytest.mark.parametrize("method", ["dopri5", "torchdiffeq:dopri5", "rk4"])
@pytest.mark.parametrize(
    ("h0", "times", "says"),
    [
        (torch.ones(3), UNIT, r"h0: expected .* got a tensor \(3,\)"),
        (torch.ones(0, 2), UNIT, "h0: expected"),
        (torch.ones(2, 0), UNIT, "h0: expected"),
        (torch.ones(2, 1, dtype=torch.long), UNIT, "float32 or float64, got torch.int64"),
        (torch.tensor([[torch.nan]]), UNIT, "h0: expected finite"),
        (torch.tensor([[torch.inf]]), UNIT, "h0: expected finite"),
        ([[1.0]], UNIT, "h0: expected .* got list"),
        (ONE, torch.tensor([0.0]), "a horizon of zero"),
        (ONE, torch.tensor([]), "a horizon of zero"),
        (ONE, torch.tensor([1.0, 1.0]), "a horizon of zero"),
        (ONE, torch.tensor([0.0, 1.0, 0.5]), "times: expected times that rise"),
        (ONE, torch.tensor([0.0, 1.0, 1.0]), "times: expected times that rise"),
        (ONE, torch.tensor([[0.0, 1.0], [1.0, 0.0]]), "in every row alike"),
        (ONE, torch.tensor([0.0, torch.nan]), "times: expected finite"),
        (ONE, torch.zeros(3, 2), r"times: expected a tensor \(T,\) or \(2, T\), got"),
        (ONE, torch.tensor(1.0), "times: expected"),
        (ONE, [0.0, 1.0], "times: expected .* got list"),
    ],
)
def test_refuses_bad_input(method, h0, times, says):
    with pytest.raises(DataError, match=says):
        solve(lambda t, h: -h, h0, times, config=SolverConfig(method=method))


@pytest.mark.parametrize("slope", [torch.ones(2, 2).double(), torch.ones(2).double(), torch.ones(2, 1), 1.0])
def test_refuses_a_field_of_the_wrong_shape_or_kind(slope):
    with pytest.raises(DataError, match="field: expected"):
        solve(lambda t, h: slope, ONE, UNIT)


def test_refuses_settings_that_make_no_sense():
    for bad in ({"rtol": 0.0}, {"atol": -1.0}, {"max_steps": 0}, {"method": "magic"}, {"adjoint": True}):
        with pytest.raises(ConfigError):
            SolverConfig(**bad)


def test_whole_numbers_are_welcome_as_times():
    assert solve(lambda t, h: -h, ONE, torch.tensor([0, 1])).ok.all()


def blow_up(t, h):
    return h * h  # 1 / (1 / h0 - t): infinite at t = 1 / h0


def test_a_row_that_runs_off_is_given_up_and_the_others_arrive():
    h0 = torch.tensor([[1.0], [0.1], [-1.0]], dtype=torch.float64)
    solution = solve(blow_up, h0, torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64))
    assert solution.status.tolist() == [Status.STEP_UNDERFLOW, Status.DONE, Status.DONE]
    exact = 1 / (1 / h0 - 2.0)
    assert torch.allclose(solution.end[1:], exact[1:], atol=1e-5)
    assert solution.end[0].isnan().all()
    assert torch.allclose(solution.states[1, 0], torch.tensor([2.0], dtype=torch.float64), atol=1e-4)  # reached before
    assert "bound" in solution.message(0)
    with pytest.raises(DataError, match="1 of 3 rows"):
        solution.check()


def test_a_field_that_breaks_off_is_said_to_be_not_finite():
    def wall(t, h):
        return torch.where(h > 2, torch.nan, torch.ones_like(h))

    h0 = torch.tensor([[0.0], [1.5], [3.0]], dtype=torch.float64)
    solution = solve(wall, h0, UNIT)
    assert solution.status.tolist() == [Status.DONE, Status.NON_FINITE, Status.NON_FINITE]
    assert torch.allclose(solution.end[0], torch.ones(1, dtype=torch.float64))
    assert "NaN" in solution.message(2)


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("times", [torch.tensor([0.0, 0.5, 1.0]), UNIT])
def test_all_rows_broken_from_the_start(times, with_gradient):
    def field(t, h):
        assert len(h) == 2, "no one asks for the field of no rows"
        return h * torch.nan

    solution = solve(field, ONE.clone().requires_grad_(with_gradient), times)
    assert solution.status.tolist() == [Status.NON_FINITE] * 2
    assert solution.states[1:].isnan().all()
    assert solution.accepted.tolist() == [0, 0]


def test_a_step_that_meets_nan_is_tried_again_shorter():
    def root(t, h):
        return -torch.sqrt(h)  # (1 - t / 2)²

    solution = solve(root, ONE, torch.tensor([0.0, 1.8]), config=SolverConfig(first_step=1.8)).check()
    assert (solution.rejected > 0).all()
    assert torch.allclose(solution.end, torch.full_like(ONE, 0.01), atol=1e-4)


def test_too_few_steps():
    problem = oscillators(8)
    solution = solve(problem.field, problem.h0, problem.times(9), config=SolverConfig(max_steps=12))
    assert set(solution.status.tolist()) == {Status.DONE, Status.MAX_STEPS}
    assert (solution.accepted + solution.rejected <= 12).all()
    reached = ~solution.states.isnan()
    assert reached[:, solution.ok].all()
    assert (solution.states - problem.at(problem.times(9)))[reached].abs().max() < 1e-4
    assert "max_steps" in solution.message(7)


@pytest.mark.parametrize("times", [torch.linspace(0, 2, 7).double(), torch.linspace(0, -2, 4).double(), UNIT.double()])
def test_gradients_are_those_of_the_exact_answer(times):
    w = torch.linspace(0.5, 9, 40, dtype=torch.float64, requires_grad=True)
    h0 = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    weights = torch.randn(len(times), 40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = solve(Oscillators(w), h0, times, config=SolverConfig(rtol=1e-9, atol=1e-9)).check().states
    exact = torch.stack([Oscillators(w).exact(h0, float(t)) for t in times])
    assert torch.allclose(found, exact, atol=1e-6)
    ours = torch.autograd.grad((found * weights).sum(), [w, h0])
    theirs = torch.autograd.grad((exact * weights).sum(), [w, h0])
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-6 * float(b.abs().max()))


def test_gradients_of_a_module_match_torchdiffeqs():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, h):
            return self.net(torch.cat([h, t[:, None]], dim=1))

    h0, times = torch.randn(9, 2, dtype=torch.float64), torch.linspace(0, 2, 5)
    grads = []
    for settings in ({}, {"method": "torchdiffeq:dopri5"}, {"method": "torchdiffeq:dopri5", "adjoint": True}):
        solution = solve(Net(), h0, times, config=SolverConfig(rtol=1e-9, atol=1e-9, **settings)).check()
        grads.append(torch.autograd.grad(solution.states.square().sum(), list(net.parameters())))
    for ours, plain, adjoint in zip(*grads, strict=True):
        assert torch.allclose(ours, plain, atol=1e-5)
        assert torch.allclose(ours, adjoint, atol=1e-5)


def test_gradients_survive_a_rejected_step_full_of_nan():
    h0 = ONE.clone().requires_grad_()
    solution = solve(lambda t, h: -torch.sqrt(h), h0, torch.tensor([0.0, 1.0]), config=SolverConfig(first_step=1.0))
    long = solve(lambda t, h: -torch.sqrt(h), h0, torch.tensor([0.0, 1.8]), config=SolverConfig(first_step=1.8))
    assert (long.rejected > 0).all()
    (grad,) = torch.autograd.grad(solution.end.sum() + long.end.sum(), h0)
    assert torch.allclose(grad, torch.full_like(grad, 0.5 + 0.1), atol=1e-3)  # (√h0 - t/2)² by h0 is 1 - t/2 at h0 = 1


def test_gradients_of_rows_that_arrive_while_another_fails():
    h0 = torch.tensor([[1.0], [0.1]], dtype=torch.float64, requires_grad=True)
    solution = solve(blow_up, h0, torch.tensor([0.0, 2.0], dtype=torch.float64))
    (grad,) = torch.autograd.grad(solution.end[solution.ok].sum(), h0)
    assert grad[0] == 0
    assert solution.end[0].isnan().all()
    assert torch.allclose(grad[1], 1 / (1 - 0.1 * 2) ** 2 * torch.ones(1, dtype=torch.float64), atol=1e-4)


def test_a_constant_field_still_passes_the_gradient_of_the_start():
    h0 = ONE.clone().requires_grad_()
    solution = solve(lambda t, h: torch.ones_like(h), h0, UNIT)
    (grad,) = torch.autograd.grad(solution.end.sum(), h0)
    assert torch.allclose(grad, torch.ones_like(grad))


def test_no_graph_without_gradients():
    h0 = ONE.clone().requires_grad_()
    with torch.no_grad():
        assert not solve(lambda t, h: -h, h0, UNIT).states.requires_grad
    with torch.inference_mode():
        assert solve(lambda t, h: -h, ONE, torch.tensor([0.0, 0.5, 1.0])).ok.all()


@pytest.mark.parametrize("method", ["torchdiffeq:dopri5", "rk4", "euler"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_torchdiffeq_agrees(problem, method):
    times = problem.times(5)
    config = SolverConfig(method=method, step_size=0.0 if ":" in method else problem.horizon / 500)
    theirs = solve(problem.field, problem.h0, times, config=config).check()
    ours = solve(problem.field, problem.h0, times).check()
    allowed = {"torchdiffeq:dopri5": 2e-3, "rk4": 1e-4, "euler": 1.0}[method]  # its norm averages over the whole batch
    assert (ours.states - theirs.states).abs().max() < allowed
    assert len(set(theirs.nfe.tolist())) == 1
    if method != "torchdiffeq:dopri5":
        assert theirs.accepted[0] == 500
        assert theirs.nfe[0] == 500 * {"rk4": 4, "euler": 1}[method]
    else:
        assert theirs.nfe[0] == 2 + 6 * (theirs.accepted[0] + theirs.rejected[0])


def test_torchdiffeq_of_one_row_agrees_within_tolerance():
    for problem in (decay(1), logistic(1), rotation(1)):
        pair = [
            solve(problem.field, problem.h0, problem.times(5), config=SolverConfig(method=m)).check()
            for m in ("dopri5", "torchdiffeq:dopri5")
        ]
        assert (pair[0].states - pair[1].states).abs().max() < 2e-5
        assert pair[0].nfe[0] <= pair[1].nfe[0]


def test_torchdiffeqs_failures_become_statuses():
    config = SolverConfig(method="torchdiffeq:dopri5")
    assert solve(blow_up, ONE, torch.tensor([0.0, 2.0]), config=config).status[0] in (
        Status.STEP_UNDERFLOW,
        Status.NON_FINITE,
    )
    few = SolverConfig(method="torchdiffeq:dopri5", max_steps=3)
    stopped = solve(lambda t, h: torch.cos(50 * t)[:, None] * h, ONE, torch.tensor([0.0, 9.0]), config=few)
    assert stopped.status.tolist() == [Status.MAX_STEPS] * 2
    assert stopped.end.isnan().all()
    assert solve(blow_up, ONE * 1e200, UNIT, config=SolverConfig(method="rk4")).status[0] == Status.NON_FINITE


def test_torchdiffeq_wants_one_clock():
    times = torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    with pytest.raises(DataError, match="same times in every row"):
        solve(lambda t, h: -h, ONE, times, config=SolverConfig(method="rk4"))
    same = solve(lambda t, h: -h, ONE, torch.tensor([[0.0, 1.0]] * 2), config=SolverConfig(method="torchdiffeq:dopri5"))
    assert same.ok.all()


def test_adjoint_wants_parameters():
    with pytest.raises(ConfigError, match="parameters"):
        solve(lambda t, h: -h, ONE, UNIT, config=SolverConfig(method="rk4", adjoint=True))
    a = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    config = SolverConfig(method="torchdiffeq:dopri5", adjoint=True)
    solution = solve(lambda t, h: -a * h, ONE, UNIT, config=config, parameters=(a,))
    (grad,) = torch.autograd.grad(solution.end.sum(), a)
    assert torch.allclose(grad, -2 * torch.exp(-a.detach()), atol=1e-4)
