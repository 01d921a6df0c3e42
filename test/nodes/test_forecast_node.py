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
from roslive import PATIENCE_S, Collected, Listener
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Bool, Float64, String
from tinymodel import START_NS, save_tiny, tiny_file
from visualization_msgs.msg import Marker, MarkerArray

from svfm_ros.errors import SvfmError
from svfm_ros.nodes.client import ForecastListener
from svfm_ros.nodes.forecast_node import ForecastNode
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.forecast_messages import from_cloud, to_cloud, to_summary
from svfm_ros.nodes.runtime.subscriptions import LATCHED
from svfm_ros.pipeline.live.model_announcement import ModelAnnouncement, SigningKey
from svfm_ros.types import Pose2

pytestmark = pytest.mark.ros


def pose_at(x, step, frame="map"):
    covariance = 1e-4 * np.eye(3)
    return convert.to_pose_with_covariance(Pose2(x, 0.0, 0.0), covariance, frame, START_NS + step * 10**8)


def wait_for_listener(talker, said):
    said.wait(1)
    while not talker.get_subscription_count():
        said.wait(len(said) + 1)  # it speaks once a second


def put(listener, name, value):
    """Change a parameter of the node."""
    request = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
    assert listener.call(SetParameters, "/forecast_node/set_parameters", request).results[0].successful


def test_poses_become_forecasts_that_late_viewers_see_and_that_go_away(start, listener, latched, tmp_path):
    said = listener.collect(DiagnosticArray, "/diagnostics")
    paths = listener.collect(MarkerArray, "forecast/paths", latched)
    what_if = listener.collect(MarkerArray, "forecast/what_if/paths", latched)
    given = ("-p", "silent_s:=3600.0", "-p", f"model_folder:={tmp_path}")
    node = start("-m", "svfm_ros.nodes.forecast_node", "--ros-args", *given)
    poses = listener.node.create_publisher(PoseWithCovarianceStamped, "pose", 100)
    models = listener.node.create_publisher(String, "model", latched)
    wait_for_listener(poses, said)
    assert said[-1].status[0].message == "there is no model yet"

    # Models that are not signed, outside of the folder or missing are refused; then a good one comes.
    model = save_tiny(tmp_path / "model.pt")
    key = SigningKey.create(tmp_path)
    for text, reason in (
        (f'{{"path": "{model}"}}', "without the trainer's signature"),
        (ModelAnnouncement("/etc/passwd").to_text(key), "expected a model inside"),
        (ModelAnnouncement(str(tmp_path / "none.pt")).to_text(key), "cannot read"),
    ):
        models.publish(String(data=text))
        said.wait_for(lambda m, reason=reason: reason in m.status[0].message)
    models.publish(String(data=ModelAnnouncement(str(model), tiny_file().model_id).to_text(key)))
    said.wait_for(lambda m: {"model": tiny_file().model_id}.items() <= figures(m).items())
    put(listener, "what_if_hour", 23.0)

    for step in range(10):
        poses.publish(pose_at(0.1 * step, step))
    drawn = paths.wait_for(lambda m: any(s.type == Marker.LINE_LIST for s in m.markers))
    assert {s.header.frame_id for s in drawn.markers if s.action == Marker.ADD} == {"map"}
    what_if.wait_for(lambda m: any(s.ns.startswith("forecast/what_if") for s in m.markers))

    # Whoever comes late gets the last forecast, for people and for machines.
    endpoints = listener.collect(MarkerArray, "forecast/endpoints", latched).wait(1)[-1]
    assert any("kitchen" in s.text for s in endpoints.markers)
    densities = listener.collect(OccupancyGrid, "forecast/density", latched)
    assert max(densities.wait(1)[-1].data) > 20
    size = (densities[-1].info.width, densities[-1].info.height)
    assert listener.collect(Float64, "forecast/entropy", latched).wait(1)[-1].data >= 0.0
    summary = json.loads(listener.collect(String, "forecast/summary", latched).wait(1)[-1].data)
    assert math.isclose(sum(summary["shares"].values()), 1.0, abs_tol=0.01)
    assert summary["places"] == ["kitchen"]
    assert summary["positions"] == {"kitchen": [4.0, 0.0, 1.0]}
    cloud = listener.collect(PointCloud2, "forecast/samples", latched).wait(1)[-1]
    assert (cloud.height, cloud.width) == (200, 26)

    # Poses in another frame than the model's, and on a map that is not aligned with it, give no forecast.
    summaries = listener.collect(String, "forecast/summary", latched)
    poses.publish(pose_at(1.0, 11, "alice/map"))
    reason = "poses are in the frame 'alice/map', the model is in the frame 'map'"
    summaries.wait_for(lambda m: not json.loads(m.data)["known"] and json.loads(m.data)["reason"] == reason)
    said.wait_for(lambda m: reason in m.status[0].message)
    aligned = listener.node.create_publisher(Bool, "map_in_house_frame", latched)
    aligned.publish(Bool(data=False))
    step = 12
    while not any("started anew" in json.loads(m.data)["reason"] for m in summaries):
        poses.publish(pose_at(1.0, step))
        step += 1
        summaries.wait(len(summaries) + 1)
    densities.wait_for(lambda m: not any(m.data))
    assert {(m.info.width, m.info.height) for m in densities} == {size}

    # No more poses: markers are removed.
    put(listener, "silent_s", 0.1)
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
        ("forecast.samples", 2001, "rate x forecast.samples of at most 20000 paths a second"),
        ("rate", 100.1, "rate: expected 0.1 to 100.0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(listener, parameter, value, message):
    with pytest.raises(SvfmError) as error:
        ForecastNode(parameter_overrides=[Parameter(parameter, value=value)], context=listener.context)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_forecast_survives_the_wire():
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import places_from

    places = places_from(tiny_file().metrics)
    forecast = Forecaster(tiny_file(), places).forecast((0.0, 0.0), START_NS)
    back = from_cloud(to_cloud(forecast, places), json.loads(to_summary(forecast, places)))
    np.testing.assert_allclose(back.samples_xy, forecast.samples_xy, atol=1e-5)
    np.testing.assert_allclose(back.times_s, forecast.times_s, atol=1e-5)
    assert back.model_id == forecast.model_id
    assert back.shares == pytest.approx(dict(forecast.shares), abs=1e-4)


def test_another_node_receives_forecasts(listener):
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import places_from

    places = places_from(tiny_file().metrics)
    forecast = Forecaster(tiny_file(), places).forecast((0.0, 0.0), START_NS)
    got, other = Collected(), Listener()
    ForecastListener(other.node, got.add)
    clouds = listener.node.create_publisher(PointCloud2, "forecast/samples", LATCHED)
    summaries = listener.node.create_publisher(String, "forecast/summary", LATCHED)
    summaries.publish(String(data=to_summary(forecast, places)))
    clouds.publish(to_cloud(forecast, places))
    received = got.wait(1)[0]
    other.close()
    np.testing.assert_allclose(received.samples_xy, forecast.samples_xy, atol=1e-5)
    assert received.stamp_ns == START_NS
    assert received.unfamiliar == pytest.approx(forecast.unfamiliar, abs=1e-4)
