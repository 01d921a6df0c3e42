"""ICP against walls whose position is known."""

import numpy as np
import pytest

from svfm_ros.types import Pose2
from svfm_ros.walks.align_icp import refine_pose
from svfm_ros.walks.reference_map import ReferenceMap

ALONG = np.arange(0.0, 1.0, 0.01)[:, None]


def room(width_m: float = 5.0, height_m: float = 3.0) -> np.ndarray:
    """Points ``(N, 2)`` of the walls of a room, a centimetre or more apart."""
    corners = np.array([[0.0, 0.0], [width_m, 0.0], [width_m, height_m], [0.0, height_m]])
    return np.concatenate([a + ALONG * (b - a) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)])


def map_of(points: np.ndarray) -> ReferenceMap:
    return ReferenceMap(points, np.zeros((1, 1), dtype=np.uint8), 0.05, np.zeros(2))


@pytest.mark.parametrize("guess", [Pose2(), Pose2(0.15, -0.1, 0.03), Pose2(-0.12, 0.12, -0.04)])
@pytest.mark.parametrize("origin", [Pose2(), Pose2(30.0, -20.0, 2.0)])
def test_the_pose_of_a_room_is_found_from_near_it(guess: Pose2, origin: Pose2) -> None:
    points = origin.inverse().apply(room())  # as seen in a frame whose origin may be far away
    match = refine_pose(points, map_of(room()), guess @ origin)
    np.testing.assert_allclose(match.T_target_source.apply(points), room(), atol=2e-3)
    assert match.converged
    assert match.inlier_ratio == 1.0
    assert match.rmse_m < 2e-3


def test_a_passer_by_does_not_pull_the_pose() -> None:
    beside = np.column_stack([np.linspace(1.0, 3.0, 60), np.full(60, 0.15)])  # 0.15 m before the lower wall
    match = refine_pose(np.concatenate([room(), beside]), map_of(room()), Pose2(0.03, 0.02, 0.01))
    np.testing.assert_allclose(match.T_target_source.as_array(), 0.0, atol=2e-3)


def test_along_a_single_wall_the_information_is_zero() -> None:
    wall = np.column_stack([np.linspace(0.0, 4.0, 400), np.zeros(400)])
    match = refine_pose(wall[100:300], map_of(wall), Pose2(0.0, 0.05, 0.0))
    assert match.T_target_source.y == pytest.approx(0.0, abs=1e-3)
    assert match.information[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert match.information[1, 1] == pytest.approx(200 / 0.02**2)  # one per point, with a standard deviation of 2 cm


def test_points_far_from_all_walls_have_no_pose() -> None:
    match = refine_pose(room() + 50.0, map_of(room()), Pose2())
    assert not match.converged
    assert match.inlier_ratio == 0.0
