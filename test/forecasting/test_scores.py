"""Every score against a value worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.errors import DataError
from svfm_ros.forecasting import scores


def still(*points: tuple[float, float], times: int = 3) -> np.ndarray:
    return np.repeat(np.asarray(points, dtype=float)[:, None, :], times, axis=1)


def test_distance_between_standing_paths_is_the_distance_between_their_places():
    d = scores.path_distances(still((0, 0), (1e4, 0)), still((3, 4)))
    np.testing.assert_allclose(d, [[5.0], [math.hypot(1e4 - 3, 4)]], rtol=1e-12)


def test_energy_distance_of_two_point_masses_is_twice_their_distance():
    assert scores.energy_distance(still((0, 0), (0, 0)), still((3, 4), (3, 4))) == pytest.approx(10.0)


def test_the_distance_of_a_path_to_itself_does_not_count():
    x, y = still((0, 0), (2, 0)), still((0, 0), (2, 0))
    assert scores.energy_distance(x, y) == pytest.approx(2.0 * 1.0 - 2.0 - 2.0)


def test_energy_distance_is_unbiased_when_both_sides_share_a_distribution():
    rng = np.random.default_rng(0)
    values = [scores.energy_distance(rng.normal(size=(20, 4, 2)), rng.normal(size=(30, 4, 2))) for _ in range(200)]
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(len(values))


def test_shares_variation_and_entropy():
    shares = scores.shares_of(["hall", "kitchen", "hall", "hall"])
    assert shares == {"hall": 0.75, "kitchen": 0.25}
    assert scores.total_variation(shares, {"kitchen": 0.5, "landing": 0.5}) == pytest.approx(0.75)
    assert scores.entropy({"a": 0.5, "b": 0.5, "c": 0.0}) == pytest.approx(math.log(2))
    assert scores.entropy({"a": 1.0}) == 0.0


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6))
def test_variation_is_a_distance_between_zero_and_one(weights: list[float]):
    p = {str(i): w / sum(weights) for i, w in enumerate(weights)}
    q = {str(i): w / sum(weights) for i, w in enumerate(reversed(weights))}
    tv = scores.total_variation(p, q)
    assert 0.0 <= tv <= 1.0
    assert tv == pytest.approx(scores.total_variation(q, p))
    assert scores.total_variation(p, p) == 0.0


def test_min_displacement_takes_the_best_of_each():
    samples = np.array([[[0, 0], [0, 5]], [[0, 3], [0, 4]]], dtype=float)
    best = scores.min_displacement(samples, np.array([[0, 0], [0, 0]]))
    assert best.min_ade_m == pytest.approx(2.5)
    assert best.min_fde_m == pytest.approx(4.0)


def test_levels_are_uniform_when_the_truth_is_one_more_draw():
    rng = np.random.default_rng(1)
    levels = np.concatenate([scores.region_levels(p[1:], p[0]) for p in rng.normal(size=(300, 101, 1, 2)) * [0.5, 2.0]])
    assert scores.coverage(levels, 0.5) == pytest.approx(0.5, abs=0.09)
    assert scores.coverage(levels, 0.9) == pytest.approx(0.9, abs=0.06)


def test_levels_tell_the_middle_from_the_outside():
    rng = np.random.default_rng(2)
    samples = rng.normal(size=(400, 1, 2))
    assert scores.region_levels(samples, np.zeros((1, 2)))[0] < 0.2
    assert scores.region_levels(samples, np.full((1, 2), 9.0))[0] == 1.0


def test_destination_log_loss_by_hand():
    shares = [{"hall": 0.5, "kitchen": 0.5}, {"hall": 1.0}]
    expected = -(math.log(0.5) + math.log(0.001)) / 2
    assert scores.destination_log_loss(shares, ["hall", "kitchen"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda: scores.energy_distance(np.zeros((0, 3, 2)), np.zeros((2, 3, 2))),
        lambda: scores.energy_distance(np.full((2, 3, 2), np.nan), np.zeros((2, 3, 2))),
        lambda: scores.energy_distance(np.zeros((1, 3, 2)), np.zeros((2, 3, 2))),
        lambda: scores.path_distances(np.zeros((2, 3, 2)), np.zeros((2, 4, 2))),
        lambda: scores.min_displacement(np.zeros((2, 3, 2)), np.zeros((2, 2))),
        lambda: scores.shares_of([]),
        lambda: scores.destination_log_loss([], []),
        lambda: scores.coverage([0.5], 1.0),
    ],
)
def test_bad_input_is_refused_with_what_was_expected(call):
    with pytest.raises(DataError, match="expected"):
        call()
