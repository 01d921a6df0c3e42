import math
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from svfm_ros.errors import UsageError
from svfm_ros.experiments.classifiers import (
    SETS,
    ClassifierSpec,
    TrainedClassifier,
    _with_penalty,
    bayes_rate,
    draw_points,
)
from svfm_ros.experiments.experiment import EXPERIMENTS, ExperimentResult, save_figure
from svfm_ros.experiments.solver_cost import run_alignment, run_frozen
from svfm_ros.experiments.three_uncertainties import run_uncertainty


def quickly(run) -> tuple[ExperimentResult, list[str]]:
    """The result and what the progress bar was told."""
    told: list[str] = []
    return run(True, told.append), told


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_loads_by_its_name(name):
    run = EXPERIMENTS[name].load()
    if isinstance(run, partial):  # one function for several experiments, told the name
        assert run.args == (name,)
    else:
        assert run.__name__ == f"run_{name}"


def test_every_experiment_of_the_paper_is_there():
    wanted = "crossing splitting scaling circles moons xor nfe cyclic uncertainty alignment frozen"
    assert set(EXPERIMENTS) >= {*wanted.split(), "behaviour", "counterfactual", "slam"}


def test_fields_that_are_aligned_need_one_step():
    result, told = quickly(run_alignment)
    assert len(told) == len(result.rows)
    assert all(c.ok for c in result.checks)
    steps = [row[2] for row in result.rows]
    assert steps[-1] == 1.0
    assert steps == sorted(steps, reverse=True)


def test_the_error_of_one_step_through_a_whole_turn_is_that_of_dopri5s_polynomial():
    result, _ = quickly(run_alignment)
    z = 2j * math.pi
    polynomial = sum(z**k / math.factorial(k) for k in range(6)) + z**6 / 600
    assert result.rows[0][1] == pytest.approx(abs(polynomial - 1.0), rel=1e-9)


def test_length_noise_fans_out_with_curvature_alone_and_direction_noise_at_once():
    result, _ = quickly(run_uncertainty)
    assert all(c.ok for c in result.checks)
    spread = {row[0]: row[1:] for row in result.rows}
    assert spread["length noise, straight field"] == pytest.approx((0.0, 0.0), abs=1e-9)
    z = np.linspace(-8.0, 8.0, 4001)
    across = np.sin(np.arctan(0.2 * z))  # of a path of length one whose heading is off by a tangent of 0.2 z
    weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    assert spread["direction noise, straight field"] == pytest.approx(
        [math.sqrt((weight * across**2).sum())] * 2, abs=0.01
    )


def test_frozen_noise_saves_evaluations():
    result, _ = quickly(run_frozen)
    assert all(c.ok for c in result.checks)
    for _tolerance, frozen, fresh, ratio, gave_up in result.rows:
        assert ratio == pytest.approx(fresh / frozen)
        assert frozen >= 8.0  # two evaluations to begin with and six for a step
        assert 0.0 <= gave_up <= 1.0
    assert result.rows[0][2] < result.rows[1][2]  # chasing noise costs more at the smaller tolerance


@pytest.mark.parametrize("run", [run_alignment, run_uncertainty, run_frozen])
def test_figures_are_saved_as_png_and_svg(run, tmp_path):
    result, _ = quickly(run)
    png, svg = save_figure(result.draw(), tmp_path / "figures" / result.name)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")


@pytest.mark.parametrize("name", SETS)
def test_points_have_their_shapes_and_follow_from_the_seed(name):
    points, again, other = draw_points(name, 1), draw_points(name, 1), draw_points(name, 2)
    assert points.x.shape == (1000, 2)
    assert points.label.shape == (1000,)
    assert points.x.dtype == torch.float32
    assert set(points.label.tolist()) == {0, 1}
    assert torch.equal(points.x, again.x)
    assert not torch.equal(points.x, other.x)


def test_points_without_noise_lie_on_their_curves():
    circles, moons = draw_points("circles", 0, noise=0.0), draw_points("moons", 0, noise=0.0)
    assert torch.allclose(circles.x.norm(dim=1), torch.where(circles.label == 1, 0.5, 1.0), atol=1e-5)
    lower = torch.tensor([1.0, 0.5])
    centre = torch.where((moons.label == 1).unsqueeze(1), lower, torch.zeros(2))
    assert torch.allclose((moons.x - centre).norm(dim=1), torch.ones(1000), atol=1e-5)
    xor = draw_points("xor", 0)
    assert torch.equal(xor.label == 1, xor.x.prod(dim=1) > 0)


def test_an_unknown_set_is_refused():
    with pytest.raises(UsageError, match="circles"):
        draw_points("spirals", 0, noise=0.1)


def test_the_best_anyone_can_do():
    assert bayes_rate("moons", 0.2, count=10_000) == pytest.approx(0.970, abs=0.005)
    assert bayes_rate("circles", 0.05, count=2000) == 1.0
    assert bayes_rate("xor", 0.0) == 1.0
    rates = [bayes_rate("moons", noise, count=2000) for noise in (0.1, 0.2, 0.3)]
    assert rates == sorted(rates, reverse=True)


def tried(accuracies: dict[float, float], kind: str = "VF+TVLoss") -> list[TrainedClassifier]:
    return [TrainedClassifier(ClassifierSpec("moons", kind, penalty=p), {}, a) for p, a in accuracies.items()]


def test_the_penalty_is_the_largest_that_costs_no_accuracy_on_validation():
    spec = ClassifierSpec("moons", "VF+TVLoss", seed=2)
    assert _with_penalty(spec, tried({0.03: 0.990, 0.1: 0.988, 0.3: 0.95})).penalty == 0.1
    assert _with_penalty(spec, tried({0.03: 0.990, 0.1: 0.970, 0.3: 0.95})).penalty == 0.03
    other = tried({0.3: 0.999}, kind="SVFM+TVLoss")
    assert _with_penalty(spec, [*tried({0.03: 0.9, 0.1: 0.8}), *other]).penalty == 0.03
    assert _with_penalty(ClassifierSpec("moons", "VF"), tried({0.03: 0.9})).penalty == 0.0
