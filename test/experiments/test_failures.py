import numpy as np
import pytest
import torch

from svfm_ros.experiments.failures import CASES, CONTENDERS, TaskSpec, _draw_case, run_spec


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_density_that_models_are_held_against_is_the_one_ends_are_drawn_from(name):
    case = CASES[name]
    grid = torch.linspace(-3.0, 12.0, 30_001, dtype=torch.float64).unsqueeze(1)
    for start in case.starts:
        mass = case.log_density(torch.full_like(grid, start), grid).exp()
        assert float(torch.trapezoid(mass, grid[:, 0])) == pytest.approx(1.0, abs=1e-3)
    x, y = case.draw(20_000, torch.Generator().manual_seed(0))
    own = x[:, 0] == case.starts[0]
    ends = y[own, 0].sort().values.double()
    density = case.log_density(torch.full_like(grid, case.starts[0]), grid).exp()
    cdf = torch.cumulative_trapezoid(density, grid[:, 0])
    at = torch.searchsorted(grid[1:, 0].contiguous(), ends).clamp(max=len(cdf) - 1)
    ranks = (torch.arange(len(ends)) + 0.5) / len(ends)
    assert float((cdf[at] - ranks).abs().max()) < 1.63 / len(ends) ** 0.5  # Kolmogorov-Smirnov at 1 %


def test_the_contenders_are_the_corners_they_are_called():
    assert set(CONTENDERS) == {"VF", "A-VF", "VFM", "A-VFM", "SVF", "A-SVF", "SVFM", "A-SVFM"}
    assert CONTENDERS["A-SVF"].stochastic
    assert CONTENDERS["A-SVF"].components == 1
    assert CONTENDERS["A-SVF"].augment == 2


def test_a_mixture_splits_where_one_field_cannot():
    mixture = run_spec(TaskSpec("splitting", "SVFM", seed=0, steps=80))
    single = run_spec(TaskSpec("splitting", "VF", seed=0, steps=20))
    assert mixture.by_samples < 0.2 < 1.0 < single.by_samples
    assert mixture.by_moments < 0.2
    assert mixture.upper_share == pytest.approx(0.5, abs=0.1)
    assert float(np.trapezoid(mixture.densities[0.0], mixture.ends)) == pytest.approx(1.0, abs=0.02)
    figure = _draw_case(CASES["splitting"], {"VF": single, "SVFM": mixture})
    assert len(figure.axes) == 4
