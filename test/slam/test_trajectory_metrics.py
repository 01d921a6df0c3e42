"""Errors of trajectories, on trajectories whose error is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros import geometry
from svfm_ros.slam.trajectory_metrics import absolute_error


def stroll(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    poses = np.zeros((count, 3))
    for k in range(1, count):
        poses[k] = geometry.compose(poses[k - 1], [0.1, 0.0, rng.normal() * 0.2])
    return poses


coordinate = st.floats(-20, 20)


@given(coordinate, coordinate, st.floats(-3.1, 3.1), st.integers(2, 30), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_where_the_map_lies_does_not_matter(x: float, y: float, theta: float, count: int, seed: int) -> None:
    truth = stroll(count, seed)
    error = absolute_error(geometry.compose(np.array([x, y, theta]), truth), truth)
    assert error.rmse_m < 1e-6
    assert error.worst_deg < 1e-4


def test_absolute_error_of_noise_is_the_noise() -> None:
    rng = np.random.default_rng(2)
    truth = stroll(4000, 3)
    noise = rng.normal(size=truth.shape) * [0.03, 0.04, np.radians(1.5)]
    error = absolute_error(truth + noise, truth)
    assert error.rmse_m == pytest.approx(0.05, rel=0.05)
    assert error.rmse_deg == pytest.approx(1.5, rel=0.05)


def test_headings_align_someone_who_stands_still() -> None:
    truth = np.tile([1.0, 2.0, 0.5], (10, 1))
    error = absolute_error(np.tile([5.0, 6.0, -1.0], (10, 1)), truth)
    assert (error.rmse_m, error.rmse_deg) == pytest.approx((0.0, 0.0), abs=1e-9)
