"""Following a sensor from scan to scan: how far it is looked for depends on how long nothing was seen."""

from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, polygon, scan_at

from svfm_ros.config.sim_config import HouseholdConfig, SimConfig
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.sim.house import load_house
from svfm_ros.sim.sim_recording import Recorder
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.slam.keyframes import Keyframes
from svfm_ros.slam.matching.local_map import LocalMap, build_local_map
from svfm_ros.slam.preprocess import Cloud, cloud_from_scan
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.tracker import Tracker
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.types import Pose2, Scan

CONFIG = SlamConfig()
BEFORE, AFTER = Pose2(2.0, 3.2, 0.1), Pose2(3.9, 3.2, 0.2)  # 1.9 m on, without a word in between


def seen_from(pose: Pose2) -> Cloud:
    return cloud_from_scan(scan_at(FLAT, pose, 1), np.zeros(3), CONFIG)


@pytest.fixture(scope="module")
def around() -> LocalMap:
    keyframes = Keyframes(CONFIG.keyframe_distance_m)
    for k, x in enumerate((1.0, 2.0, 3.0, 4.5, 5.5)):
        keyframes.add(k, seen_from(Pose2(x, 3.2)), np.array([x, 3.2, 0.0]), before=k - 1 if k else None)
    ids = np.arange(len(keyframes))
    return build_local_map(keyframes.pool, keyframes.poses, ids, np.array([3.0, 3.2]), 25.0, ids)


def off_m(found: Pose2) -> float:
    gap = AFTER.inverse() @ found
    return float(np.hypot(gap.x, gap.y))


def test_after_a_gap_it_is_looked_for_as_far_as_one_gets_in_the_time(around: LocalMap) -> None:
    """At 1.5 m/s and a margin of as much again, 0.7 s are good for 2.5 m; a tenth of a second is not for 1.9."""
    found = Tracker(CONFIG).track(seen_from(AFTER), around, BEFORE, 0.7, None)
    assert off_m(found.match.T_target_source) < 0.03
    assert found.match.inlier_ratio > 0.9
    not_found = Tracker(CONFIG).track(seen_from(AFTER), around, BEFORE, 0.1, None)
    assert off_m(not_found.match.T_target_source) > 0.5
    assert not_found.match.inlier_ratio < 0.75


def test_a_cluttered_hall_without_straight_walls_is_tracked_at_steps_of_a_metre() -> None:
    """Posts everywhere: few points lie on a line, so that few are inliers, but all are near walls of the map."""
    rng = np.random.default_rng(3)
    centres, directions = rng.uniform(-9, 9, (220, 2)), rng.uniform(0, np.pi, 220)
    centres = centres[np.abs(centres[:, 1]) > 0.6]
    arms = 0.06 * np.stack([np.cos(directions), np.sin(directions)], axis=-1)[: len(centres)]
    posts = np.concatenate([centres - arms, centres + arms], axis=1)
    posts = np.concatenate([posts, polygon((-10, -10), (10, -10), (10, 10), (-10, 10))])
    way = np.stack([np.arange(-6.0, 6.5, 1.0), np.zeros(13), 0.3 * np.sin(np.arange(13))], axis=-1)
    slam = Slam(CONFIG)
    for k, pose in enumerate(way):
        slam.add_scan(scan_at(posts, pose, 10**9 + 2 * 10**9 * k, beams=180, noise_m=0.02))
    slam.finish()
    assert len(slam.trajectory()) == len(way)
    assert absolute_error(slam.trajectory().poses, way).worst_m < 0.15


def test_the_map_changes_with_new_keyframes_only() -> None:
    slam = Slam(SlamConfig(loop_every=0, keyframe_distance_m=0.3))
    xs = (1.5, 1.5, 1.6, 1.7, 1.85, 1.95)  # metres; the keyframe after the first is due beyond 1.8
    scans = [scan_at(FLAT, np.array([x, 1.2, 0.0]), (i + 1) * 10**8) for i, x in enumerate(xs)]  # 0.1 s apart
    changed = [slam.add_scan(scan).map_changed for scan in scans]
    assert changed == [True, False, False, False, True, False]


CROWD = HouseholdConfig(people=3, pets=1, stay_s=3.0, doors=True, furniture_m=0.3, clutter=3, windows=4, mirrors=2)
DAY_NS = 86400 * 10**9


@pytest.mark.parametrize("day", [2, 6])
def test_people_who_walk_along_do_not_hold_the_map_back(day: int) -> None:
    """Their backs keep their distance, as if the wearer stood still: the velocity before says otherwise."""
    config, house = SimConfig(household=CROWD), load_house("home")
    labelled = simulate_protocol(house, config.walker, 0, 2, habits=config.habits)[day - 1]
    later = replace(labelled, walk=replace(labelled.walk, stamps_ns=labelled.walk.stamps_ns + day * DAY_NS))
    recorder = Recorder(house, config)
    recording = recorder.all_in_one([later], day)
    slam = Slam()
    for scan in recorder.scans(recording):
        slam.add_scan(scan)
    slam.finish()
    found = slam.trajectory()
    truth = recording.motion.poses_at((found.stamps_ns - recording.motion.start_ns) / 1e9)
    assert absolute_error(found.poses, truth).rmse_m < 0.06


def large_hall_log() -> tuple[list[Scan], np.ndarray]:
    """A walk round a ring of corridors with a niche every few metres: a scan every 2.5 m or 0.6 rad."""
    rng = np.random.default_rng(5)
    walls = [polygon((0, 0), (24, 0), (24, 16), (0, 16)), polygon((2, 2), (22, 2), (22, 14), (2, 14))]
    for x in (3.2, 4.9, 8.3, 10.4, 14.6, 17.1, 19.0):
        for y in (0.0, 16.0):
            width, depth = rng.uniform(0.4, 1.0), rng.uniform(0.2, 0.5)
            inner = abs(y - depth)
            shift = float(rng.uniform(-0.8, 0.8))
            walls.append(
                polygon((x + shift, y), (x + shift + width, y), (x + shift + width, inner), (x + shift, inner))
            )
    for y in (3.7, 6.1, 9.9, 12.2):
        for x in (0.0, 24.0):
            width, inner, shift = rng.uniform(0.4, 1.0), abs(x - rng.uniform(0.2, 0.5)), float(rng.uniform(-0.8, 0.8))
            walls.append(
                polygon((x, y + shift), (inner, y + shift), (inner, y + shift + width), (x, y + shift + width))
            )
    corners = np.array([(1.0, 1.0), (23.0, 1.0), (23.0, 15.0), (1.0, 15.0)])
    way: list[tuple[float, float, float]] = []
    for k in range(6):  # one and a half rounds
        a, b, heading = corners[k % 4], corners[(k + 1) % 4], np.pi / 2 * k
        steps = np.arange(0.0, np.hypot(*(b - a)), 2.5)
        way += [(*(a + (b - a) * t / np.hypot(*(b - a))), heading) for t in steps]
        way += [(*b, heading), (*b, heading + 0.6), (*b, heading + 1.2)]
    poses = np.array(way)
    scans = [
        scan_at(np.concatenate(walls), p, 10**9 * (1 + 5 * k), beams=360, noise_m=0.01) for k, p in enumerate(poses)
    ]
    return scans, poses


def test_corridors_are_mapped_in_steps_of_two_and_a_half_metres() -> None:
    scans, truth = large_hall_log()
    slam = Slam()
    for scan in scans:
        slam.add_scan(scan)
    slam.finish()
    found = slam.trajectory()
    assert len(found) == len(scans)
    assert absolute_error(found.poses, truth).worst_m < 0.3
