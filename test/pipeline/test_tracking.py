"""Scans to poses and walks, without ROS, in a house whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, OTHER, scans_along, walk
from simbag import scans_and_truth

from svfm_ros import geometry
from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.pipeline.slam_engine import Engines, MapDrawer
from svfm_ros.pipeline.tracking import Tracking
from svfm_ros.types import OdometryReading, Pose2

CONFIG = SlamNodeConfig(resident="mary", recorder=RecorderConfig(dwell_time_s=3.0))


def tracking(config=CONFIG):
    return Tracking(config, Engines(config.slam))


@pytest.fixture(scope="module")
def run():
    """One pass over the recording."""
    scans, truth = scans_and_truth()
    tracker = tracking()
    tracked = [tracker.add(s) for s in scans]
    walks = [w for t in tracked for w in t.walks] + tracker.close()
    return tracker, tracked, walks, truth


def test_poses_follow_the_truth(run):
    _, tracked, _, truth = run
    error = np.array([t.T_map_base.as_array() for t in tracked])[:, :2] - truth[:, :2]
    assert np.linalg.norm(error, axis=1).max() < 0.15


def test_walks_are_cut_where_someone_walked(run):
    _, _, walks, truth = run
    assert len(walks) == 2  # there and back
    there = walks[0]
    assert there.resident == "mary"
    assert np.linalg.norm(there.xy[-1] - there.xy[0]) > 1.5
    assert np.linalg.norm(walks[1].xy[-1] - truth[0, :2]) < 0.6
    assert len(there.points) > 100
    assert there.covariance is not None
    assert there.covariance.shape == (len(there.poses), 3, 3)
    spread_m = np.sqrt(there.covariance[:, 0, 0] + there.covariance[:, 1, 1])
    assert 0.0 < np.median(spread_m) < 0.15


def test_odometry_and_its_correction_make_the_pose(run):
    _, tracked, _, _ = run
    for t in tracked:
        made = (t.T_map_odom @ t.T_odom_base).as_array()
        np.testing.assert_allclose(geometry.relative(made, t.T_map_base.as_array()), 0.0, atol=1e-9)


def test_odometry_does_not_jump(run):
    _, tracked, _, _ = run
    odometry = np.array([t.T_odom_base.as_array() for t in tracked])
    steps = np.linalg.norm(np.diff(odometry[:, :2], axis=0), axis=1)
    assert steps.max() < 0.3  # 3 m/s


def test_time_that_goes_back_starts_over_and_loses_no_walk():
    scans, _ = scans_and_truth()
    tracker = tracking()
    half = len(scans) // 3
    before = [w for s in scans[:half] for w in tracker.add(s).walks]
    again = tracker.add(scans[0])
    assert "time went back by" in again.started_over
    assert np.allclose(again.T_map_base.as_array(), 0.0)
    assert len(tracker.trajectory()[0]) == 1
    assert len(before) + len(again.walks) == 1  # the walk that was under way
    assert not tracker.add(scans[1]).started_over


@pytest.mark.parametrize("back_s", [1.5, 3600.0])
@pytest.mark.parametrize("given_map", [False, True])
def test_a_clock_that_is_set_back_ends_the_walk_and_nothing_else(run, back_s, given_map):
    scans, truth = scans_and_truth()
    grid = MapDrawer(CONFIG.raster).draw(run[0].engine.keyframes()) if given_map else None
    tracker = Tracking(CONFIG, Engines(CONFIG.slam, grid))
    half = len(scans) // 3
    later = [replace(s, stamp_ns=s.stamp_ns - round(back_s * 1e9)) for s in scans[half:]]
    before = [tracker.add(s) for s in scans[:half]]
    after = [tracker.add(s) for s in later]
    assert f"time went back by {back_s - 0.1:.1f} s: the clock was set" in after[0].started_over
    assert [t.map_kept for t in after] == [True] * len(after)
    assert not any(t.started_over for t in after[1:])
    assert len(after[0].walks) == 1  # the walk that was under way
    poses = np.array([t.T_map_base.as_array() for t in after])
    assert np.linalg.norm(poses[:, :2] - truth[half:, :2], axis=1).max() < 0.15
    odometry = np.array([t.T_odom_base.as_array() for t in [before[-1], *after]])
    assert np.linalg.norm(np.diff(odometry[:, :2], axis=0), axis=1).max() < 0.3
    assert np.all(np.diff(tracker.trajectory()[0]) > 0)  # or no walk could be cut from it
    walks = [w for t in after[1:] for w in t.walks] + tracker.close()
    assert walks


def test_a_walk_that_begins_where_the_map_is_unknown_is_handed_out_whole():
    """The sensor sleeps and wakes in a room that the map does not have; the wearer walks back home."""
    scans, truth = scans_and_truth(2)
    T_map_truth = Pose2.from_array(truth[0]).inverse()
    later = [replace(s, stamp_ns=s.stamp_ns + 600_000_000_000) for s in scans[330:]]
    tracker = tracking()
    for scan in scans[:230]:
        tracker.add(scan)
    tracked = [tracker.add(scan) for scan in later]
    assert not any(t.update.is_on_map for t in tracked[:50])
    back = next(w for w in [*(w for t in tracked for w in t.walks), *tracker.close()])
    assert later[0].stamp_ns <= back.stamps_ns[0] < later[50].stamp_ns
    rows = 330 + np.searchsorted([s.stamp_ns for s in later], back.stamps_ns)
    np.testing.assert_allclose(back.xy, T_map_truth.apply(truth[rows, :2]), atol=0.1)
    assert np.linalg.norm(back.xy[-1]) < 0.7  # home again, on the map of before
    assert len(back.points) > 100


def test_a_walk_in_another_flat_waits_and_gets_no_place_on_the_map():
    tracker = tracking()
    home = scans_along(FLAT, walk((1.5, 1.2), (2.8, 3.2), (5.2, 3.2), (5.4, 1.5)))
    away = scans_along(OTHER, walk((1.0, 1.2), (3.3, 0.5), (7.4, 0.6), (7.2, 2.6)))
    for scan in [*home, *(replace(s, stamp_ns=s.stamp_ns + 3600 * 10**9) for s in away)]:
        tracker.add(scan)
    assert tracker.finish_walk() == []
    assert tracker.engine.counters["walks_waiting"] == 1
    assert tracker.close() == []


def test_a_walk_can_be_finished_by_hand():
    scans, _ = scans_and_truth()
    tracker = tracking()
    for scan in scans[: len(scans) // 3]:
        assert not tracker.add(scan).walks
    assert len(tracker.finish_walk()) == 1
    assert tracker.finish_walk() == []


def test_the_wearer_is_not_the_sensor():
    scans, truth = scans_and_truth()
    mount = (0.1, 0.0, np.pi / 2)  # ahead of the wearer, looking left
    tracker = tracking(replace(CONFIG, mount=mount))
    poses = np.array([tracker.add(s).T_map_base.as_array() for s in scans[:80]])
    expected = geometry.compose(truth[:80], geometry.inverse(mount))
    assert np.linalg.norm(poses[:, :2] - expected[:, :2], axis=1).max() < 0.15
    np.testing.assert_allclose(tracker.trajectory()[1][-1], poses[-1], atol=1e-9)


def test_the_map_is_that_of_the_keyframes(run):
    tracker, _, _, _ = run
    views = tracker.engine.keyframes()
    drawer = MapDrawer(CONFIG.raster)
    drawer.draw(views[: len(views) // 2])
    moved = [replace(v, T_map_keyframe=replace(v.T_map_keyframe, x=v.T_map_keyframe.x + 1.0)) for v in views]
    drawer.draw(moved)
    grown, fresh = drawer.draw(views), MapDrawer(CONFIG.raster).draw(views)
    np.testing.assert_array_equal(grown.prob, fresh.prob)  # nothing is left of what was drawn elsewhere
    assert grown.T_map_grid == fresh.T_map_grid
    assert np.nanmax(fresh.prob) > 0.8


def test_odometry_of_the_wearer_is_used_at_the_place_of_the_sensor_and_dropped_when_it_lies():
    """The sensor sits 0.5 m ahead and looks to the left; the odometry is that of the wearer, in a frame of its own."""
    scans, truth = scans_and_truth()
    mounted = replace(CONFIG, mount=(0.5, 0.0, np.pi / 2))
    T_base_sensor = np.array(mounted.mount)
    base = geometry.compose(truth, geometry.inverse(T_base_sensor))
    for lie, expected in ((0.0, True), (0.3, False)):
        tracker = tracking(mounted)
        for k, scan in enumerate(scans):
            pose = geometry.relative(base[0], base[k]) + np.array([lie * k, 0.0, 0.0])
            tracker.add_motion(OdometryReading(scan.stamp_ns, pose, np.zeros(3), np.eye(3)))
            tracker.add(scan)
        assert tracker.motion().odometry_used is expected
        assert tracker.motion().problem == ("" if expected else "odometry not used: the scans contradict")
        tracker.close()
