"""From a sweep to a cloud."""

from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, ranges_at, scan_at
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.preprocess import cloud_from_scan, filled, undistorted
from svfm_ros.types import Scan

CONFIG = SlamConfig()
STILL = np.zeros(3)
HERE = np.array([2.0, 3.0, 0.4])


def from_walls(points: np.ndarray) -> np.ndarray:
    """Distance of points in the flat's frame from the nearest wall."""
    a, edge = FLAT[:, :2], FLAT[:, 2:] - FLAT[:, :2]
    t = np.clip(np.einsum("nwi,wi->nw", points[:, None] - a, edge) / (edge**2).sum(axis=1), 0, 1)
    return np.hypot(*np.moveaxis(points[:, None] - a - t[..., None] * edge, -1, 0)).min(axis=1)


def in_flat(points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    c, s = np.cos(pose[2]), np.sin(pose[2])
    return points @ np.array([[c, s], [-s, c]]) + pose[:2]


def test_what_is_no_echo_is_left_out() -> None:
    ranges = np.array([1.0, np.nan, np.inf, -np.inf, 0.0, 0.05, 31.0, 25.0, -2.0, 2.0], dtype=np.float32)
    cloud = cloud_from_scan(Scan(1, ranges, 0.0, 0.5, 0.1, 40.0), STILL, CONFIG)
    assert np.hypot(*cloud.points.T) == pytest.approx([1.0, 25.0, 2.0])
    # A sensor that says 12 where it saw nothing did not see a wall at 12.
    cloud = cloud_from_scan(Scan(1, np.full(100, 12.0, dtype=np.float32), 0.0, 0.01, 0.1, 12.0), STILL, CONFIG)
    assert len(cloud) == 0


def test_points_lie_on_walls_and_normals_face_the_sensor() -> None:
    cloud = cloud_from_scan(scan_at(FLAT, HERE, 1), STILL, CONFIG)
    assert len(cloud) > 100
    off_m = from_walls(in_flat(cloud.points, HERE))
    assert np.quantile(off_m, 0.95) < 1e-6
    assert off_m.max() < 0.03  # where the mean is taken round a corner
    length = np.hypot(*cloud.normals.T)
    lines = length > 0.9
    assert lines.mean() > 0.7
    assert (np.einsum("ni,ni->n", cloud.normals, cloud.points)[lines] < 0).all()
    # All walls run along x or y; so do nearly all normals, in the flat's frame.
    c, s = np.cos(HERE[2]), np.sin(HERE[2])
    turned = cloud.normals[lines] @ np.array([[c, s], [-s, c]])
    assert np.mean(np.abs(turned).max(axis=1) > 0.99) > 0.95


def test_thinning_keeps_far_and_sparse_structure() -> None:
    config = SlamConfig(thinning_m=0.2)
    near = np.full(300, 1.0)  # beams 0.01 m apart
    far = np.full(10, 28.0)  # 0.28 m apart
    cloud = cloud_from_scan(Scan(1, np.r_[near, far].astype(np.float32), 0.0, 0.01, 0.1, 40.0), STILL, config)
    distance = np.hypot(*cloud.points.T)
    assert (distance > 20).sum() == 10
    assert 10 <= (distance < 2).sum() <= 20


@settings(max_examples=20, deadline=None)
@given(most=st.integers(20, 400), beams=st.integers(90, 1500))
def test_no_more_points_than_allowed(most: int, beams: int) -> None:
    scan = scan_at(FLAT, HERE, 1, beams=beams)
    assert 10 < len(cloud_from_scan(scan, STILL, replace(CONFIG, max_points=most))) <= most


@pytest.mark.parametrize("twist", [[0.0, 0.0, 2.0], [1.2, 0.0, 0.0], [0.8, -0.2, -1.5]])
def test_undistortion_undoes_the_motion_during_the_sweep(twist: list[float]) -> None:
    scan = scan_at(FLAT, HERE, 1, twist=np.array(twist), sweep_s=0.125, beams=720)
    bent = cloud_from_scan(scan, STILL, CONFIG)
    straight = cloud_from_scan(scan, np.array(twist), CONFIG)
    assert from_walls(in_flat(bent.points, HERE)).max() > 0.05
    assert np.quantile(from_walls(in_flat(straight.points, HERE)), 0.98) < 0.01


def test_a_better_motion_found_later_undoes_the_rest() -> None:
    twist = np.array([0.5, 0.1, 1.0])
    scan = scan_at(FLAT, HERE, 1, twist=twist, sweep_s=0.1)
    config = SlamConfig(thinning_m=0.001, max_points=5000)  # so that both keep the same points
    wanted = cloud_from_scan(scan, twist, config)
    got = undistorted(cloud_from_scan(scan, STILL, config), STILL, twist)
    assert got.points == pytest.approx(wanted.points, abs=1e-6)
    # From one wrong motion to another: what was seen is turned back by the first before the second turns it on.
    other = np.array([0.2, -0.1, -2.0])
    bent = undistorted(got, twist, other)
    turn = (other[2] - twist[2]) * got.times_s
    c, s = np.cos(turn), np.sin(turn)
    nx, ny = got.normals.T
    assert bent.normals == pytest.approx(np.stack([c * nx - s * ny, s * nx + c * ny], axis=1), abs=1e-9)
    assert undistorted(bent, other, twist).points == pytest.approx(got.points, abs=1e-9)


def test_gaps_on_one_wall_are_filled_and_others_are_not() -> None:
    angles = np.linspace(-np.pi, np.pi, 90, endpoint=False)
    ranges = ranges_at(FLAT, np.tile(HERE, (90, 1)), angles)
    cloud = cloud_from_scan(Scan(1, ranges.astype(np.float32), -np.pi, 2 * np.pi / 90, 0.1, 20.0), STILL, CONFIG)
    more = filled(cloud)
    assert len(more) > 1.3 * len(cloud)
    assert from_walls(in_flat(more.points, HERE)).max() < 0.03
