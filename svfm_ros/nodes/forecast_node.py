"""Poses in; where their wearer may go next, on the map, out.

    ros2 run svfm_ros forecast_node [--ros-args -p model:=model.pt -p what_if_hour:=23.0]

Callbacks only hand messages over. One thread forecasts for the latest pose and skips those it has no time for; a second
loads models, which are swapped between two forecasts. ``forecast/samples`` is described in ``samples``.
"""

import dataclasses
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid as GridMessage
from rclpy.clock import Clock, ClockType
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from svfm_ros.config.node_config import LIVE_SECTIONS, ForecastNodeConfig
from svfm_ros.errors import SvfmError
from svfm_ros.forecasting.model_places import places_from
from svfm_ros.nodes.forecast_publisher import ForecastTopics
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.announcement import Announcement
from svfm_ros.nodes.messages.markers import MarkerStyle
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.diagnostics import ERROR, WARN, Diagnostics, Health, Latencies, RateMeter, worst
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.pipeline.device_name import device_name
from svfm_ros.pipeline.pacing import Budget
from svfm_ros.pipeline.walk_so_far import WalkSoFar
from svfm_ros.pipeline.worker import Worker
from svfm_ros.types import Pose2, Walk
from svfm_ros.walks.places import load_places

if TYPE_CHECKING:  # what is compiled takes a while to load: the node is there before
    from svfm_ros.forecasting.forecaster import Forecaster

__all__ = ["ForecastNode", "main", "make"]

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
_STEADY = Clock(clock_type=ClockType.STEADY_TIME)
_LOOK_S = 0.25
_MOST_WAITING = 1000
_BYTES_PER_S = 900_000  # of path markers, live and what-if together


@dataclass(frozen=True, slots=True)
class _Arrived:
    message: PoseWithCovarianceStamped
    at_s: float


@dataclass(frozen=True, slots=True)
class _Question:
    """Where the wearer is and how they came there; the same for the live forecast and for the what-if."""

    pose: Pose2
    covariance: Any  # (3, 3)
    stamp_ns: int
    frame: str
    walk: Walk | None

    @classmethod
    def of(cls, message: PoseWithCovarianceStamped, walk: Walk | None) -> "_Question":
        pose, covariance = convert.from_pose_with_covariance(message)
        return cls(pose, covariance, convert.stamp_ns(message.header.stamp), message.header.frame_id, walk)


class ForecastNode(ConfiguredNode[ForecastNodeConfig]):
    """Forecasts for one wearer."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "forecast_node", ForecastNodeConfig, live_sections=LIVE_SECTIONS["forecast_node"], **node_options
        )
        config = self.config
        self._device = device_name(config.device)
        self._places = load_places(Path(config.places).expanduser()) if config.places else None
        self._walk_so_far = WalkSoFar(config.recorder)
        self._meter, self._latencies, self._budget = RateMeter(), Latencies(), Budget()
        self._poses: deque[_Arrived] = deque(maxlen=_MOST_WAITING)
        self._forecaster: Forecaster | None = None
        self._announced = Announcement("")
        self._map: GridMessage | None = None
        self._map_is_new = False
        self._made = self._skipped = self._silences = 0
        self._entropy, self._problem, self._model_problem = float("nan"), "", ""
        self._live, self._what_if = ForecastTopics(self, "forecast"), ForecastTopics(self, "forecast/what_if")
        self._swapping = threading.Lock()
        self._loader: Worker[Announcement] = Worker("load models", self._load, capacity=1, on_error=self._say_model)
        self._worker: Worker[None] = Worker("forecast", self._forecast_latest, capacity=1, on_error=self._say)
        if config.model:
            self._loader.put(Announcement(config.model))
        self.parameters.on_change(self._reconfigure)
        self.create_subscription(PoseWithCovarianceStamped, "pose", self._receive, 100)
        self.create_subscription(String, "model", self._hear, _LATCHED)
        self.create_subscription(GridMessage, "map", self._take_map, _LATCHED)
        self.create_timer(_LOOK_S, self._clear_when_silent, clock=_STEADY)
        Diagnostics(self, "forecast", self._health)

    def close(self) -> None:
        """Stop the threads and leave the graph."""
        self._loader.stop(timeout_s=1.0)  # it may be loading a model
        self._worker.stop(timeout_s=2.0)
        super().close()

    # Callbacks: they only hand over

    def _receive(self, message: PoseWithCovarianceStamped) -> None:
        self._meter.tick()
        self._poses.append(_Arrived(message, time.monotonic()))
        self._worker.put(None)

    def _hear(self, message: String) -> None:
        try:
            self._loader.put(Announcement.from_text(message.data))
        except SvfmError as error:
            self._say_model(error)

    def _take_map(self, message: GridMessage) -> None:
        self._map, self._map_is_new = message, True

    def _reconfigure(self, config: ForecastNodeConfig) -> None:
        with self._swapping:
            if self._forecaster is not None:
                forecaster = self._forecaster
                forecaster.config = dataclasses.replace(config.forecast, frame=forecaster.file.frame)
        if config.what_if_hour is None:
            self._what_if.clear()
        self._map_is_new = self._map is not None

    def _clear_when_silent(self) -> None:
        if self._meter.silent_s > self.config.silent_s and self._made > self._silences:
            self._silences = self._made
            self._live.clear()
            self._what_if.clear()

    # The thread that loads models

    def _load(self, announced: Announcement) -> None:
        from svfm_ros.forecasting.forecaster import Forecaster
        from svfm_ros.forecasting.table_file import ForecastFile, open_model
        from svfm_ros.forecasting.visit_density import density_grid

        with self._swapping:
            current = self._forecaster
        if current is not None and announced.model_id and announced.model_id == current.model_id:
            return
        file = open_model(announced.file, self.config.device)
        places = self._places if self._places is not None else places_from(file.metrics)
        config = dataclasses.replace(self.config.forecast, frame=file.frame)
        forecaster = Forecaster(file, places, config)
        density_grid(forecaster.warm_up().samples_xy, config.cell_m)
        with self._swapping:
            self._forecaster, self._announced, self._map_is_new = forecaster, announced, self._map is not None
        self._model_problem = ""
        self._device = "cpu" if isinstance(file, ForecastFile) else str(file.model.shift.device)
        self.get_logger().info(f"model {forecaster.model_id}, from {file.footprints.walks} walks: {announced.path}")

    def _say_model(self, error: Exception) -> None:
        self._model_problem = f"the model is not used: {error}"
        if self.context.ok():
            self.get_logger().error(self._model_problem)

    # The thread that forecasts

    def _forecast_latest(self, _token: None) -> None:
        time.sleep(self._budget.wait_s(self.config.rate, time.monotonic()))
        latest = self._drain()
        with self._swapping:
            forecaster = self._forecaster
        if latest is None or forecaster is None:
            return
        self._budget.spend(time.monotonic())
        if self._map_is_new:
            self._map_is_new = False
            use = self.config.walls and self._map is not None
            forecaster.set_walls(convert.from_grid_message(self._map) if use else None)
        self._forecast(forecaster, latest)

    def _drain(self) -> _Arrived | None:
        """All poses that wait go into the walk so far; the newest is returned."""
        latest = None
        while self._poses:
            self._skipped += latest is not None
            latest = self._poses.popleft()
            pose, stamp_ns = convert.from_pose(latest.message.pose.pose), convert.stamp_ns(latest.message.header.stamp)
            self._walk_so_far.push(stamp_ns, pose)
        return latest

    def _forecast(self, forecaster: "Forecaster", arrived: _Arrived) -> None:
        question = _Question.of(arrived.message, self._walk_so_far.walk())
        self._entropy = self._show(forecaster, self._live, question, None)
        self._latencies.add(time.monotonic() - arrived.at_s)
        what_if_hour = self.config.what_if_hour
        if what_if_hour is not None:
            self._show(forecaster, self._what_if, question, what_if_hour)
        self._made += 1
        self._problem = ""

    def _show(
        self, forecaster: "Forecaster", topics: ForecastTopics, question: "_Question", what_if_hour: float | None
    ) -> float:
        """Publish what is forecast; returns its entropy."""
        forecast = forecaster.forecast(
            (question.pose.x, question.pose.y),
            question.stamp_ns,
            covariance=question.covariance[:2, :2],
            walk_so_far=question.walk,
            what_if_hour=what_if_hour,
        )
        forecast = dataclasses.replace(forecast, frame=question.frame)
        topics.show(forecast, forecaster.places, self._style(what_if_hour is not None), forecaster.config.cell_m)
        return forecast.entropy

    def _style(self, what_if: bool) -> MarkerStyle:
        """As large as the bandwidth lets it be."""
        shown = 1 if self.config.what_if_hour is None else 2
        most = MarkerStyle().max_bytes
        style = MarkerStyle(max_bytes=min(most, int(_BYTES_PER_S / (shown * self.config.rate))))
        return style.what_if() if what_if else style

    def _say(self, error: Exception) -> None:
        self._problem = str(error) if isinstance(error, SvfmError) else f"{type(error).__name__}: {error}"
        if self.context.ok():
            self.get_logger().error(self._problem, throttle_duration_sec=2.0)

    # Diagnostics

    def _health(self) -> Health:
        with self._swapping:
            forecaster, announced = self._forecaster, self._announced
        silent_s = self._meter.silent_s
        level, reason = worst(
            (bool(self._model_problem), ERROR, self._model_problem),
            (bool(self._problem), ERROR, self._problem),
            (forecaster is None, WARN, "there is no model yet"),
            (silent_s > self.config.silent_s, WARN, f"no pose for {silent_s:.0f} s"),
        )
        what_if = self.config.what_if_hour
        return Health(
            level,
            reason,
            {
                "model": forecaster.model_id if forecaster else "none",
                "model_walks": forecaster.file.footprints.walks if forecaster else 0,
                "model_path": announced.path,
                "device": self._device,
                "pose_rate_hz": self._meter.hz,
                "forecasts": self._made,
                "poses_skipped": self._skipped,
                "pose_to_markers_median_ms": self._latencies.quantile_ms(0.5),
                "pose_to_markers_p99_ms": self._latencies.quantile_ms(0.99),
                "entropy_nats": self._entropy,
                "what_if_hour": "off" if what_if is None else what_if,
            },
        )


make = ForecastNode


def main(args: Sequence[str] | None = None) -> int:
    """Run forecasts in this process."""
    return run_node("forecast_node", ForecastNode, args)


if __name__ == "__main__":
    sys.exit(main())
