"""Trajectories as TUM files."""

from pathlib import Path

import numpy as np
import pytest
from tum import read_tum

from svfm_ros import geometry
from svfm_ros.slam.trajectory import poses_at, save_tum, twists


def test_a_trajectory_comes_back_with_all_its_nanoseconds(tmp_path: Path) -> None:
    stamps = np.array([5, 1_282_836_370_970_876_375, 1_282_836_370_970_876_376])
    poses = np.array([[1.5, -2.25, 0.0], [100.125, 0.5, 3.1], [-0.1, 0.2, -3.1]])
    save_tum(tmp_path / "a.tum", stamps, poses)
    back_stamps, back_poses = read_tum(tmp_path / "a.tum")
    np.testing.assert_array_equal(back_stamps, stamps)
    np.testing.assert_allclose(back_poses, poses, atol=1e-6)


def test_a_line_is_as_the_benchmark_wants_it(tmp_path: Path) -> None:
    save_tum(tmp_path / "a.tum", [1_500_000_000], [[1.0, 2.0, np.pi / 2]])
    fields = (tmp_path / "a.tum").read_text().splitlines()[-1].split()
    np.testing.assert_allclose([float(f) for f in fields], [1.5, 1, 2, 0, 0, 0, 0.5**0.5, 0.5**0.5], atol=1e-8)


def test_no_poses_are_a_trajectory_too(tmp_path: Path) -> None:
    save_tum(tmp_path / "a.tum", [], np.empty((0, 3)))
    stamps, poses = read_tum(tmp_path / "a.tum")
    assert (len(stamps), poses.shape) == (0, (0, 3))


def test_poses_between_stamps_lie_on_the_way() -> None:
    stamps = np.array([0, 10, 20])
    poses = np.array([[0.0, 0.0, 3.0], [2.0, 0.0, -3.0], [2.0, 4.0, -3.0]])
    at = poses_at([-5, 0, 15, 20, 99], stamps, poses)
    np.testing.assert_allclose(at[[0, 1, 3, 4]], poses[[0, 0, 2, 2]], atol=1e-12)
    np.testing.assert_allclose(at[2], [2.0, 2.0, -3.0], atol=1e-12)
    middle = poses_at([5], stamps, poses)[0]
    assert abs(middle[2]) == pytest.approx(np.pi), "the short way round"


def test_velocities_are_those_of_the_way_to_the_next_pose() -> None:
    twist = np.array([1.0, -0.5, 0.8])
    stamps = np.array([0, 100, 300, 5000]) * 1_000_000
    poses = geometry.exp((stamps / 1e9)[:, None] * twist)
    np.testing.assert_allclose(twists(stamps, poses), [twist, twist, np.zeros(3), np.zeros(3)], atol=1e-9)
    assert twists(stamps[:1], poses[:1]).shape == (1, 3)
