"""ROS node: subscribes to poses, publishes forecasts of where the wearer walks next.

    ros2 run svfm_ros forecast_node --ros-args -p model:=model.pt [-p what_if_hour:=23.0]

Callbacks only queue messages. One thread forecasts for the latest pose and skips those it has no time for; a second
thread loads models.
"""

import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid as GridMessage
from std_msgs.msg import Bool, String

from svfm_ros.config.node_config import LIVE_SECTIONS, ForecastNodeConfig
from svfm_ros.errors import DataError, SvfmError, reason_of
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.forecast_messages import ForecastPublisher
from svfm_ros.nodes.messages.markers import MarkerStyle
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.diagnostics import ERROR, WARN, Diagnostics, DurationStatistics, Health, RateMeter, worst
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.subscriptions import LATCHED, STEADY
from svfm_ros.pipeline.live.live_forecast import LiveForecaster, WearerPose
from svfm_ros.pipeline.live.model_announcement import ModelAnnouncement, SigningKey, path_inside
from svfm_ros.pipeline.live.pacing import RateLimit
from svfm_ros.pipeline.live.process_control import check_device_name
from svfm_ros.pipeline.live.worker import Worker
from svfm_ros.types import Forecast, Walk
from svfm_ros.walks.places import load_places

__all__ = ["ForecastNode", "main", "make"]

_CHECK_S = 0.25
_FINISH_S = 2.0
_MAX_WAITING = 1000  # poses
_MARKER_BYTES_PER_S = 900_000  # of path markers, live and what-if together


@dataclass(frozen=True, slots=True)
class _ReceivedPose:
    at: WearerPose
    arrival_s: float  # monotonic


class ForecastNode(ConfiguredNode[ForecastNodeConfig]):
    """Forecasts for one wearer."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__(
            "forecast_node", ForecastNodeConfig, live_sections=LIVE_SECTIONS["forecast_node"], **node_options
        )

    def configure(self) -> None:
        """Read the places, make publishers and threads; the model is read in a thread."""
        config = self.config
        self._device = check_device_name(config.device)
        places = load_places(Path(config.places).expanduser()) if config.places else None
        self._live = LiveForecaster(config.recorder, places, config.resident or None, self._device)
        self._model_path, self._model_folder = "", _model_folder(config)
        self._rate_meter, self._durations, self._rate_limit = RateMeter(), DurationStatistics(), RateLimit()
        self._poses: deque[_ReceivedPose] = deque(maxlen=_MAX_WAITING)
        self._map_lock = threading.Lock()
        self._new_map: GridMessage | None = None
        self._map: GridMessage | None = None
        self._forecasts = self._skipped = self._refused_models = 0
        self._forecasts_when_cleared = 0
        self._entropy, self._problem, self._model_problem, self._map_problem = float("nan"), "", "", ""
        self._unknown_reason = ""
        self._publisher = ForecastPublisher(self, "forecast")
        self._what_if_publisher = ForecastPublisher(self, "forecast/what_if")
        self._loader: Worker[ModelAnnouncement] = Worker(
            "load models", self._load, capacity=1, on_error=self._report_model_problem
        )
        self._worker: Worker[None] = Worker("forecast", self._forecast_latest, capacity=1, on_error=self._report)
        if config.model:
            self._loader.put(ModelAnnouncement(str(Path(config.model).expanduser().resolve())))

    def activate(self) -> None:
        """Subscribe."""
        self.create_subscription(PoseWithCovarianceStamped, "pose", self._receive_pose, 100)
        self.create_subscription(String, "model", self._receive_model, LATCHED)
        self.create_subscription(GridMessage, "map", self._receive_map, LATCHED)
        self.create_subscription(Bool, "map_in_house_frame", self._receive_frame_state, LATCHED)
        self.create_timer(_CHECK_S, self._clear_when_silent, clock=STEADY)
        Diagnostics(self, "forecast", self._health)

    def deactivate(self) -> None:
        """Forecast no more and remove the markers."""
        self._poses.clear()
        self._worker.wait_idle(_FINISH_S)
        self._publisher.clear()
        self._what_if_publisher.clear()

    def cleanup(self) -> None:
        """Stop the threads."""
        self._loader.stop(timeout_s=1.0)  # it may be loading a model
        self._worker.stop(timeout_s=2.0)

    # Callbacks

    def _receive_pose(self, message: PoseWithCovarianceStamped) -> None:
        self._rate_meter.tick()
        header, arrival_s = message.header, time.monotonic()
        pose, covariance = convert.from_pose_with_covariance(message)
        at = WearerPose(pose, covariance, convert.stamp_ns(header.stamp), header.frame_id)
        self._poses.append(_ReceivedPose(at, arrival_s))
        self._worker.put(None)

    def _receive_model(self, message: String) -> None:
        try:
            if self._model_folder is None:
                raise DataError("a model was announced, but neither model nor model_folder is set: it is not used")
            announced = ModelAnnouncement.from_text(message.data, SigningKey.read(self._model_folder))
            announced = replace(announced, path=str(path_inside(announced.path, self._model_folder)))
        except SvfmError as error:
            self._refused_models += 1
            self._report_model_problem(error)
        else:
            self._loader.put(announced)

    def _receive_map(self, message: GridMessage) -> None:
        with self._map_lock:
            self._map = self._new_map = message

    def _receive_frame_state(self, message: Bool) -> None:
        self._live.map_in_house_frame = bool(message.data)

    def reconfigure(self, config: ForecastNodeConfig) -> None:
        """Use other options from the next forecast on."""
        self._live.set_config(config.forecast)
        if config.what_if_hour is None:
            self._what_if_publisher.clear()
        with self._map_lock:
            self._new_map = self._map  # the parameter walls may have changed

    def _clear_when_silent(self) -> None:
        silent = self._rate_meter.silent_s > self.config.silent_s
        if silent and self._forecasts > self._forecasts_when_cleared:
            self._forecasts_when_cleared = self._forecasts
            self._publisher.clear()
            self._what_if_publisher.clear()

    # Thread that loads models

    def _load(self, announced: ModelAnnouncement) -> None:
        current = self._live.model
        if current is not None and announced.model_id and announced.model_id == current.model_id:
            return
        forecaster = self._live.load_model(Path(announced.path), self.config.forecast)
        self._model_problem, self._model_path = "", announced.path
        walks = forecaster.file.footprints.walks
        self.get_logger().info(f"model {forecaster.model_id}, trained on {walks} walks: {announced.path}")

    def _report_model_problem(self, error: Exception) -> None:
        self._model_problem = f"the model is not used: {error}"
        if self.context.ok():
            self.get_logger().error(self._model_problem, throttle_duration_sec=2.0)

    # Thread that forecasts

    def _forecast_latest(self, _item: None) -> None:
        time.sleep(self._rate_limit.wait_s(self.config.rate, time.monotonic()))
        latest = self._take_poses()
        if latest is None or self._live.model is None:
            return
        self._rate_limit.spend(time.monotonic())
        self._update_map()
        at, walk = latest.at, self._live.walk_so_far()
        forecast = self._publish(self._publisher, at, walk)
        self._durations.add(time.monotonic() - latest.arrival_s)
        if self.config.what_if_hour is not None:
            self._publish(self._what_if_publisher, at, walk, self.config.what_if_hour, forecast)
        self._forecasts += 1
        self._problem = ""

    def _take_poses(self) -> _ReceivedPose | None:
        """Add all waiting poses to the walk so far; returns the newest."""
        latest = None
        while self._poses:
            self._skipped += latest is not None
            latest = self._poses.popleft()
            self._live.add_pose(latest.at.stamp_ns, latest.at.pose, latest.at.covariance)
        return latest

    def _update_map(self) -> None:
        with self._map_lock:
            message, self._new_map = self._new_map, None
        if message is None:
            return
        frame = message.header.frame_id
        self._live.set_map(convert.from_grid_message(message) if self.config.walls else None, frame)
        model = self._live.model
        differs = self.config.walls and model is not None and frame != model.file.frame
        self._map_problem = f"walls are not used: the map is in the frame {frame!r}" if differs else ""

    def _publish(
        self,
        publisher: ForecastPublisher,
        at: WearerPose,
        walk: Walk | None,
        what_if_hour: float | None = None,
        live: Forecast | None = None,
    ) -> Forecast | None:
        """Publish the forecast, or the what-if beside the ``live`` forecast."""
        forecast, model, raster = self._live.forecast(at, walk, what_if_hour), self._live.model, self._live.raster
        if forecast is None or model is None or raster is None:
            return None
        publisher.publish(forecast, model.places, self._style(what_if_hour is not None), raster, live)
        if what_if_hour is None:
            self._entropy = float("nan") if forecast.entropy is None else forecast.entropy
            self._unknown_reason = forecast.reason
        return forecast

    def _style(self, what_if: bool) -> MarkerStyle:
        """Marker sizes that keep within the bandwidth."""
        shown = 1 if self.config.what_if_hour is None else 2
        most = MarkerStyle().max_bytes
        style = MarkerStyle(max_bytes=min(most, int(_MARKER_BYTES_PER_S / (shown * self.config.rate))))
        return style.what_if() if what_if else style

    def _report(self, error: Exception) -> None:
        self._problem = reason_of(error)
        if self.context.ok():
            self.get_logger().error(self._problem, throttle_duration_sec=2.0)

    # Diagnostics

    def _health(self) -> Health:
        model, silent_s, what_if = self._live.model, self._rate_meter.silent_s, self.config.what_if_hour
        level, reason = worst(
            (bool(self._model_problem), ERROR, self._model_problem),
            (bool(self._problem), ERROR, self._problem),
            (model is None, WARN, "there is no model yet"),
            (silent_s > self.config.silent_s, WARN, f"no pose for {silent_s:.0f} s"),
            (bool(self._unknown_reason), WARN, f"forecasts are unknown: {self._unknown_reason}"),
            (bool(self._map_problem), WARN, self._map_problem),
        )
        return Health(
            level,
            reason,
            {
                "model": model.model_id if model else "none",
                "model_walks": model.file.footprints.walks if model else 0,
                "model_path": self._model_path,
                "models_refused": self._refused_models,
                "device": model.devices[0] if model else self._device,
                "pose_rate_hz": self._rate_meter.hz,
                "forecasts": self._forecasts,
                "poses_skipped": self._skipped,
                "pose_to_markers_median_ms": self._durations.quantile_ms(0.5),
                "pose_to_markers_p99_ms": self._durations.quantile_ms(0.99),
                "entropy_nats": self._entropy,
                "what_if_hour": "off" if what_if is None else what_if,
            },
        )


def _model_folder(config: ForecastNodeConfig) -> Path | None:
    """The folder that announced models must be in; None where none is configured."""
    if config.model_folder:
        return Path(config.model_folder).expanduser()
    return Path(config.model).expanduser().parent if config.model else None


make = ForecastNode
main = partial(run_node, "forecast_node", ForecastNode)

if __name__ == "__main__":
    sys.exit(main())
