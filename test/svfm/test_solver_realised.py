"""The model's realised fields under our solver: frozen noise leaves an ordinary differential equation."""

import torch

from svfm_ros.config.svfm_config import ModelConfig
from svfm_ros.svfm.model import MixtureModel, RealisedField
from svfm_ros.svfm.solver.solve import SolverConfig, solve

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
