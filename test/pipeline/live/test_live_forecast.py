"""Forecasts of the walk under way: the walk so far, and frames that do not fit."""

import os
from dataclasses import replace

import numpy as np
import pytest
from floor_plans import LOWER_LEFT, UPPER_RIGHT, floor_plan
from tinymodel import START_NS, save_tiny
from two_destinations import model_file, walk_along

from svfm_ros.atomic_files import write_whole
from svfm_ros.config.forecast_config import ForecastConfig
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.model_file import places_to, save_walk_model
from svfm_ros.pipeline.live.live_forecast import LiveForecaster, WalkSoFar, WearerPose
from svfm_ros.pipeline.live.model_announcement import path_inside
from svfm_ros.types import OccupancyGrid, Place, Places, Pose2


def test_the_walk_so_far_begins_where_the_wearer_left():
    so_far = WalkSoFar(RecorderConfig())
    for i in range(100):  # ten seconds of standing
        so_far.push(START_NS + i * 10**8, Pose2(0.0, 0.0, 0.0))
    assert so_far.walk() is None
    assert not so_far.is_walking
    for i in range(100, 120):
        so_far.push(START_NS + i * 10**8, Pose2(0.1 * (i - 99), 0.0, 0.0))
    walk = so_far.walk()
    assert so_far.is_walking
    assert abs(walk.stamps_ns[0] - (START_NS + 100 * 10**8)) < 3 * 10**8
    assert walk.xy[-1, 0] == pytest.approx(2.0)
    so_far.push(START_NS, Pose2(5.0, 0.0, 0.0))  # a bag that begins again
    assert so_far.walk() is None


def test_poses_that_follow_within_nanoseconds_do_not_fill_the_memory():
    so_far = WalkSoFar(RecorderConfig())
    for i in range(1000):
        so_far.push(START_NS + i, Pose2(0.0, 0.0, 0.0))
    assert len(so_far._poses) == 1
    so_far.push(START_NS + 25_000_000, Pose2(0.0, 0.0, 0.0))  # the quickest LiDAR
    assert len(so_far._poses) == 2


@pytest.mark.parametrize("unknown", [None, np.full((3, 3), np.nan), np.diag([-1.0, 0.0, 0.0])])
def test_the_walk_so_far_keeps_the_covariance_of_each_pose(unknown):
    so_far = WalkSoFar(RecorderConfig())
    for i in range(40):
        so_far.push(START_NS + i * 10**8, Pose2(0.1 * i, 0.0, 0.0), unknown if i == 39 else i * 1e-4 * np.eye(3))
    covariance = so_far.walk().covariance
    assert covariance[:-1, 0, 0] == pytest.approx(1e-4 * np.arange(40 - len(covariance), 39))
    assert not covariance[-1].any()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    made = LiveForecaster(RecorderConfig())
    made.load_model(save_tiny(tmp_path_factory.mktemp("model") / "model.pt"), ForecastConfig())
    return made


def at(frame):
    return WearerPose(Pose2(1.0, 0.0, 0.0), 1e-4 * np.eye(3), START_NS, frame)


def test_a_pose_in_the_frame_of_the_model_is_known(live):
    forecast = live.forecast(at("map"), None)
    assert forecast.known
    assert forecast.reason == ""
    assert forecast.shares["kitchen"] > 0.5


def test_a_pose_in_another_frame_is_unknown_with_the_reason(live):
    forecast = live.forecast(at("alice/map"), None)
    assert not forecast.known
    assert forecast.frame == "alice/map"
    assert forecast.reason == "poses are in the frame 'alice/map', the model is in the frame 'map'"


def test_a_map_that_was_started_anew_is_unknown_until_it_is_aligned(live):
    live.map_in_house_frame = False
    assert "started anew" in live.forecast(at("map"), None).reason
    live.map_in_house_frame = True
    assert live.forecast(at("map"), None).known


def test_where_slam_was_unsure_the_forecast_is_wider(tmp_path):
    """A little past the corner on the way to the study; only the covariance of the poses differs."""
    save_walk_model(tmp_path / "model", model_file())
    walk, spread_m = walk_along("study", 4, 0), []
    for variance in (1e-6, 0.09):
        live = LiveForecaster(RecorderConfig())
        live.load_model(tmp_path / "model", ForecastConfig(samples=1000))
        for stamp_ns, xy in zip(walk.stamps_ns[:29].tolist(), walk.xy, strict=False):
            live.add_pose(stamp_ns, Pose2(*xy, 0.0), variance * np.eye(3))
        now = WearerPose(Pose2(*xy, 0.0), np.zeros((3, 3)), stamp_ns, "map")
        found = live.forecast(now, live.walk_so_far())
        spread_m.append(float(np.hypot(*found.samples_xy[:, 10].std(axis=0))))
    assert spread_m[1] > 1.1 * spread_m[0]  # standard error of the ratio: 0.03


def test_a_walk_does_not_go_on_in_another_frame(tmp_path):
    live = LiveForecaster(RecorderConfig())
    for i in range(40):
        live.add_pose(START_NS + i * 10**8, Pose2(0.1 * i, 0.0, 0.0))
    assert live.walk_so_far() is not None
    live.map_in_house_frame = True  # as it was
    live.add_pose(START_NS + 40 * 10**8, Pose2(4.0, 0.0, 0.0))
    assert live.walk_so_far() is not None
    live.map_in_house_frame = False
    live.add_pose(START_NS + 41 * 10**8, Pose2(20.0, 0.0, 0.0))
    assert live.walk_so_far() is None


def test_walls_of_a_map_in_another_frame_are_not_used(live):
    wall = OccupancyGrid(np.ones((400, 4), dtype=np.float32), 0.05, Pose2(2.0, -10.0, 0.0))  # between here and there
    free = live.forecast(at("map"), None).samples_xy
    live.set_map(wall, "alice/map")
    np.testing.assert_array_equal(live.forecast(at("map"), None).samples_xy, free)
    live.set_map(wall, "map")
    assert not np.array_equal(live.forecast(at("map"), None).samples_xy, free)
    live.set_map(None, "map")


def test_without_a_model_there_is_no_forecast():
    assert LiveForecaster(RecorderConfig()).forecast(at("map"), None) is None


@pytest.mark.parametrize(("swap", "said"), [(os.mkfifo, "got a pipe"), (lambda p: p.symlink_to("/dev/zero"), "cannot")])
def test_a_model_that_is_swapped_after_its_check_is_neither_waited_for_nor_followed(live, tmp_path, swap, said):
    checked = path_inside(str(save_tiny(tmp_path / "model.pt")), tmp_path)
    before = live.model
    checked.unlink()
    swap(checked)
    with pytest.raises(DataError, match=said):
        live.load_model(checked, ForecastConfig())
    assert live.model is before


def test_where_the_model_is_damaged_the_one_before_it_is_used_until_there_is_another(tmp_path, caplog):
    path = save_tiny(tmp_path / "model.pt")
    live = LiveForecaster(RecorderConfig())
    write_whole(path, path.read_bytes()[:-9], keeps_previous=True)
    assert live.load_model(path, ForecastConfig()).model_id
    assert "the model before it is used" in caplog.text
    with pytest.raises(DataError, match="walk model"):  # one is in use: nothing is gained by the one before it
        live.load_model(path, ForecastConfig())


def test_unnamed_places_are_called_by_the_plan_and_names_change_with_the_model_only(tmp_path):
    found = (Place("place 1", *LOWER_LEFT, 0.5, "#0072b2"), Place("place 2", *UPPER_RIGHT, 0.5, "#d55e00"))
    spots = Places(found)
    file = replace(model_file(), metrics={**model_file().metrics, **places_to(spots)})
    save_walk_model(tmp_path / "model.pt", file)
    live = LiveForecaster(RecorderConfig())
    live.load_model(tmp_path / "model.pt", ForecastConfig())
    assert set(live.forecast(at("map"), None).shares) == {"place 1", "place 2", "elsewhere"}
    live.set_map(floor_plan(), "map")
    named = {"bottom left room", "top right room", "elsewhere"}
    assert set(live.forecast(at("map"), None).shares) == named
    live.set_map(floor_plan(((4.0, 0.0, 4.1, 5.6),)), "map")
    assert set(live.forecast(at("map"), None).shares) == named
    live.load_model(tmp_path / "model.pt", ForecastConfig())
    assert set(live.forecast(at("map"), None).shares) == {"left room", "right room", "elsewhere"}
    given = LiveForecaster(RecorderConfig(), spots)  # places of a file keep their names
    given.load_model(tmp_path / "model.pt", ForecastConfig())
    given.set_map(floor_plan(), "map")
    assert set(given.forecast(at("map"), None).shares) == {"place 1", "place 2", "elsewhere"}
