import dataclasses

import numpy as np
import pytest

from svfm_ros.types import OccupancyGrid, Pose2, Scan, Walk


def test_pose_composition_reads_left_to_right() -> None:
    T_map_base = Pose2(1, 2, np.pi / 2)
    T_base_laser = Pose2(0.1, 0, 0)
    composed = T_map_base @ T_base_laser
    assert composed.x == pytest.approx(1)
    assert composed.y == pytest.approx(2.1)
    assert (T_map_base @ T_map_base.inverse()).as_array() == pytest.approx(np.zeros(3))


def test_beam_angles_start_at_angle_min() -> None:
    scan = Scan(0, np.ones(4, np.float32), -1.0, 0.5, 0.1, 10.0)
    np.testing.assert_allclose(scan.angles(), [-1.0, -0.5, 0.0, 0.5])


def test_nouns_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pose2().x = 1.0  # type: ignore[misc]


def test_positions_between_those_recorded_are_interpolated() -> None:
    poses = np.array([[0.0, 0.0, 0.0], [2.0, 4.0, 1.0], [2.0, 5.0, 2.0]])
    walk = Walk("w", "anna", np.array([5, 7, 8]) * 10**9, poses)
    assert walk.xy_at(np.array([0.5, 2.0, 2.25])).tolist() == [[0.5, 1.0], [2.0, 4.0], [2.0, 4.25]]


def test_a_placed_walk_moves_poses_and_points_together() -> None:
    stamps = np.array([5_000_000_000, 6_500_000_000])
    walk = Walk("w", "ann", stamps, np.array([[0.0, 0, 0], [1, 0, 0]]), np.array([[2.0, 0]]))
    placed = walk.in_house(Pose2(10, 0, np.pi / 2))
    np.testing.assert_allclose(placed.xy, [[10, 0], [10, 1]], atol=1e-12)
    np.testing.assert_allclose(placed.points, [[10, 2]], atol=1e-12)
    np.testing.assert_allclose(placed.times_s, [0.0, 1.5])
    assert placed.resident == "ann"
    np.testing.assert_allclose(walk.xy, [[0, 0], [1, 0]])


def test_a_placed_walk_turns_its_covariance_too() -> None:
    stamps, poses = np.array([0, 1]), np.zeros((2, 3))
    covariance = np.array([np.diag([4.0, 1.0, 0.1]), [[4.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 0.1]]])
    placed = Walk("w", "ann", stamps, poses, covariance=covariance).in_house(Pose2(10, 0, np.pi / 2))
    assert placed.covariance is not None
    np.testing.assert_allclose(placed.covariance[0], np.diag([1.0, 4.0, 0.1]), atol=1e-12)
    np.testing.assert_allclose(placed.covariance[1], [[1, -0.5, -0.3], [-0.5, 4, 0.2], [-0.3, 0.2, 0.1]], atol=1e-12)
    assert Walk("w", "ann", stamps, poses).in_house(Pose2(1, 2, 3)).covariance is None


def test_centres_of_cells_turn_with_the_grid() -> None:
    grid = OccupancyGrid(np.zeros((2, 3), np.float32), 0.5, Pose2(1.0, 2.0, np.pi / 2))
    chosen = np.zeros((2, 3), dtype=bool)
    chosen[1, 2] = True  # the middle of that cell is 1.25 m along and 0.75 m up in the grid's own axes
    np.testing.assert_allclose(grid.centres_of(chosen), [[1.0 - 0.75, 2.0 + 1.25]])
    assert grid.centres_of(np.zeros((2, 3), dtype=bool)).shape == (0, 2)
