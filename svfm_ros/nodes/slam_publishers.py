"""What the SLAM node publishes beside poses: ``map`` and ``track`` at a limited rate, and TF.

The map is drawn in a thread of its own. TF (REP 105) is map -> odom -> base, and the static transform base -> sensor.
``tf2_msgs`` is part of ROS 2 but not of its PyPI wheels. Where it is missing, no TF is published.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from nav_msgs.msg import OccupancyGrid as GridMessage
from nav_msgs.msg import Path
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.runtime.subscriptions import LATCHED
from svfm_ros.pipeline.live.worker import Worker
from svfm_ros.pipeline.slam_engine import MapDrawer, keyframes_of
from svfm_ros.pipeline.tracking import Tracking
from svfm_ros.types import OccupancyGrid, Pose2

__all__ = ["MapPublisher", "TransformPublisher"]


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """State of SLAM that one update of map and track is drawn from."""

    drawer: MapDrawer
    stamp_ns: int
    keyframes: tuple[Any, ...] | None  # None: the map has not changed
    stamps_ns: NDArray[np.int64]  # (T,)
    poses: NDArray[np.float64]  # (T, 3)


class MapPublisher:
    """Publishes ``map`` and ``track``, both latched. ``grid`` is the map published last, or the given one."""

    def __init__(
        self,
        node: Node,
        config: Callable[[], SlamNodeConfig],
        given: OccupancyGrid | None,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._config = config
        self._given = given
        self._map_publisher = node.create_publisher(GridMessage, "map", LATCHED)
        self._track_publisher = node.create_publisher(Path, "track", LATCHED)
        self._worker: Worker[_Snapshot] = Worker("draw the map", self._draw, capacity=1, on_error=on_error)
        self._node = node
        self.reset()

    def publish_given(self) -> None:
        """Publish the given map, if there is one."""
        if self._given is not None:
            self._publish_map(self._given, self._node.get_clock().now().nanoseconds)

    def reset(self) -> None:
        """Start with an empty map."""
        self.grid: OccupancyGrid | None = self._given
        self._drawer = MapDrawer(self._config().raster)
        self._map_changed = False
        self._next_map_s = self._next_track_s = 0.0

    def update(self, tracking: Tracking, stamp_ns: int, map_changed: bool) -> None:
        """Take a snapshot for the drawing thread if an update is due; call it in the thread that tracks."""
        now_s, config = time.monotonic(), self._config()
        self._map_changed = self._map_changed or map_changed
        with_map = self._map_changed and now_s >= self._next_map_s
        if not with_map and now_s < self._next_track_s:
            return
        self._next_track_s = now_s + config.track_period_s
        keyframes = None
        if with_map:
            self._next_map_s, self._map_changed = now_s + config.map_period_s, False
            keyframes = keyframes_of(tracking.engine)
        stamps_ns, poses = convert.thinned(*tracking.trajectory(), config.track_points)
        self._worker.put(_Snapshot(self._drawer, stamp_ns, keyframes, stamps_ns, poses))

    def close(self) -> None:
        """Stop the drawing thread."""
        self._worker.stop()

    def _draw(self, snapshot: _Snapshot) -> None:
        frame = self._config().map_frame
        self._track_publisher.publish(
            convert.to_path_wire(snapshot.stamps_ns, snapshot.poses, frame, snapshot.stamp_ns)
        )
        if snapshot.keyframes is not None:
            self._publish_map(snapshot.drawer.draw(snapshot.keyframes), snapshot.stamp_ns)

    def _publish_map(self, grid: OccupancyGrid, stamp_ns: int) -> None:
        self.grid = grid
        self._map_publisher.publish(convert.to_grid_message(grid, self._config().map_frame, stamp_ns))


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
