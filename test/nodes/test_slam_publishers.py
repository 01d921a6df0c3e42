"""TF over DDS, where tf2_msgs is installed."""

import numpy as np
import pytest

from svfm_ros import geometry
from svfm_ros.nodes.messages.convert import from_pose, stamp_ns, to_pose
from svfm_ros.nodes.slam_publishers import TransformPublisher
from svfm_ros.types import Pose2

TFMessage = pytest.importorskip("tf2_msgs.msg", reason="tf2_msgs is not installed").TFMessage

pytestmark = pytest.mark.ros


def pose_of(transform):
    """A transform read as a pose."""
    message = to_pose(Pose2())
    message.position.x, message.position.y = transform.translation.x, transform.translation.y
    message.orientation = transform.rotation
    return from_pose(message)


def test_the_chain_from_map_to_sensor(listener, latched):
    moving = listener.collect(TFMessage, "/tf")
    transforms = TransformPublisher(listener.node, "alice/map", "alice/odom", "alice/base_link")
    T_map_odom, T_odom_base, T_base_sensor = Pose2(1.0, 2.0, 0.5), Pose2(-3.0, 0.5, 2.0), Pose2(0.1, 0.0, 1.0)
    transforms.publish_mount(T_base_sensor, "alice/laser", 5)
    transforms.publish(T_map_odom, T_odom_base, 7)
    first, second = moving.wait(1)[0].transforms
    (mounted,) = listener.collect(TFMessage, "/tf_static", latched).wait(1)[0].transforms
    assert (first.header.frame_id, first.child_frame_id) == ("alice/map", "alice/odom")
    assert (second.header.frame_id, second.child_frame_id) == ("alice/odom", "alice/base_link")
    assert (mounted.header.frame_id, mounted.child_frame_id) == ("alice/base_link", "alice/laser")
    assert stamp_ns(first.header.stamp) == stamp_ns(second.header.stamp) == 7
    chain = pose_of(first.transform) @ pose_of(second.transform) @ pose_of(mounted.transform)
    expected = T_map_odom @ T_odom_base @ T_base_sensor
    np.testing.assert_allclose(geometry.relative(chain.as_array(), expected.as_array()), 0.0, atol=1e-12)


def test_a_sensor_that_is_the_base_needs_no_mount(listener):
    transforms = TransformPublisher(listener.node, "map", "odom", "laser")
    fixed = listener.collect(TFMessage, "/tf_static")
    moving = listener.collect(TFMessage, "/tf")
    transforms.publish_mount(Pose2(), "laser", 5)
    transforms.publish(Pose2(), Pose2(), 7)
    moving.wait(1)
    assert not fixed
