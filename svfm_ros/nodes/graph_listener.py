"""Subscribes to all outputs of the pipeline and records them with their time of arrival, for demo and tests."""

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid as GridMessage
from nav_msgs.msg import Path
from numpy.typing import NDArray
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import LaserScan, PointCloud2
from std_msgs.msg import String

from svfm_ros.nodes.client import call_trigger
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.forecast_messages import from_cloud
from svfm_ros.nodes.messages.serialised import stamp_of_raw
from svfm_ros.nodes.runtime.spin_thread import SpinThread
from svfm_ros.nodes.runtime.subscriptions import LATCHED, LATCHED_WALKS
from svfm_ros.types import Forecast, OccupancyGrid

__all__ = ["GraphListener", "ReceivedMessages", "graph_listener"]

_SENSOR = QoSProfile(depth=200, reliability=ReliabilityPolicy.BEST_EFFORT)
_DEEP = QoSProfile(depth=1000)
_ANSWER_S = 10.0


@dataclass(slots=True)
class ReceivedMessages:
    """Messages by the stamp of the scan they were computed from; times of arrival are monotonic seconds."""

    scan_s: dict[int, float] = field(default_factory=dict)
    pose_s: dict[int, float] = field(default_factory=dict)
    forecast_s: dict[int, float] = field(default_factory=dict)
    poses: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    forecasts: dict[int, dict[str, Any]] = field(default_factory=dict)  # summaries
    what_ifs: dict[int, dict[str, Any]] = field(default_factory=dict)
    clouds: dict[str, dict[int, bytes]] = field(default_factory=lambda: {"forecast": {}, "what_if": {}})
    walks: int = 0
    models: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, dict[str, str]] = field(default_factory=dict)  # key values of each node's diagnostics

    def latencies_ms(self, arrived_s: dict[int, float], stamps_ns: Sequence[int]) -> NDArray[np.float64]:
        """Milliseconds from the arrival of each of these scans to the arrival of the message with its stamp."""
        common = [n for n in stamps_ns if n in arrived_s and n in self.scan_s]
        return np.array([1e3 * (arrived_s[n] - self.scan_s[n]) for n in common])


class GraphListener:
    """A node that spins in a thread of its own until ``close``."""

    def __init__(self, context: rclpy.Context) -> None:
        self.received = ReceivedMessages()
        self._map: bytes = b""
        self._setters: dict[str, Any] = {}
        self._node = rclpy.create_node("graph_listener", context=context)
        subscribe = self._node.create_subscription
        subscribe(LaserScan, "scan", self._scan, _SENSOR, raw=True)
        subscribe(PoseWithCovarianceStamped, "pose", self._pose, _DEEP)
        subscribe(Path, "walk", self._walk, LATCHED_WALKS, raw=True)
        subscribe(String, "model", self._model, LATCHED)
        subscribe(GridMessage, "map", self._receive_map, LATCHED, raw=True)
        subscribe(String, "forecast/summary", self._forecast, LATCHED)
        subscribe(String, "forecast/what_if/summary", self._what_if, LATCHED)
        for name, topic in (("forecast", "forecast/samples"), ("what_if", "forecast/what_if/samples")):
            subscribe(PointCloud2, topic, self._cloud(name), LATCHED, raw=True)
        subscribe(DiagnosticArray, "/diagnostics", self._diagnostics, 100)
        self._spinning = SpinThread(self._node, "graph listener")

    def close(self) -> None:
        """Stop spinning and destroy the node."""
        self._spinning.stop()
        self._node.destroy_node()

    def call(self, service: str, timeout_s: float = 20.0) -> tuple[bool, str]:
        """Call a Trigger service; returns success and message."""
        return call_trigger(self._node, service, timeout_s)

    def set_parameter(self, node: str, name: str, value: str | float) -> None:
        """Set a parameter of a node without waiting for its answer; nothing happens where the node is not there."""
        if node not in self._setters:
            self._setters[node] = self._node.create_client(SetParameters, f"/{node}/set_parameters")
        if self._setters[node].wait_for_service(_ANSWER_S):
            setting = Parameter(name, value=value).to_parameter_msg()
            self._setters[node].call_async(SetParameters.Request(parameters=[setting]))

    def map(self) -> OccupancyGrid | None:
        """The map published last."""
        return convert.from_grid_message(deserialize_message(self._map, GridMessage)) if self._map else None

    def forecast(self, name: str, stamp_ns: int) -> Forecast | None:
        """The live forecast or the what-if with that stamp, from its samples and summary."""
        summary = (self.received.forecasts if name == "forecast" else self.received.what_ifs).get(stamp_ns)
        cloud = self.received.clouds[name].get(stamp_ns)
        return (
            None if cloud is None or summary is None else from_cloud(deserialize_message(cloud, PointCloud2), summary)
        )

    def _scan(self, raw: bytes) -> None:
        self.received.scan_s[stamp_of_raw(raw)] = time.monotonic()

    def _pose(self, message: PoseWithCovarianceStamped) -> None:
        now_s, stamp_ns = time.monotonic(), convert.stamp_ns(message.header.stamp)
        self.received.pose_s[stamp_ns] = now_s
        self.received.poses[stamp_ns] = convert.from_pose(message.pose.pose).as_array()

    def _walk(self, _raw: bytes) -> None:
        self.received.walks += 1

    def _model(self, message: String) -> None:
        self.received.models.append(json.loads(message.data))

    def _receive_map(self, raw: bytes) -> None:
        self._map = bytes(raw)

    def _forecast(self, message: String) -> None:
        now_s, summary = time.monotonic(), json.loads(message.data)
        self.received.forecast_s[summary["stamp_ns"]] = now_s
        self.received.forecasts[summary["stamp_ns"]] = summary

    def _what_if(self, message: String) -> None:
        summary = json.loads(message.data)
        self.received.what_ifs[summary["stamp_ns"]] = summary

    def _cloud(self, name: str) -> Any:
        def take(raw: bytes) -> None:
            self.received.clouds[name][stamp_of_raw(raw)] = bytes(raw)

        return take

    def _diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            name = status.name.partition(":")[0]
            figures = {v.key: v.value for v in status.values}
            self.received.figures[name] = {**figures, "message": status.message}


@contextlib.contextmanager
def graph_listener() -> Iterator[GraphListener]:
    """A listener in a ROS context of its own."""
    context = rclpy.Context()
    rclpy.init(context=context)
    listener = GraphListener(context)
    try:
        yield listener
    finally:
        listener.close()
        rclpy.shutdown(context=context)
