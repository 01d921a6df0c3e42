"""ROS node: serves the live page, a browser's view of the whole graph.

    ros2 run svfm_ros web_node [--ros-args -p port:=8600]

Callbacks keep the latest messages as they came; they are turned into what the page draws only while a page is open, in
the server's thread (``web.live_server``). Subscriptions are best effort or hold one message, so that no publisher waits
for this node.
"""

import json
import math
import os
import struct
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid as GridMessage
from nav_msgs.msg import Path as PathMessage
from numpy.typing import NDArray
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import LaserScan, PointCloud2
from std_msgs.msg import String
from std_srvs.srv import SetBool

from svfm_ros.clock import NS_PER_S, hours_of_day
from svfm_ros.config.node_config import WebNodeConfig
from svfm_ros.errors import reason_of
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.forecast_messages import bundle_from_cloud
from svfm_ros.nodes.messages.serialised import stamp_of_raw
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.diagnostics import Diagnostics, Health
from svfm_ros.nodes.runtime.graph_description import WEB_TOKEN_VARIABLE
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.subscriptions import LATCHED, LATCHED_WALKS, STEADY
from svfm_ros.pipeline.live.live_forecast import WalkSoFar
from svfm_ros.pipeline.live.pacing import CallLimit
from svfm_ros.report.drawn_plan import thinned_centimetres
from svfm_ros.slam.occupancy import echoes
from svfm_ros.types import Pose2
from svfm_ros.web import words
from svfm_ros.web.live_server import LiveServer
from svfm_ros.web.live_state import LatestState, density_bytes, json_bytes, map_bytes, path_bundle_bytes, polyline_bytes
from svfm_ros.web.page_address import page_token
from svfm_ros.web.pages import live_page

__all__ = ["WebNode", "main", "make", "scan_bytes"]

_LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
_POSES = QoSProfile(depth=20, reliability=ReliabilityPolicy.BEST_EFFORT)
_NEWS_S = 0.5
_SILENT_S = 3.5  # nodes publish their diagnostics once a second
_DENSITY_S = 0.5
_TREND_STEP_S = 1.0  # of the data
_MOST_SCANS = 200  # that wait for their pose
_SCAN_S = 1.0  # of the data; then a scan is no longer drawn beside later poses
_MOST_BEAMS = 360
_LONGEST_GAP_S = 0.5  # between two poses from which the sensor's velocity is computed
_MOST_WALKS = 100
_WALK_POINTS = 150
_MOST_ASKED = 50  # requests a second, of all pages
_LARGEST = 1e9  # number in a request
_SOURCES = ("player", "sim_node")
_ORDER = ("slam_node", "trainer_node", "forecast_node", *_SOURCES)


class WebNode(ConfiguredNode[WebNodeConfig]):
    """The live page of one wearer."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("web_node", WebNodeConfig, **node_options)

    def configure(self) -> None:
        """Serve the page."""
        config = self.config
        self._state = LatestState(self._report)
        self._scans: OrderedDict[int, bytes] = OrderedDict()
        self._walks: deque[tuple[float, list[int]]] = deque(maxlen=_MOST_WALKS)
        self._trend: deque[tuple[float, float, float]] = deque()  # stamp s, entropy, unfamiliar
        self._reports: dict[str, words.NodeReport] = {}
        self._places: list[dict[str, Any]] = []
        self._mount: Pose2 | None = None
        self._problem, self._problem_until_s = "", 0.0
        self._last_pose_s = -math.inf  # monotonic
        self._last_sensor = 0, Pose2()  # stamp and pose in the map
        self._scan_ns = 0  # stamp of the scan that is drawn
        self._next_density_s = 0.0
        self._asked = CallLimit(_MOST_ASKED)
        self._forecaster = self.create_client(SetParameters, "forecast_node/set_parameters")
        self._slam = self.create_client(GetParameters, "slam_node/get_parameters")
        self._sources = {
            name: (
                self.create_client(SetBool, f"{name}/pause"),
                self.create_client(SetParameters, f"{name}/set_parameters"),
            )
            for name in _SOURCES
        }
        token = os.environ.get(WEB_TOKEN_VARIABLE, "") or page_token(config.host)
        self._server = LiveServer(
            live_page(), self._state, self._ask, host=config.host, port=config.port, token=token, rate_hz=config.rate
        )
        self.get_logger().info(f"the live page is at {self._server.address}")

    def activate(self) -> None:
        """Show what the other nodes publish."""
        self._walk_so_far = WalkSoFar(self.config.recorder)
        self._subscribe()
        self.create_timer(_NEWS_S, self._put_news, clock=STEADY)
        Diagnostics(self, "live page", self._health)

    def cleanup(self) -> None:
        """Close all pages."""
        self._server.close()
        for client in (self._forecaster, self._slam, *(c for pair in self._sources.values() for c in pair)):
            self.destroy_client(client)

    def _subscribe(self) -> None:
        subscribe = self.create_subscription
        subscribe(GridMessage, "map", self._receive_map, LATCHED, raw=True)
        subscribe(LaserScan, "scan", self._receive_scan, _LATEST, raw=True)
        subscribe(PoseWithCovarianceStamped, "pose", self._receive_pose, _POSES)
        subscribe(PathMessage, "walk", self._receive_walk, LATCHED_WALKS, raw=True)
        subscribe(PointCloud2, "forecast/samples", self._paths("f"), _LATEST, raw=True)
        subscribe(PointCloud2, "forecast/what_if/samples", self._paths("h"), _LATEST, raw=True)
        subscribe(GridMessage, "forecast/density", self._receive_density, _LATEST, raw=True)
        subscribe(String, "forecast/summary", self._receive_summary, LATCHED)
        subscribe(String, "forecast/what_if/summary", self._receive_what_if, LATCHED)
        subscribe(DiagnosticArray, "/diagnostics", self._receive_diagnostics, 50)

    def _report(self, error: Exception) -> None:
        self._say_problem(reason_of(error))
        if self.context.ok():
            self.get_logger().error(self._problem, throttle_duration_sec=5.0)

    def _say_problem(self, problem: str) -> None:
        self._problem, self._problem_until_s = problem, time.monotonic() + 10.0

    # Messages

    def _receive_map(self, raw: bytes) -> None:
        self._state.put("m", lambda: map_bytes(_grid(raw)))

    def _receive_scan(self, raw: bytes) -> None:
        self._scans[stamp_of_raw(raw)] = raw
        while len(self._scans) > _MOST_SCANS:
            self._scans.popitem(last=False)

    def _receive_pose(self, message: PoseWithCovarianceStamped) -> None:
        stamp_ns, pose = convert.stamp_ns(message.header.stamp), convert.from_pose(message.pose.pose)
        self._last_pose_s = time.monotonic()
        self._walk_so_far.push(stamp_ns, pose)
        self._state.put("w", lambda: self._walker_bytes(stamp_ns, pose))
        (before_ns, before), sensor = self._last_sensor, pose @ (self._mount or Pose2())
        self._last_sensor = stamp_ns, sensor
        raw = self._scans.pop(stamp_ns, None)
        if raw is not None:
            self._scan_ns = stamp_ns
            self._state.put("s", lambda: scan_bytes(raw, sensor, before, (stamp_ns - before_ns) / NS_PER_S))
        elif abs(stamp_ns - self._scan_ns) > _SCAN_S * NS_PER_S:
            self._state.put("s", bytes)

    def _walker_bytes(self, stamp_ns: int, pose: Pose2) -> bytes:
        """Pose and local hour as 32 bit floats, then the walk so far."""
        hour = float(hours_of_day(np.array([stamp_ns]), self.config.time_zone)[0])
        walk = self._walk_so_far.walk()
        xy = np.empty((0, 2)) if walk is None else _thinned(walk.xy, _WALK_POINTS)
        return struct.pack("<ffff", pose.x, pose.y, pose.theta, hour) + polyline_bytes(xy)

    def _receive_walk(self, raw: bytes) -> None:
        walk = convert.from_path(deserialize_message(raw, PathMessage), "")
        hour = float(hours_of_day(walk.stamps_ns[:1], self.config.time_zone)[0])
        self._walks.append((hour, thinned_centimetres(walk)))
        walks = list(self._walks)
        self._state.put("a", lambda: b"".join(_walk_bytes(*walk) for walk in walks))

    def _paths(self, kind: str) -> Callable[[bytes], None]:
        def receive(raw: bytes) -> None:
            self._state.put(kind, lambda: path_bundle_bytes(*bundle_from_cloud(deserialize_message(raw, PointCloud2))))

        return receive

    def _receive_density(self, raw: bytes) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_density_s:
            self._next_density_s = now_s + _DENSITY_S
            self._state.put("d", lambda: density_bytes(_grid(raw)))

    def _receive_summary(self, message: String) -> None:
        summary = json.loads(message.data)
        places = [
            {"name": n, "x": x, "y": y, "radius": r, "colour": summary["colours"][n]}
            for n, (x, y, r) in summary["positions"].items()
        ]
        if places != self._places:
            self._places = places
            self._state.put("p", lambda: json_bytes(places))
        self._state.put("j", lambda: json_bytes(_shown(summary)))
        self._add_to_trend(summary)

    def _receive_what_if(self, message: String) -> None:
        self._state.put("k", lambda: json_bytes(_shown(json.loads(message.data))))

    def _add_to_trend(self, summary: dict[str, Any]) -> None:
        stamp_s = summary["stamp_ns"] / NS_PER_S
        if self._trend and not 0.0 <= stamp_s - self._trend[-1][0] < self.config.trend_s:
            self._trend.clear()  # the clock jumped
        if self._trend and stamp_s - self._trend[-1][0] < _TREND_STEP_S:
            return
        entropy = float(summary["entropy"]) if summary["known"] and summary["entropy"] is not None else math.nan
        self._trend.append((stamp_s, entropy, float(summary["unfamiliar"]) if summary["known"] else math.nan))
        while stamp_s - self._trend[0][0] > self.config.trend_s:
            self._trend.popleft()
        rows = np.array(self._trend)
        rows[:, 0] -= stamp_s
        self._state.put("t", lambda: rows.astype("<f4").tobytes())

    # What the nodes say about themselves

    def _receive_diagnostics(self, message: DiagnosticArray) -> None:
        own = self.get_namespace().strip("/")
        for status in message.status:
            name = status.name.partition(":")[0].rpartition("/")[2]
            if status.hardware_id == own and name in _ORDER:
                figures = {v.key: v.value for v in status.values}
                level = status.level[0] if isinstance(status.level, bytes) else int(status.level)
                self._reports[name] = words.NodeReport(name, level, status.message, figures, time.monotonic())

    def _put_news(self) -> None:
        if self._mount is None and self._slam.service_is_ready():
            self._mount = Pose2()
            asked = self._slam.call_async(GetParameters.Request(names=["mount"]))
            asked.add_done_callback(self._take_mount)
        try:
            news = self._news()
        except (ValueError, OverflowError) as error:  # diagnostics may come from anybody
            self._report(error)
            return
        self._state.put("n", lambda: json_bytes(news))

    def _take_mount(self, answered: Any) -> None:
        values = answered.result().values if answered.result() is not None else []
        if values and len(values[0].double_array_value) == 3:
            self._mount = Pose2.from_array(values[0].double_array_value)

    def _news(self) -> dict[str, Any]:
        now_s = time.monotonic()
        trainer = self._reports.get("trainer_node", words.NodeReport("trainer_node"))
        for name in _SOURCES:  # a replay that is over is no problem
            if name in self._reports and now_s - self._reports[name].heard_s > _SILENT_S:
                del self._reports[name]
        source = next((self._reports[name] for name in _SOURCES if name in self._reports), None)
        what_if = self._reports.get("forecast_node", words.NodeReport("forecast_node")).number("what_if_hour")
        return {
            "line": self._line(),
            "caption": self.config.caption,
            "walks": words.walks_words(trainer),
            "training": _training_share(trainer),
            "what_if": what_if,
            "problem": self._problem if now_s < self._problem_until_s else "",
            "replay": None if source is None else _replay(source),
            "nodes": [self._node_line(self._reports[name], now_s) for name in _ORDER if name in self._reports],
        }

    def _line(self) -> str:
        slam = self._reports.get("slam_node")
        if slam is None:
            return "waiting for the nodes"
        if time.monotonic() - self._last_pose_s > _SILENT_S:
            return slam.message if slam.level != words.OK else "waiting for scans"
        return "the wearer is walking" if self._walk_so_far.is_walking else "the wearer rests"

    @staticmethod
    def _node_line(report: words.NodeReport, now_s: float) -> dict[str, Any]:
        silent_s = now_s - report.heard_s if now_s - report.heard_s > _SILENT_S else 0.0
        level = words.ERROR if silent_s else report.level
        return {"name": report.node, "level": level, "words": words.node_words(report, silent_s)}

    # What people ask for on the page, called in the server's thread

    def _ask(self, asked: dict[str, Any]) -> None:
        if not self._asked.admit():
            return
        if "what_if" in asked:
            self._ask_what_if(asked["what_if"])
        elif isinstance(asked.get("pause"), bool):
            for pause, _ in self._sources.values():
                if pause.service_is_ready():
                    pause.call_async(SetBool.Request(data=asked["pause"]))
        elif _is_number(asked.get("rate")) and 0.0 < asked["rate"] <= 1000.0:
            for _, parameters in self._sources.values():
                if parameters.service_is_ready():
                    parameters.call_async(_setting("rate", float(asked["rate"])))

    def _ask_what_if(self, hour: Any) -> None:
        if hour is not None and not (_is_number(hour) and 0.0 <= hour <= 24.0):
            return
        if not self._forecaster.service_is_ready():
            self._say_problem("The forecaster does not answer: it is not running.")
            return
        answered = self._forecaster.call_async(_setting("what_if_hour", math.nan if hour is None else float(hour)))
        answered.add_done_callback(self._check_answer)

    def _check_answer(self, answered: Any) -> None:
        refused = [r.reason for r in answered.result().results if not r.successful] if answered.result() else []
        if refused:
            self._say_problem(f"The forecaster refused: {refused[0]}")

    def _health(self) -> Health:
        return Health(figures={"pages": self._server.pages, "pages_dropped": self._server.dropped})


def _grid(raw: bytes) -> Any:
    return convert.from_grid_message(deserialize_message(raw, GridMessage))


def scan_bytes(raw: bytes, T_map_sensor: Pose2, T_map_before: Pose2, gap_s: float) -> bytes:
    """Echoes of a scan in the frame of the map; a motion like that since the pose before is taken out of the sweep."""
    known = 0.0 < gap_s < _LONGEST_GAP_S
    twist = (T_map_before.inverse() @ T_map_sensor).twist() / gap_s if known else None
    seen = echoes(convert.from_laser_scan(deserialize_message(raw, LaserScan)), math.inf, twist)
    return polyline_bytes(T_map_sensor.apply(_thinned(seen, _MOST_BEAMS)))


def _thinned(xy: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    rows = np.unique(np.linspace(0, len(xy) - 1, min(most, len(xy))).round().astype(int))
    return np.asarray(xy[rows])


def _walk_bytes(hour: float, centimetres: list[int]) -> bytes:
    xy_m = np.array(centimetres, dtype=float).reshape(-1, 2) / 100.0
    return struct.pack("<fH", hour, len(xy_m)) + polyline_bytes(xy_m)


def _shown(summary: dict[str, Any]) -> dict[str, Any]:
    """What the page needs of a summary; shares in the order of the places, elsewhere last."""
    places = list(summary["positions"])
    names = [*places, *(name for name in summary["shares"] if name not in places)]
    kept = {key: summary[key] for key in ("stamp_ns", "known", "reason", "entropy", "unfamiliar", "walks")}
    return {**kept, "names": names, "shares": [summary["shares"].get(name, 0.0) for name in names]}


def _training_share(trainer: words.NodeReport) -> float | None:
    """How much of the training is done, 0 to 1; None while there is none."""
    if trainer.figures.get("state") != "training":
        return None
    step, _, steps = trainer.figures.get("step", "").partition(" of ")
    return float(step) / float(steps) if step.isdigit() and steps.isdigit() and int(steps) else 0.0


def _replay(source: words.NodeReport) -> dict[str, Any]:
    return {
        "position_s": source.number("position_s"),
        "length_s": source.number("length_s"),
        "rate": source.number("rate"),
        "paused": source.figures.get("paused") == "True",
        "words": words.replay_words(source),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _setting(name: str, value: float) -> SetParameters.Request:
    parameter: ParameterMessage = Parameter(name, value=value).to_parameter_msg()
    return SetParameters.Request(parameters=[parameter])


make = WebNode
main = partial(run_node, "web_node", WebNode)

if __name__ == "__main__":
    sys.exit(main())
