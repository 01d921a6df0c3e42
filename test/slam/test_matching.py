"""Laying a scan onto a map: the answer is known, and so is how sure one may be of it."""

import numpy as np
import pytest
from flats import CORRIDOR, FLAT, scan_at, scans_along, walk

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import Keyframes
from svfm_ros.slam.matching.correlative import Window, search, search_blocks, search_sectors, thinned
from svfm_ros.slam.matching.local_map import LocalMap, build_local_map
from svfm_ros.slam.matching.pose_covariance import covariance_of
from svfm_ros.slam.matching.scan_matcher import Guess, fused, match_scan, with_ambiguity
from svfm_ros.slam.preprocess import Cloud, cloud_from_scan
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.types import MatchResult, Pose2

CONFIG = SlamConfig()


def cloud_at(walls: np.ndarray, pose: np.ndarray, stamp_ns: int = 1) -> Cloud:
    return cloud_from_scan(scan_at(walls, pose, stamp_ns, noise_m=0.005), np.zeros(3), CONFIG)


def map_of(walls: np.ndarray, poses: np.ndarray) -> LocalMap:
    """Of keyframes at their true poses, in the frame of the walls."""
    keyframes = Keyframes(CONFIG.keyframe_distance_m)
    for k, pose in enumerate(poses):
        keyframes.add(k, cloud_at(walls, pose, k + 1), pose, before=k - 1 if k else None)
    ids = np.arange(len(poses))
    return build_local_map(keyframes.pool, keyframes.poses, ids, poses[0], 25.0, ids)


@pytest.fixture(scope="module")
def flat() -> LocalMap:
    return map_of(FLAT, np.array([[1.6, 1.4, 0.0], [1.8, 1.7, 0.3], [2.2, 2.2, 0.6], [2.6, 2.8, 0.8]]))


def around(pose: np.ndarray, reach_m: float, turn_rad: float) -> Guess:
    return Guess(Pose2.from_array(pose), reach_m, turn_rad, reach_m, turn_rad)


@pytest.mark.parametrize("off", [[0.0, 0.0, 0.0], [0.25, -0.2, 0.1], [0.0, 0.0, 0.52], [-0.2, 0.15, -0.6]])
def test_a_scan_is_laid_where_it_was_taken(flat: LocalMap, off: list[float]) -> None:
    """Also after a turn of 30 degrees from one scan to the next: 2 rad/s at four scans a second."""
    truth = np.array([2.0, 1.9, 0.5])
    guess = around(truth + off, 0.4, 0.7)
    match = match_scan(cloud_at(FLAT, truth), flat, guess)
    gap = Pose2.from_array(truth).inverse() @ match.T_target_source
    assert np.hypot(gap.x, gap.y) < 0.01
    assert abs(np.degrees(gap.theta)) < 0.2
    assert match.inlier_ratio > 0.9
    assert match.converged


def test_a_scan_of_elsewhere_does_not_fit(flat: LocalMap) -> None:
    match = match_scan(cloud_at(FLAT, np.array([6.0, 2.2, 0.0])), flat, around(np.array([2.0, 1.9, 0.5]), 0.4, 0.5))
    assert match.inlier_ratio < 0.5


def spread(match_information: np.ndarray) -> tuple[float, float]:
    values = np.linalg.eigvalsh(covariance_of(match_information)[:2, :2])
    return float(np.sqrt(values[0])), float(np.sqrt(values[1]))


def test_in_a_corridor_the_covariance_is_long_along_it(flat: LocalMap) -> None:
    way = 0.5  # of the corridor, in the map
    walls = np.concatenate([geometry.apply([3.0, 1.0, way], CORRIDOR[:, i : i + 2]) for i in (0, 2)], axis=1)
    poses = geometry.compose([3.0, 1.0, way], np.array([[0.3 * k, 0.1, 0.0] for k in range(6)]))
    target, cloud = map_of(walls, poses), cloud_at(walls, poses[3], 99)
    guess = around(poses[3], 0.4, 0.3)
    match = with_ambiguity(match_scan(cloud, target, guess), cloud, target, guess)
    values, axes = np.linalg.eigh(covariance_of(match.information)[:2, :2])
    assert np.sqrt(values[0]) < 0.02
    assert np.sqrt(values[1]) > 0.1
    assert abs(axes[:, 1] @ [np.cos(way), np.sin(way)]) > 0.999
    # In a room both directions are known.
    truth = np.array([2.0, 1.9, 0.5])
    cloud = cloud_at(FLAT, truth)
    room = with_ambiguity(match_scan(cloud, flat, around(truth, 0.4, 0.3)), cloud, flat, around(truth, 0.4, 0.3))
    assert spread(room.information)[1] < 0.02


def test_walls_across_are_not_crossed_in_the_corridors_direction() -> None:
    """The pose along a corridor goes on by the last velocity: nothing speaks against it."""
    poses = np.array([[0.1 * k, 0.0, 0.0] for k in range(40)])
    slam = Slam()
    updates = [slam.add_scan(s) for s in scans_along(CORRIDOR, poses)]
    assert all(u.match is not None for u in updates[1:])
    x_m, y_m = np.sqrt(np.diag(updates[-1].covariance))[:2]
    assert x_m > 3 * y_m
    assert abs(updates[-1].T_map_base.y) < 0.02


def test_a_fast_turn_is_followed() -> None:
    """Two turns on the spot at 2 rad/s, eight sweeps a second that each take their time, standing before that."""
    rate_hz, still = 8.0, 5
    turns = np.array([[1.6, 1.4, 2.0 / rate_hz * max(0, k - still)] for k in range(55)])
    after = walk((1.6, 1.4), (2.8, 3.2))
    after[:, 2] += turns[-1, 2] - after[0, 2]
    slam = Slam()
    walking = geometry.relative(after[:-1], after[1:]) * rate_hz
    twists = np.concatenate(
        [np.array([[0.0, 0.0, 2.0 if k >= still else 0.0] for k in range(55)]), walking, np.zeros((1, 3))]
    )
    for k, (pose, twist) in enumerate(zip(np.concatenate([turns, after]), twists, strict=True)):
        slam.add_scan(scan_at(FLAT, pose, 10**9 + k * 125_000_000, twist=twist, sweep_s=0.125, noise_m=0.01))
    slam.finish()
    assert len(slam.trajectory()) == len(turns) + len(after)
    error = absolute_error(slam.trajectory().poses, np.concatenate([turns, after]))
    assert error.worst_m < 0.05
    assert error.rmse_deg < 0.7  # the first sweep of the turn is bent, and nobody knew


def test_a_search_by_blocks_finds_what_searches_of_each_part_find(flat: LocalMap) -> None:
    """The best poses of all sectors and blocks, against searching every sector by itself."""
    cloud = cloud_at(FLAT, np.array([2.0, 1.5, 0.4]))
    points, window = thinned(cloud.points, 60), Window(Pose2(2.2, 1.4, 0.3), 1.0, 1.2)
    best = search(flat.pyramid, points, window)
    assert best is not None
    sectors = search_sectors(flat.pyramid, points, window, 4)
    blocks = search_blocks(flat.pyramid, points, window, 4, 0.0, np.inf, 6)
    assert sectors[0] == blocks[0] == best
    assert [b.score for b in blocks] == sorted((b.score for b in blocks), reverse=True)
    assert len(blocks) == 6
    every = search_blocks(flat.pyramid, points, window, 4, 0.0, np.inf, 10**6)
    assert [b.score for b in blocks] == pytest.approx([b.score for b in every[:6]])
    assert {s.score for s in sectors} <= {b.score for b in every}
    near = search_sectors(flat.pyramid, points, window, 4, margin=0.1)
    assert near == [s for s in sectors if s.score > best.score - 0.1]


def test_a_match_is_drawn_to_the_predicted_position_along_the_direction_that_it_does_not_tell() -> None:
    along_x = np.diag([1.0, 1e6, 1e6])  # standard deviations of 1 m along x, 1 mm across
    match = MatchResult(Pose2(2.0, 3.0, 0.1), True, 5, 0.9, 0.01, along_x)
    found = fused(match, Pose2(1.0, 2.0, 0.5), 0.1).T_target_source
    assert found.x == pytest.approx(2.0 - 1.0 / (1.0 + 0.1**2))
    assert found.y == pytest.approx(3.0, abs=1e-3)
    assert found.theta == 0.1


@pytest.mark.parametrize(("inliers", "off_m", "x"), [(0.4, 0.6, 0.0), (0.9, 0.6, 0.3), (0.4, 0.4, 0.2)])
def test_a_match_of_few_points_that_contradicts_the_prediction_is_left_out(
    inliers: float, off_m: float, x: float
) -> None:
    """Both have a standard deviation of 0.1 m: they meet half way, unless they are 4.2 deviations apart."""
    match = MatchResult(Pose2(off_m, 0.0, 0.1), True, 5, inliers, 0.01, np.diag([100.0, 100.0, 1e4]))
    assert fused(match, Pose2(0.0, 0.0, 0.0), 0.1).T_target_source.x == pytest.approx(x)


def test_a_turn_that_is_unlike_the_steps_before_is_a_surprise() -> None:
    """In a thinned recording beyond three standard deviations, else beyond 1.8 rad."""
    usual = Guess(Pose2(1.0, 0.0, 0.2), 1.0, 1.8, 0.3, 0.3, is_step=True)
    by_velocity = Guess(Pose2(1.0, 0.0, 0.2), 1.0, 1.8, 0.3, 0.3)
    for turn_rad, in_steps, in_time in ((0.8, False, False), (-1.2, True, False), (2.0, True, True)):
        pose = Pose2(3.0, 2.0, 0.2 + turn_rad)
        assert usual.is_surprised_by_turn(pose) == in_steps
        assert by_velocity.is_surprised_by_turn(pose) == in_time
