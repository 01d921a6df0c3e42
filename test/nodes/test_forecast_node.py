"""Forecasts as a process among others: poses and a model go in over DDS, forecasts come out, and go away."""

import json
import math

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from roslive import PATIENCE_S
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64, String
from tinymodel import START_NS, save_tiny, tiny_file
from visualization_msgs.msg import Marker, MarkerArray

from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import SvfmError
from svfm_ros.nodes.forecast_node import ForecastNode
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.announcement import Announcement
from svfm_ros.nodes.messages.forecast_messages import from_cloud, to_cloud, to_summary
from svfm_ros.pipeline.pacing import Budget
from svfm_ros.pipeline.walk_so_far import WalkSoFar
from svfm_ros.types import Pose2

pytestmark = pytest.mark.ros


def pose_at(x, step):
    covariance = 1e-4 * np.eye(3)
    return convert.to_pose_with_covariance(Pose2(x, 0.0, 0.0), covariance, "alice/map", START_NS + step * 10**8)


def wait_for_listener(talker, said):
    while not talker.get_subscription_count():
        said.wait(len(said) + 1)  # it speaks once a second


def test_poses_become_forecasts_that_late_viewers_see_and_that_go_away(start, listener, latched, tmp_path):
    said = listener.collect(DiagnosticArray, "/diagnostics")
    paths = listener.collect(MarkerArray, "forecast/paths", latched)
    what_if = listener.collect(MarkerArray, "forecast/what_if/paths", latched)
    node = start("-m", "svfm_ros.nodes.forecast_node", "--ros-args", "-p", "silent_s:=3.0")
    poses = listener.node.create_publisher(PoseWithCovarianceStamped, "pose", 100)
    models = listener.node.create_publisher(String, "model", latched)
    wait_for_listener(poses, said)
    assert said[-1].status[0].message == "there is no model yet"

    # A model that is no model is one line; then a good one comes.
    models.publish(String(data="/nowhere/model.pt"))
    said.wait_for(lambda m: "got no file" in m.status[0].message)
    model = save_tiny(tmp_path / "model.pt")
    models.publish(String(data=Announcement(str(model), tiny_file().model_id).to_text()))
    said.wait_for(lambda m: {"model": tiny_file().model_id}.items() <= figures(m).items())
    changed = listener.call(
        SetParameters,
        "/forecast_node/set_parameters",
        SetParameters.Request(parameters=[Parameter("what_if_hour", value=23.0).to_parameter_msg()]),
    )
    assert changed.results[0].successful

    for step in range(10):
        poses.publish(pose_at(0.1 * step, step))
    drawn = paths.wait_for(lambda m: any(s.type == Marker.LINE_LIST for s in m.markers))
    assert {s.header.frame_id for s in drawn.markers if s.action == Marker.ADD} == {"alice/map"}
    what_if.wait_for(lambda m: any(s.ns.startswith("forecast/what_if") for s in m.markers))

    # Whoever comes late gets the last forecast, for people and for machines.
    endpoints = listener.collect(MarkerArray, "forecast/endpoints", latched).wait(1)[-1]
    assert any("kitchen" in s.text for s in endpoints.markers)
    assert listener.collect(OccupancyGrid, "forecast/density", latched).wait(1)[-1].info.width > 5
    assert listener.collect(Float64, "forecast/entropy", latched).wait(1)[-1].data >= 0.0
    summary = json.loads(listener.collect(String, "forecast/summary", latched).wait(1)[-1].data)
    assert math.isclose(sum(summary["shares"].values()), 1.0, abs_tol=0.01)
    assert summary["places"] == ["kitchen"]
    cloud = listener.collect(PointCloud2, "forecast/samples", latched).wait(1)[-1]
    assert (cloud.height, cloud.width) == (200, 26)

    # No more poses: what was drawn goes away.
    paths.wait_for(lambda m: [s.action for s in m.markers] == [Marker.DELETEALL])
    node.terminate()
    _, err = node.communicate(timeout=PATIENCE_S)
    assert node.returncode == 0, err
    assert "Traceback" not in err


def figures(message):
    return {v.key: v.value for v in message.status[0].values}


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("device", "tpu", "expected a device among auto, cpu"),
        ("places", "/nowhere/places.yaml", "cannot read /nowhere/places.yaml"),
        ("what_if_hour", 25.0, "what_if_hour: expected 0.0 to 24.0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(listener, parameter, value, message):
    with pytest.raises(SvfmError) as error:
        ForecastNode(parameter_overrides=[Parameter(parameter, value=value)], context=listener.context)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


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


def test_a_forecast_survives_the_wire():
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_places import places_from

    places = places_from(tiny_file().metrics)
    forecast = Forecaster(tiny_file(), places).forecast((0.0, 0.0), START_NS)
    back = from_cloud(to_cloud(forecast, places), json.loads(to_summary(forecast, places)))
    np.testing.assert_allclose(back.samples_xy, forecast.samples_xy, atol=1e-5)
    np.testing.assert_allclose(back.times_s, forecast.times_s, atol=1e-5)
    assert back.model_id == forecast.model_id
    assert back.shares == pytest.approx(dict(forecast.shares), abs=1e-4)


def test_announcements():
    told = Announcement("/m.pt", "abc", 12, -3.5)
    assert Announcement.from_text(told.to_text()) == told
    assert Announcement.from_text(" /m.pt ") == Announcement("/m.pt")
    for nonsense in ("", "{", "{}", '{"path": '):
        with pytest.raises(SvfmError):
            Announcement.from_text(nonsense)


def test_a_budget_holds_the_rate_and_forgives_a_late_start():
    budget, now, begun = Budget(), 0.0, []
    for arrival in np.arange(0.0, 5.0, 0.01):
        now = max(now, arrival)
        now += budget.wait_s(10.0, now)
        budget.spend(now)
        begun.append(now)
        if now > 5.0:
            break
    assert 9.0 <= (len(begun) - 2) / now <= 10.5
