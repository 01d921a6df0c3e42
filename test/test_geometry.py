import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros import geometry
from svfm_ros.types import Pose2

numbers = st.floats(-50, 50)
poses = st.tuples(numbers, numbers, st.floats(-20, 20)).map(np.array)
points = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5).map(np.array)


def same_pose(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-9) -> bool:
    turn = geometry.wrap_angle(np.asarray(a)[..., 2] - np.asarray(b)[..., 2])
    return bool(np.allclose(a[..., :2], b[..., :2], atol=tolerance) and np.allclose(turn, 0, atol=tolerance))


def test_a_quarter_turn_then_a_step_forward_goes_left() -> None:
    np.testing.assert_allclose(geometry.compose([1, 2, np.pi / 2], [3, 0, 0]), [1, 5, np.pi / 2])


def test_a_point_ahead_of_a_turned_pose() -> None:
    np.testing.assert_allclose(geometry.apply([1, 2, np.pi / 2], [[3, 1]]), [[0, 5]], atol=1e-12)


def test_half_a_circle_by_its_twist() -> None:
    """Forward at pi metres and pi radians per unit: half a circle of radius one, ending two metres to the left."""
    end = geometry.exp([np.pi, 0, np.pi])
    np.testing.assert_allclose(end[:2], [0, 2], atol=1e-12)
    assert abs(end[2]) == np.pi


@given(poses)
def test_inverse_undoes(pose: np.ndarray) -> None:
    assert same_pose(geometry.compose(pose, geometry.inverse(pose)), np.zeros(3))
    assert same_pose(geometry.compose(geometry.inverse(pose), pose), np.zeros(3))


@given(poses, poses, poses)
def test_composition_is_associative(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    assert same_pose(geometry.compose(geometry.compose(a, b), c), geometry.compose(a, geometry.compose(b, c)), 1e-8)


@given(poses, poses, points)
def test_apply_agrees_with_compose(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> None:
    np.testing.assert_allclose(
        geometry.apply(geometry.compose(a, b), p), geometry.apply(a, geometry.apply(b, p)), atol=1e-8
    )


@given(st.tuples(numbers, numbers, st.floats(-3.1, 3.1)).map(np.array))
def test_log_undoes_exp(twist: np.ndarray) -> None:
    np.testing.assert_allclose(geometry.log(geometry.exp(twist)), twist, atol=1e-7)


@given(st.floats(-1e-3, 1e-3))
def test_exp_has_no_seam_near_zero_turn(omega: float) -> None:
    exact = [1 - omega**2 / 6, omega / 2 - omega**3 / 24]
    np.testing.assert_allclose(geometry.exp([1, 0, omega])[:2], exact, atol=1e-12)


@given(poses, poses)
def test_relative_leads_from_one_to_the_other(a: np.ndarray, b: np.ndarray) -> None:
    assert same_pose(geometry.compose(a, geometry.relative(a, b)), np.append(b[:2], geometry.wrap_angle(b[2])), 1e-8)


def test_stacks_of_poses_broadcast() -> None:
    stack = np.random.default_rng(0).normal(size=(4, 3))
    one = np.array([1.0, 2.0, 0.3])
    expected = np.stack([geometry.compose(one, p) for p in stack])
    np.testing.assert_allclose(geometry.compose(one, stack), expected)
    assert geometry.apply(stack, np.zeros((5, 2))).shape == (4, 5, 2)


@given(st.floats(-1e4, 1e4))
def test_wrapped_angles_are_in_range_and_the_same_direction(theta: float) -> None:
    wrapped = float(geometry.wrap_angle(theta))
    assert -np.pi <= wrapped <= np.pi
    np.testing.assert_allclose([np.cos(wrapped), np.sin(wrapped)], [np.cos(theta), np.sin(theta)], atol=1e-9)


@given(poses)
def test_one_pose_in_plain_numbers_is_the_same_as_in_arrays(twist: np.ndarray) -> None:
    for scale in (1.0, 1e-6):  # the second is in the reach of the series
        pose = Pose2.from_twist(*(scale * twist).tolist())
        assert same_pose(pose.as_array(), geometry.exp(scale * twist))
        np.testing.assert_allclose(pose.twist(), geometry.log(pose.as_array()), rtol=1e-9, atol=1e-9)
