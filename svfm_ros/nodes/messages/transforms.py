"""TF (REP 105): map -> odom -> base, and the static transform base -> sensor.

``tf2_msgs`` is part of ROS 2 but not of its PyPI wheels. Where it is missing, no TF is published.
"""

from typing import Any

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from svfm_ros.nodes.messages import convert
from svfm_ros.types import Pose2

__all__ = ["TransformPublisher"]


class TransformPublisher:
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
            node.get_logger().info("tf2_msgs is not installed: TF is not published")
            return None
        return TFMessage

    def publish(self, T_map_odom: Pose2, T_odom_base: Pose2, stamp_ns: int) -> None:
        """Publish map -> odom and odom -> base."""
        if self._message_class is None:
            return
        map_frame, odom_frame, base_frame = self._frames
        steps = [
            convert.to_transform(T_map_odom, map_frame, odom_frame, stamp_ns),
            convert.to_transform(T_odom_base, odom_frame, base_frame, stamp_ns),
        ]
        self._moving.publish(self._message_class(transforms=steps))

    def publish_mount(self, T_base_sensor: Pose2, sensor_frame: str, stamp_ns: int) -> None:
        """Publish the static transform base -> sensor."""
        base_frame = self._frames[2]
        if self._message_class is not None and sensor_frame and sensor_frame != base_frame:
            step = convert.to_transform(T_base_sensor, base_frame, sensor_frame, stamp_ns)
            self._fixed.publish(self._message_class(transforms=[step]))
