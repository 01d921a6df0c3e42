"""Scores with known answers: Gaussian closed forms, and a forecaster that knows the true distribution."""

from dataclasses import dataclass

import numpy as np
import pytest
from benchlib.forecasts.forecast_scores import (
    KERNEL_M,
    QuestionScores,
    destination_loss,
    energy_score,
    kernel_log_score,
    place_shares,
    region_levels,
    score,
)
from benchlib.forecasts.questions import Question, QuestionSet

from svfm_ros.errors import DataError
from svfm_ros.types import Place, Places, WalkWindows

TICKS = 6


@dataclass
class RandomWalk:
    """Gaussian steps of a given size: the truth when the size is one."""

    size: float = 1.0
    name: str = "random walk"

    def fit(self, walks: WalkWindows) -> None:
        pass

    def sample(self, question: Question) -> np.ndarray:
        rng = np.random.default_rng([7, question.seed])
        steps = self.size * 0.3 * rng.standard_normal((question.samples, question.ticks, 2))
        paths = np.concatenate([np.zeros((question.samples, 1, 2)), np.cumsum(steps, axis=1)], axis=1)
        return question.seen[-1] + paths


def questions(count: int, samples: int) -> QuestionSet:
    rng = np.random.default_rng(0)
    starts = rng.uniform(-5.0, 5.0, (count, 1, 2))
    steps = 0.3 * rng.standard_normal((count, TICKS, 2))
    truth = np.concatenate([starts, starts + np.cumsum(steps, axis=1)], axis=1)
    asked = tuple(Question(starts[n], 9.0, TICKS, samples, seed=n) for n in range(count))
    return QuestionSet(asked, truth, np.full(count, TICKS + 1), tuple(f"w{n}" for n in range(count)))


def test_energy_score_is_least_for_the_true_distribution() -> None:
    rng = np.random.default_rng(0)
    happened = rng.normal(size=(400, 3, 2))

    def mean_score(offset: float, scale: float) -> float:
        return float(np.mean([energy_score(offset + scale * rng.normal(size=(50, 3, 2)), y) for y in happened]))

    true = mean_score(0.0, 1.0)
    assert true < min(mean_score(0.5, 1.0), mean_score(0.0, 0.6), mean_score(0.0, 1.6)) - 0.01


def test_energy_score_of_a_gaussian() -> None:
    """At the middle of a round Gaussian of spread s it is s sqrt(pi) (sqrt(2) - 1)."""
    paths = 0.5 * np.random.default_rng(1).standard_normal((20000, 1, 2))
    found = energy_score(paths, np.zeros((1, 2)))
    assert found == pytest.approx(0.5 * np.sqrt(np.pi) * (np.sqrt(2.0) - 1.0), abs=0.01)
    longer = np.repeat(paths, 5, axis=1)  # root mean square over time: the same for people who stand
    assert energy_score(longer, np.zeros((5, 2))) == pytest.approx(found)
    assert energy_score(paths[:1], paths[0] + [3.0, 4.0]) == pytest.approx(10.0)


def test_log_score_of_a_gaussian() -> None:
    paths = 0.5 * np.random.default_rng(1).standard_normal((50000, 1, 2))
    density = 0.99 / (2.0 * np.pi * (0.5**2 + KERNEL_M**2)) + 1e-6
    assert kernel_log_score(paths, np.zeros((1, 2)))[0] == pytest.approx(-np.log(density), abs=0.02)
    assert kernel_log_score(paths, np.full((1, 2), 1000.0))[0] == pytest.approx(-np.log(1e-6))


def test_the_density_behind_the_log_score_integrates_to_one() -> None:
    samples = np.random.default_rng(0).normal(0.0, 0.3, (50, 1, 2))
    side = np.linspace(-2.5, 2.5, 101)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 1, 2)
    density = sum(float(np.exp(-kernel_log_score(samples, at)[0])) for at in grid)
    assert density * (side[1] - side[0]) ** 2 == pytest.approx(0.99, abs=0.01)


def test_a_perfect_forecaster_covers_what_it_says() -> None:
    found = score(RandomWalk(), questions(400, 400))
    for level in (50, 90):
        p = level / 100.0
        error = 3.0 * np.sqrt(p * (1.0 - p) / 400)
        assert getattr(found, f"inside_{level}").mean() == pytest.approx(p, abs=error)
        assert getattr(found, f"joint_{level}").mean() == pytest.approx(p, abs=error)


def test_scores_are_best_for_the_true_distribution() -> None:
    asked = questions(300, 400)
    right, narrow, wide = (score(RandomWalk(size), asked) for size in (1.0, 0.4, 2.5))
    for other in (narrow, wide):
        assert right.energy_m.mean() < other.energy_m.mean() - 0.01
        assert right.log_path.mean() < other.log_path.mean() - 0.1
        assert right.log_end.mean() < other.log_end.mean() - 0.1
    assert narrow.inside_90.mean() < 0.7
    assert wide.inside_50.mean() > 0.7
    assert narrow.joint_90.mean() < 0.6


def test_levels_rank_the_truth() -> None:
    paths = np.random.default_rng(0).standard_normal((600, 4, 2))
    middle, joint = region_levels(paths, np.zeros((4, 2)))
    assert middle.max() < 0.1
    assert joint < 0.05
    far, joint = region_levels(paths, np.array([[0.0, 0.0], [9.0, 9.0], [0.0, 0.0], [0.0, 0.0]]))
    assert far[1] > 0.99
    assert joint > 0.99
    with pytest.raises(DataError, match="two paths"):
        region_levels(paths[:1], np.zeros((4, 2)))


def test_a_walk_that_ended_counts_until_then() -> None:
    asked = questions(1, 50)
    short = QuestionSet(asked.questions, asked.truth, np.array([3]), asked.people)
    moved = asked.truth.copy()
    moved[:, 4:5] += 50.0
    elsewhere = QuestionSet(asked.questions, moved, np.array([3]), asked.people)
    assert score(RandomWalk(), short).log_path[0] == score(RandomWalk(), elsewhere).log_path[0]


def test_ends_are_assigned_by_one_rule() -> None:
    places = Places((Place("a", 0.0, 0.0, 1.0, "#000000"), Place("b", 10.0, 0.0, 1.0, "#000000")))
    ends = np.array([[0.0, 1.4], [0.0, 1.6], [10.0, 0.0], [10.0, 1.0]])
    np.testing.assert_allclose(place_shares(ends, places), [0.25, 0.5, 0.25])
    none = np.zeros(2)
    scores = QuestionScores("x", ("p", "q"), *[none] * 9, ends_xy=np.stack([ends, ends]), true_ends_xy=np.zeros((2, 2)))
    np.testing.assert_allclose(destination_loss(scores, places, ["a", "b"]), -np.log([1.5 / 5.5, 2.5 / 5.5]))


def test_answers_of_a_wrong_shape_are_refused() -> None:
    class Short(RandomWalk):
        def sample(self, question: Question) -> np.ndarray:
            return super().sample(question)[:, 1:]

    with pytest.raises(DataError, match="finite paths"):
        score(Short(), questions(1, 5))
