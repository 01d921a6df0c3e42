"""TF (REP 105): map -> odom -> base, and where the sensor sits on the base.

``tf2_msgs`` comes with ROS 2 but not with its wheels. Where it is missing, that is said once and the poses on their
topic have to do.
"""

from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from svfm_ros.nodes.messages import convert
from svfm_ros.types import Pose2

__all__ = ["Transforms"]


class Transforms:
    """Publishes on ``/tf`` and ``/tf_static``."""

    def __init__(self, node: Node, map_frame: str, odom_frame: str, base_frame: str) -> None:
        self._frames = map_frame, odom_frame, base_frame
        self._message_class = self._find(node)
        if self._message_class is not None:
            latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
            self._moving = node.create_publisher(self._message_class, "/tf", QoSProfile(depth=100))
            self._fixed = node.create_publisher(self._message_class, "/tf_static", latched)

    @staticmethod
    def _find(node: Node) -> Any | None:
        try:
            from tf2_msgs.msg import TFMessage
        except ImportError:
            node.get_logger().info("tf2_msgs is not installed: no TF, the pose is on its topic alone")
            return None
        return TFMessage

    def move(self, T_map_odom: Pose2, T_odom_base: Pose2, stamp_ns: int) -> None:
        """Where the base is now, in two steps."""
        if self._message_class is None:
            return
        map_frame, odom_frame, base_frame = self._frames
        steps = [
            convert.to_transform(T_map_odom, map_frame, odom_frame, stamp_ns),
            convert.to_transform(T_odom_base, odom_frame, base_frame, stamp_ns),
        ]
        self._moving.publish(self._message_class(transforms=steps))

    def mount(self, T_base_sensor: Pose2, sensor_frame: str, stamp_ns: int) -> None:
        """Where the sensor sits, for good."""
        base_frame = self._frames[2]
        if self._message_class is not None and sensor_frame and sensor_frame != base_frame:
            step = convert.to_transform(T_base_sensor, base_frame, sensor_frame, stamp_ns)
            self._fixed.publish(self._message_class(transforms=[step]))
