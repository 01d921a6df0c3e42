"""The map and the track as they are shown, drawn in a thread of their own, not more often than asked for."""

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
from svfm_ros.nodes.messages import convert, path_messages
from svfm_ros.pipeline.map_drawer import MapDrawer
from svfm_ros.pipeline.slam_engine import keyframes_of
from svfm_ros.pipeline.tracking import Tracking
from svfm_ros.pipeline.worker import Worker
from svfm_ros.types import OccupancyGrid

__all__ = ["Pictures"]

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@dataclass(frozen=True, slots=True)
class _Picture:
    """What a picture of the present is made of."""

    drawer: MapDrawer
    stamp_ns: int
    keyframes: tuple[Any, ...] | None  # None: the map is as it was
    stamps_ns: NDArray[np.int64]
    poses: NDArray[np.float64]


class Pictures:
    """Publishes ``map`` and ``track``, both latched. ``grid`` is the map shown last, a given one from the start."""

    def __init__(
        self,
        node: Node,
        config: Callable[[], SlamNodeConfig],
        given: OccupancyGrid | None,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._config = config
        self._given = given
        self._map_publisher = node.create_publisher(GridMessage, "map", _LATCHED)
        self._track_publisher = node.create_publisher(Path, "track", _LATCHED)
        self._worker: Worker[_Picture] = Worker("draw", self._draw, capacity=1, on_error=on_error)
        self.start_over()
        if given is not None:
            self._show_map(given, node.get_clock().now().nanoseconds)

    def start_over(self) -> None:
        """The next picture shows nothing of those before."""
        self.grid: OccupancyGrid | None = self._given
        self._drawer = MapDrawer(self._config().raster)
        self._map_due = False
        self._next_map_s = self._next_track_s = 0.0

    def order(self, tracking: Tracking, stamp_ns: int, map_changed: bool) -> None:
        """Take what the next picture needs, if one is due; to be called by the thread that path_messages."""
        now_s, config = time.monotonic(), self._config()
        self._map_due = self._map_due or map_changed
        with_map = self._map_due and now_s >= self._next_map_s
        if not with_map and now_s < self._next_track_s:
            return
        self._next_track_s = now_s + config.track_period_s
        keyframes = None
        if with_map:
            self._next_map_s, self._map_due = now_s + config.map_period_s, False
            keyframes = keyframes_of(tracking.engine)
        stamps_ns, poses = path_messages.thinned(*tracking.trajectory(), config.track_points)
        self._worker.put(_Picture(self._drawer, stamp_ns, keyframes, stamps_ns, poses))

    def close(self) -> None:
        """Stop drawing."""
        self._worker.stop()

    def _draw(self, picture: _Picture) -> None:
        frame = self._config().map_frame
        self._track_publisher.publish(path_messages.to_wire(picture.stamps_ns, picture.poses, frame, picture.stamp_ns))
        if picture.keyframes is not None:
            self._show_map(picture.drawer.draw(picture.keyframes), picture.stamp_ns)

    def _show_map(self, grid: OccupancyGrid, stamp_ns: int) -> None:
        self.grid = grid
        self._map_publisher.publish(convert.to_grid_message(grid, self._config().map_frame, stamp_ns))
