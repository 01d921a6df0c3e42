"""Forecasts of the walk under way: the walk so far, and frames that do not fit."""

import numpy as np
import pytest
from tinymodel import START_NS, save_tiny

from svfm_ros.config.forecast_config import ForecastConfig
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.pipeline.live.live_forecast import LiveForecaster, WalkSoFar, WearerPose
from svfm_ros.types import OccupancyGrid, Pose2


def test_the_walk_so_far_begins_where_the_wearer_left():
    so_far = WalkSoFar(RecorderConfig())
    for i in range(100):  # ten seconds of standing
        so_far.push(START_NS + i * 10**8, Pose2(0.0, 0.0, 0.0))
    assert so_far.walk() is None
    for i in range(100, 120):
        so_far.push(START_NS + i * 10**8, Pose2(0.1 * (i - 99), 0.0, 0.0))
    walk = so_far.walk()
    assert abs(walk.stamps_ns[0] - (START_NS + 100 * 10**8)) < 3 * 10**8
    assert walk.xy[-1, 0] == pytest.approx(2.0)
    so_far.push(START_NS, Pose2(5.0, 0.0, 0.0))  # a bag that begins again
    assert so_far.walk() is None


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
