"""How sure a pose is: matrices with known inverses, and when a step counts as a leap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.slam.matching.correlative import _subtracted
from svfm_ros.slam.matching.pose_covariance import (
    BREAK,
    covariance_of,
    information_with_floor,
    inverse_of,
    is_break,
    step_information,
    turned,
    worst_variances,
)
from svfm_ros.types import Constraint, Pose2

FLOOR = np.array([0.01, 0.02, 0.003])


def sure_by(along_m, across_m, turn_rad):
    return np.diag([1.0 / along_m**2, 1.0 / across_m**2, 1.0 / turn_rad**2])


def test_covariance_is_the_inverse_where_much_is_known():
    information = np.array([[4000.0, 300.0, 10.0], [300.0, 900.0, -20.0], [10.0, -20.0, 2500.0]])
    assert np.allclose(covariance_of(information) @ information, np.eye(3), atol=1e-3)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.floats(-3.0, 3.0), min_size=9, max_size=9), st.tuples(*[st.floats(-4.0, 3.0)] * 3))
def test_the_inverse_is_numpys(values, scales):
    """Also where some directions are a million times surer than others."""
    root = np.reshape(values, (3, 3)) + 4.0 * np.eye(3)
    matrix = np.diag(10.0 ** np.array(scales)) @ root @ root.T @ np.diag(10.0 ** np.array(scales))
    if np.linalg.cond(root) < 1e3:
        wanted = np.linalg.inv(matrix)
        size = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        assert np.abs((inverse_of(matrix) - wanted) / size).max() < 1e-6


@settings(deadline=None)
@given(st.floats(0.0, 2.0), st.floats(0.0, 2.0), st.floats(-1.0, 1.0), st.floats(0.0, 0.5))
def test_taking_off_a_variance_leaves_the_axes(xx, yy, share, off):
    moments = np.array([[xx, share * np.sqrt(xx * yy)], [share * np.sqrt(xx * yy), yy]])
    values, axes = np.linalg.eigh(moments)
    wanted = axes @ np.diag(np.maximum(values - off, 0.0)) @ axes.T
    assert np.allclose(_subtracted(moments, off), wanted, atol=1e-7)


def test_doubt_is_that_of_the_least_sure_direction():
    information = turned(sure_by(0.5, 0.02, 0.01), -0.7)
    assert np.allclose(np.sqrt(worst_variances(information)), [0.5, 0.01], rtol=1e-4)


def test_no_information_is_wide_and_finite():
    assert np.allclose(np.sqrt(np.diag(covariance_of(np.zeros((3, 3))))), [100.0, 100.0, 10.0])


def test_doubt_is_that_of_the_least_sure_direction_whatever_the_axes():
    corridor = sure_by(0.8, 0.02, 0.05)
    for theta in (0.0, 0.7, np.pi / 2):
        place_m2, turn_rad2 = worst_variances(turned(corridor, theta))
        assert np.sqrt(place_m2) == pytest.approx(0.8, rel=1e-3)
        assert np.sqrt(turn_rad2) == pytest.approx(0.05, rel=1e-3)


def test_variances_add_up_with_the_floor():
    spread = np.sqrt(np.diag(np.linalg.inv(information_with_floor(sure_by(0.03, 0.04, 0.004), FLOOR))))
    assert np.allclose(spread, [np.hypot(0.03, 0.01), np.hypot(0.04, 0.02), 0.005], rtol=1e-4)


def test_a_step_that_was_seen_keeps_its_information():
    seen = sure_by(0.02, 0.5, 0.01)
    assert np.allclose(step_information(seen, FLOOR), information_with_floor(seen, FLOOR))


@pytest.mark.parametrize("seen", [None, sure_by(0.01, 0.01, 0.4), sure_by(2.0, 0.01, 0.4)])
def test_a_step_that_might_have_gone_elsewhere_is_a_leap(seen):
    step = step_information(seen, FLOOR)
    assert np.array_equal(step, BREAK)
    assert is_break(Constraint(0, 1, Pose2(), step, "odometry"))
    assert not is_break(Constraint(0, 1, Pose2(), step, "loop"))


def test_a_step_along_a_corridor_ends_in_the_search_window():
    """Known to 3 m by the scans, but with a certain heading: a false loop must not move it by 10 m."""
    step = step_information(sure_by(3.0, 0.02, 0.01), FLOOR)
    assert not is_break(Constraint(0, 1, Pose2(), step, "odometry"))
    spread = np.sqrt(np.diag(np.linalg.inv(step)))
    assert 1.0 < spread[0] < 1.5
    assert np.allclose(spread[1:], [np.hypot(0.02, 0.02), np.hypot(0.01, 0.003)], rtol=0.01)


def test_a_step_that_was_seen_is_no_leap():
    assert not is_break(Constraint(0, 1, Pose2(), step_information(sure_by(0.1, 0.1, 0.1), FLOOR), "odometry"))


def test_turning_there_and_back_changes_nothing():
    matrix = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, -0.2], [0.5, -0.2, 1.0]])
    assert np.allclose(turned(turned(matrix, 0.9), -0.9), matrix)
    assert np.allclose(np.diag(turned(np.diag([1.0, 2.0, 3.0]), np.pi / 2)), [2.0, 1.0, 3.0])
