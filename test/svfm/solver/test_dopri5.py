"""Our dopri5 against exact answers: accuracy, order, independence of the rows, number of evaluations."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ode_problems import Oscillators, PaidRows, Problem, all_problems, decay, logistic, oscillators, rotation

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.svfm.model import MixtureModel, RealisedField
from svfm_ros.svfm.solver.array_backend import HostArrays, TensorArrays
from svfm_ros.svfm.solver.solve import Solution, SolverConfig, Status, _solve_dopri5, solve

PROBLEMS = all_problems()


def by_name(problem: Problem) -> str:
    return problem.name


def fixed_step(h: float) -> SolverConfig:
    """Steps of exactly h: any error passes."""
    return SolverConfig(rtol=0.1, atol=1e6, first_step=h, max_step=h)


def worst(problem: Problem, solution: Solution) -> float:
    """The largest error at the end, over the size of the largest state on the way."""
    size = problem.at(problem.times(50)).abs().max()
    return float((solution.end - problem.at(problem.times())[-1]).abs().max() / size)


@pytest.mark.parametrize("problem", PROBLEMS, ids=by_name)
def test_reaches_the_exact_answer(problem):
    solution = solve(problem.field, problem.h0, problem.times()).check()
    assert worst(problem, solution) < 5e-5
    tight = solve(problem.field, problem.h0, problem.times(), config=SolverConfig(rtol=1e-10, atol=1e-10)).check()
    assert worst(problem, tight) < 1e-8


@pytest.mark.parametrize("problem", PROBLEMS, ids=by_name)
def test_float32_stays_float32_and_close(problem):
    class Narrow:
        def __init__(self, field):
            self.field = field

        def __call__(self, t, h):
            assert t.dtype == h.dtype == torch.float32
            return self.field(t, h).to(torch.float32)

        def take(self, rows):
            return Narrow(self.field.take(rows) if hasattr(self.field, "take") else self.field)

    solution = solve(Narrow(problem.field), problem.h0.float(), problem.times()).check()
    assert solution.states.dtype == torch.float32
    assert worst(problem, solution) < 3e-4


@pytest.mark.parametrize("problem", PROBLEMS, ids=by_name)
def test_fifth_order_with_fixed_steps(problem):
    steps = problem.horizon / 64, problem.horizon / 128
    coarse, fine = (
        worst(problem, solve(problem.field, problem.h0, problem.times(), config=fixed_step(h))) for h in steps
    )
    assert 2**4.6 < coarse / fine < 2**5.9


@pytest.mark.parametrize("problem", PROBLEMS, ids=by_name)
def test_error_follows_the_tolerance_and_cost_its_fifth_root(problem):
    tolerances = 1e-5, 1e-10
    loose, tight = (
        solve(problem.field, problem.h0, problem.times(), config=SolverConfig(rtol=e, atol=e)).check()
        for e in tolerances
    )
    assert worst(problem, tight) < 1e-3 * worst(problem, loose)
    growth = tight.nfe.double().sum() / loose.nfe.double().sum()
    assert 4.0 < growth < 13.0  # (1e5)^(1/5) = 10, less on short problems, which start and end


@pytest.mark.parametrize("degree", range(6))
def test_polynomials_up_to_degree_five_in_one_step(degree):
    def field(t, h):
        return (degree * t ** max(degree - 1, 0))[:, None].expand_as(h)

    h0, times = torch.zeros(3, 2, dtype=torch.float64), torch.tensor([0.5, 2.0], dtype=torch.float64)
    solution = solve(field, h0, times, config=fixed_step(1.5))
    assert solution.accepted.tolist() == [1, 1, 1]
    assert torch.allclose(solution.end, torch.full_like(h0, 2.0**degree - 0.5**degree), atol=1e-12)


def test_degree_six_is_not_exact_in_one_step():
    solution = solve(
        lambda t, h: (6 * t**5)[:, None], torch.zeros(1, 1).double(), torch.tensor([0.5, 2.0]), config=fixed_step(1.5)
    )
    assert abs(float(solution.end) - (2.0**6 - 0.5**6)) > 1e-3


@pytest.mark.parametrize("problem", PROBLEMS, ids=by_name)
def test_times_between_are_as_good_as_the_end(problem):
    times = problem.times(41)
    solution = solve(problem.field, problem.h0, times).check()
    assert solution.states.shape == (41, *problem.h0.shape)
    assert torch.equal(solution.states[0], problem.h0)
    assert (solution.states - problem.at(times)).abs().max() < 1e-4
    ends = solve(problem.field, problem.h0, problem.times())
    assert torch.equal(solution.nfe, ends.nfe)  # asking for more costs nothing
    assert torch.allclose(solution.end, ends.end, rtol=0, atol=1e-12)


def test_the_interpolant_has_fourth_order():
    problem = rotation()
    errors = []
    for n in (32, 64):
        times = problem.times(500)
        solution = solve(problem.field, problem.h0, times, config=fixed_step(problem.horizon / n))
        errors.append(float((solution.states - problem.at(times)).abs().max()))
    assert 2**3.6 < errors[0] / errors[1] < 2**5.6


def test_backward_in_time():
    problem = rotation()
    times = torch.linspace(problem.horizon, 0.0, 9, dtype=torch.float64)
    start = problem.at(times)[0]
    solution = solve(problem.field, start, times).check()
    assert (solution.states - problem.at(times)).abs().max() < 5e-5


def test_each_row_has_its_own_times():
    field = Oscillators(torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64))
    h0 = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]], dtype=torch.float64)
    ends = torch.tensor([1.0, 7.0, 3.0], dtype=torch.float64)
    times = ends[:, None] * torch.linspace(0, 1, 6, dtype=torch.float64)
    solution = solve(field, h0, times).check()
    for j in range(6):
        assert torch.allclose(solution.states[j], field.exact(h0, times[:, j]), atol=2e-5)


@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.integers(1, 59), max_size=4), n_times=st.sampled_from([2, 7]))
def test_a_row_is_the_same_in_any_batch(cuts, n_times):
    problem = oscillators(60)
    times = problem.times(n_times)
    whole = solve(problem.field, problem.h0, times)
    bounds = sorted({0, 60, *cuts})
    for low, high in pairwise(bounds):
        rows = torch.arange(low, high)
        part = solve(problem.field.take(rows), problem.h0[rows], times)
        assert torch.equal(part.nfe, whole.nfe[rows])
        assert torch.equal(part.rejected, whole.rejected[rows])
        assert torch.allclose(part.states, whole.states[:, rows], rtol=0, atol=1e-11)


def test_an_easy_row_does_not_pay_for_a_hard_one():
    w = torch.full((64,), 0.5, dtype=torch.float64)
    w[17] = 100.0
    h0 = torch.ones(64, 2, dtype=torch.float64)
    field = PaidRows(Oscillators(w))
    solution = solve(field, h0, torch.tensor([0.0, 3.0])).check()
    easy = solve(Oscillators(w[:1]), h0[:1], torch.tensor([0.0, 3.0]))
    assert set(solution.nfe[w < 1].tolist()) == {int(easy.nfe)}
    assert solution.nfe[17] > 30 * easy.nfe
    assert field.count[0] < 1.1 * int(solution.nfe.sum())


def test_counts_add_up():
    problem = oscillators(40)
    solution = solve(problem.field, problem.h0, problem.times())
    assert torch.equal(solution.nfe, 2 + 6 * (solution.accepted + solution.rejected))
    assert (solution.rejected > 0).any()
    given = solve(problem.field, problem.h0, problem.times(), config=SolverConfig(first_step=0.01))
    assert torch.equal(given.nfe, 1 + 6 * (given.accepted + given.rejected))


def test_one_row_costs_what_the_count_says():
    problem = logistic(1)
    field = PaidRows(problem.field)
    solution = solve(field, problem.h0, problem.times())
    assert field.count[0] == int(solution.nfe)


@pytest.mark.parametrize("speed", [0.0, 0.7, -30.0])
def test_a_field_that_does_not_change_takes_one_step(speed):
    h0 = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    solution = solve(lambda t, h: torch.full_like(h, speed), h0, torch.tensor([0.0, 10.0])).check()
    assert solution.nfe.tolist() == [8] * 4
    assert torch.allclose(solution.end, h0 + 10 * speed, rtol=1e-6, atol=1e-4)


def test_no_step_beyond_the_end():
    seen = []

    def field(t, h):
        seen.append(float(t.max()))
        return -h

    solve(field, torch.ones(2, 1), torch.tensor([0.0, 1.0])).check()
    assert max(seen) <= 1.0


def test_max_step_holds():
    problem = decay()
    solution = solve(problem.field, problem.h0, problem.times(), config=SolverConfig(max_step=0.05))
    assert (solution.accepted >= problem.horizon / 0.05 - 1e-9).all()


@pytest.mark.parametrize("n_times", [2, 5])
@pytest.mark.parametrize("problem", [*PROBLEMS, decay(5000)], ids=by_name)
def test_numpy_and_torch_give_the_same(problem, n_times):
    times = problem.times(n_times)
    runs = [_solve_dopri5(problem.field, problem.h0, times, SolverConfig(), a) for a in (HostArrays(), TensorArrays())]
    assert torch.equal(runs[0].nfe, runs[1].nfe)
    assert torch.equal(runs[0].status, runs[1].status)
    assert torch.allclose(runs[0].states, runs[1].states, rtol=0, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(
    entries=st.lists(st.floats(-2, 2), min_size=9, max_size=9),
    shift=st.floats(-100, 100),
    horizon=st.floats(0.05, 4),
)
def test_linear_fields_match_the_matrix_exponential(entries, shift, horizon):
    matrix = torch.tensor(entries, dtype=torch.float64).reshape(3, 3)
    h0 = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.3, -1.0]], dtype=torch.float64)
    times = torch.tensor([shift, shift + horizon], dtype=torch.float64)
    solution = solve(lambda t, h: h @ matrix, h0, times).check()
    exact = h0 @ torch.linalg.matrix_exp(matrix * (times[1] - times[0]))
    largest = torch.linalg.matrix_norm(torch.linalg.matrix_exp(matrix.abs() * horizon), ord=float("inf"))
    assert (solution.end - exact).abs().max() < 1e-4 * float(largest)


@settings(max_examples=10, deadline=None)
@given(w=st.floats(0.1, 8), horizon=st.floats(0.2, 5))
def test_there_and_back_again(w, horizon):
    field = Oscillators(torch.tensor([w, w / 2], dtype=torch.float64))
    h0 = torch.tensor([[1.0, 0.5], [-1.0, 0.2]], dtype=torch.float64)
    out = solve(field, h0, torch.tensor([0.0, horizon]), config=SolverConfig(rtol=1e-8, atol=1e-8)).check()
    back = solve(field, out.end, torch.tensor([horizon, 0.0]), config=SolverConfig(rtol=1e-8, atol=1e-8)).check()
    assert torch.allclose(back.end, h0, atol=1e-4)


def test_a_field_may_hand_its_input_back_or_a_view():
    h0 = torch.ones(3, 2, dtype=torch.float64)
    solution = solve(lambda t, h: h, h0, torch.tensor([0.0, 1.0])).check()
    assert torch.allclose(solution.end, torch.full_like(h0, torch.e), atol=1e-5)
    turned = solve(lambda t, h: h.flip(1).t().contiguous().t(), h0, torch.tensor([0.0, 1.0])).check()
    assert torch.allclose(turned.end, torch.full_like(h0, torch.e), atol=1e-5)
    assert torch.equal(h0, torch.ones(3, 2, dtype=torch.float64))


def test_per_row_cost_is_no_higher_than_torchodes():
    torchode = pytest.importorskip("torchode")
    for problem in [*PROBLEMS, oscillators(30), logistic(30)]:
        ours = solve(problem.field, problem.h0, problem.times()).check()
        term = torchode.ODETerm(problem.field, with_stats=False)
        controller = torchode.IntegralController(1e-6, 1e-6, term=term)
        solver = torchode.AutoDiffAdjoint(torchode.Dopri5(term=term), controller).double()
        start = torch.zeros(len(problem.h0), dtype=torch.float64)
        end = torch.full_like(start, problem.horizon)
        theirs = solver.solve(torchode.InitialValueProblem(problem.h0, start, end))
        their_nfe = 2 + 6 * theirs.stats["n_steps"]  # two to choose the first step, six per step tried, like ours
        assert ours.nfe.double().mean() <= their_nfe.double().mean(), problem.name
        assert (ours.nfe <= 1.1 * their_nfe + 6).all(), problem.name
        exact = problem.at(problem.times())[-1]
        errors = [float((end - exact).abs().max()) for end in (ours.end, theirs.ys[:, -1])]
        assert errors[0] < 2 * errors[1] + 1e-6, problem.name


def test_status_is_done():
    solution = solve(decay().field, decay().h0, decay().times())
    assert solution.ok.all()
    assert solution.message(0) == Status.DONE.message


TIMES = torch.tensor([0.0, 1.0], dtype=torch.float64)


def realised(rows: int = 24) -> tuple[RealisedField, torch.Tensor]:
    """Three components of smooth stochastic fields; every row has its own component and noise."""
    torch.manual_seed(0)
    model = MixtureModel(ModelConfig(components=3, activation="tanh", first_log_spread=0.3), seed=1).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.15 * torch.randn_like(weight)
    component = torch.arange(rows) % 3
    h0 = torch.randn(rows, 2, dtype=torch.float64)
    return model.realise(model.draw(7, rows), component), h0


def test_order_five_on_a_realised_field():
    field, h0 = realised()
    with torch.no_grad():
        exact = solve(field, h0, TIMES, config=SolverConfig(rtol=1e-12, atol=1e-12)).check().end
        errors = []
        for n in (8, 16):
            fixed = SolverConfig(rtol=0.1, atol=1e6, first_step=1 / n, max_step=1 / n)
            errors.append(float((solve(field, h0, TIMES, config=fixed).end - exact).square().mean().sqrt()))
    assert errors[1] > 1e-12  # above rounding, so that the ratio means something
    assert 2**4.5 < errors[0] / errors[1] < 2**6


def test_rows_keep_their_noise_and_component_when_others_leave():
    field, h0 = realised()
    with torch.no_grad():
        whole = solve(field, h0, TIMES).check()
        for row in (0, 10, 23):
            alone = solve(field.take(torch.tensor([row])), h0[row : row + 1], TIMES).check()
            assert alone.nfe[0] == whole.nfe[row]
            assert torch.allclose(alone.end[0], whole.end[row], rtol=0, atol=1e-11)


def test_gradients_reach_the_weights():
    field, h0 = realised(12)
    weights = [p for p in field.model.fields.parameters() if p.requires_grad]
    target = torch.zeros_like(h0)

    def loss(method: str) -> torch.Tensor:
        solution = solve(field, h0, TIMES, config=SolverConfig(method=method, rtol=1e-7, atol=1e-7)).check()
        return (solution.end - target).square().sum()

    ours = torch.autograd.grad(loss("dopri5"), weights, allow_unused=True)
    field, _ = realised(12)
    weights = [p for p in field.model.fields.parameters() if p.requires_grad]
    theirs = torch.autograd.grad(loss("torchdiffeq:dopri5"), weights, allow_unused=True)
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None]
    assert pairs
    for a, b in pairs:
        assert torch.allclose(a, b, atol=1e-4 * float(1 + b.abs().max()))


def test_the_first_step_is_chosen_by_what_lies_ahead_in_time():
    """The field is not defined before the start: a constant one from there on takes one step."""

    def field(t, h):
        return torch.where(t.unsqueeze(1) >= 1.0, torch.ones_like(h), torch.nan)

    solution = solve(field, torch.zeros(3, 2).double(), torch.tensor([1.0, 5.0])).check()
    assert solution.accepted.tolist() == [1, 1, 1]
    assert solution.rejected.tolist() == [0, 0, 0]
