"""Forecasts for the walk under way: poses and the map in, forecasts and their density out. No ROS in here."""

import dataclasses
import logging
import threading
from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import previous_of
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.forecast_config import ForecastConfig
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import DataError
from svfm_ros.pipeline.model_input import forecaster_of
from svfm_ros.types import Forecast, OccupancyGrid, Places, Pose2, Walk
from svfm_ros.walks.place_names import named_by_plan
from svfm_ros.walks.walk_recorder import WalkRecorder

if TYPE_CHECKING:  # compiled code takes a while to load: it is imported with the first model
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.forecasting.visit_density import DensityRaster

__all__ = ["LiveForecaster", "WalkSoFar", "WearerPose"]

_log = logging.getLogger(__name__)
_BACK_NS = 1 * NS_PER_S  # stamps that go back by more than this begin a new recording
_LEAST_STEP_NS = NS_PER_S // 200  # no LiDAR turns as fast; whoever publishes faster must not fill the memory


@dataclass(frozen=True, slots=True)
class WearerPose:
    """Pose of the wearer with its covariance (3, 3) of x, y, theta, stamp and frame."""

    pose: Pose2
    covariance: NDArray[np.float64]
    stamp_ns: int
    frame: str


class WalkSoFar:
    """Poses since the wearer set off, by the rules of the walk recorder."""

    def __init__(self, config: RecorderConfig) -> None:
        self._config = config
        self._restart()

    def _restart(self) -> None:
        self._recorder = WalkRecorder(self._config)
        self._poses: deque[tuple[int, Pose2, NDArray[np.float64]]] = deque()

    def push(self, stamp_ns: int, pose: Pose2, covariance: NDArray[np.float64] | None = None) -> None:
        """Add a pose with its covariance (3, 3) of x, y, theta; without a usable one the pose counts as exact.

        One that is slightly older than the last one, or hardly newer, is left out.
        """
        if self._poses and self._poses[-1][0] - stamp_ns > _BACK_NS:
            self._restart()
        if self._poses and 0 < stamp_ns - self._poses[-1][0] < _LEAST_STEP_NS:
            return
        try:
            self._recorder.push(stamp_ns, pose)
        except DataError:
            return
        self._poses.append((stamp_ns, pose, _usable(covariance)))
        keep_ns = round((self._config.longest_s + self._config.dwell_time_s) * NS_PER_S)
        while stamp_ns - self._poses[0][0] > keep_ns:
            self._poses.popleft()

    @property
    def is_walking(self) -> bool:
        """Whether a walk is under way; False at rest."""
        return self._recorder.walk_so_far_ns is not None

    def walk(self) -> Walk | None:
        """The walk up to the last pose; None at rest."""
        since_ns = self._recorder.walk_so_far_ns
        if since_ns is None:
            return None
        rows = list(takewhile(lambda p: p[0] >= since_ns, reversed(self._poses)))[::-1]
        if len(rows) < 2:
            return None
        stamps_ns = np.array([p[0] for p in rows], dtype=np.int64)  # (T,)
        poses = np.array([(p.x, p.y, p.theta) for _, p, _ in rows])
        return Walk("now", "", stamps_ns, poses, covariance=np.array([c for _, _, c in rows]))


def _usable(covariance: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The covariance (3, 3), or zeros where a publisher does not know it: NaN, infinite or a negative variance."""
    if covariance is None or not np.isfinite(covariance).all() or np.diagonal(covariance).min() < 0.0:
        return np.zeros((3, 3))
    return covariance


class LiveForecaster:
    """One wearer, the model in use and the map.

    ``load_model`` may be called from another thread than the other methods: the model is swapped between forecasts.
    """

    def __init__(
        self,
        recorder: RecorderConfig,
        places: Places | None = None,
        resident: str | None = None,
        device: str = "cpu",
    ) -> None:
        """``device`` is where forecasts run; see ``Forecaster``."""
        self._recorder = recorder
        self._walk_so_far = WalkSoFar(recorder)
        self._places, self._resident, self._device = places, resident, device
        self._lock = threading.Lock()
        self._forecaster: Forecaster | None = None
        self._raster: DensityRaster | None = None
        self._map: OccupancyGrid | None = None
        self._map_frame = ""
        self._map_is_new = False
        self._named_by_map = False  # the places of the model in use
        self._map_in_house_frame = True
        self._map_has_moved = False

    @property
    def model(self) -> "Forecaster | None":
        """The forecaster of the model in use; None before the first."""
        with self._lock:
            return self._forecaster

    @property
    def raster(self) -> "DensityRaster | None":
        """Grid for the density of paths, around all walks of the model; None before the first model."""
        with self._lock:
            return self._raster

    def load_model(self, path: Path, config: ForecastConfig) -> "Forecaster":
        """Read a model, run it once so that everything is compiled, and use it from the next forecast on.

        ``path`` has no links in it any more (``Path.resolve``): its file is not read through one.
        """
        from svfm_ros.forecasting.visit_density import DensityRaster

        file = self._read(path)
        forecaster = forecaster_of(file, config, self._places, resident=self._resident, device=self._device)
        raster = DensityRaster.around(file.footprints.xy, config.cell_m)
        raster.draw(forecaster.warm_up().samples_xy)
        with self._lock:
            self._forecaster, self._raster, self._map_is_new = forecaster, raster, True
            self._named_by_map = False
        return forecaster

    def _read(self, path: Path) -> "WalkModelFile":
        """The model at the path; where none is in use yet and the file is damaged, the one before it."""
        from svfm_ros.forecasting.model_file import load_walk_model

        try:
            return load_walk_model(path, follow_link=False)
        except DataError as error:
            if self.model is not None or not previous_of(path).is_file():
                raise
            _log.warning("%s; the model before it is used", error)
            return load_walk_model(previous_of(path), follow_link=False)

    def set_config(self, config: ForecastConfig) -> None:
        """Use other options from the next forecast on."""
        from svfm_ros.forecasting.visit_density import DensityRaster

        with self._lock:
            if self._forecaster is not None:
                file = self._forecaster.file
                self._forecaster.config = dataclasses.replace(config, frame=file.frame)
                self._raster = DensityRaster.around(file.footprints.xy, config.cell_m)

    def set_map(self, grid: OccupancyGrid | None, frame: str) -> None:
        """Set the map whose walls paths must not cross; None: no walls."""
        with self._lock:
            self._map, self._map_frame, self._map_is_new = grid, frame, True

    @property
    def map_in_house_frame(self) -> bool:
        """False: the map was started anew, positions on it mean nothing to the model."""
        return self._map_in_house_frame

    @map_in_house_frame.setter
    def map_in_house_frame(self, value: bool) -> None:
        self._map_has_moved = self._map_has_moved or value != self._map_in_house_frame
        self._map_in_house_frame = value

    def add_pose(self, stamp_ns: int, pose: Pose2, covariance: NDArray[np.float64] | None = None) -> None:
        """Add a pose and its covariance to the walk so far; it begins anew where the map has got another frame."""
        if self._map_has_moved:
            self._map_has_moved = False
            self._walk_so_far = WalkSoFar(self._recorder)
        self._walk_so_far.push(stamp_ns, pose, covariance)

    def walk_so_far(self) -> Walk | None:
        """The walk under way; None at rest. Pass the same object to forecasts of one pose: its evidence is cached."""
        return self._walk_so_far.walk()

    def forecast(self, at: WearerPose, walk: Walk | None, what_if_hour: float | None = None) -> Forecast | None:
        """The forecast from that pose, None without a model; ``known`` is False in another frame than the model's."""
        with self._lock:
            forecaster = self._forecaster
            if forecaster is None:
                return None
            if self._map_is_new:
                self._map_is_new = False
                self._use_map(forecaster, self._map if self._map_frame == forecaster.file.frame else None)
        reason = self.frame_problem(at.frame)
        if reason:
            return _unknown(forecaster, at, reason)
        return forecaster.forecast(
            (at.pose.x, at.pose.y),
            at.stamp_ns,
            covariance=at.covariance[:2, :2],
            walk_so_far=walk,
            what_if_hour=what_if_hour,
        )

    def _use_map(self, forecaster: "Forecaster", grid: OccupancyGrid | None) -> None:
        """Keep paths within the walls, and call places by where they lie; names change with the model only."""
        forecaster.set_walls(grid)
        if grid is not None and self._places is None and not self._named_by_map:
            self._named_by_map = True
            forecaster.places = named_by_plan(forecaster.places, grid)

    def frame_problem(self, frame: str) -> str:
        """Why the model cannot be used for poses in this frame; empty where it can."""
        forecaster = self.model
        if forecaster is not None and frame != forecaster.file.frame:
            return f"poses are in the frame {frame!r}, the model is in the frame {forecaster.file.frame!r}"
        if not self.map_in_house_frame:
            return "the map was started anew and is not aligned with the walks that the model was trained on"
        return ""


def _unknown(forecaster: "Forecaster", at: WearerPose, reason: str) -> Forecast:
    """A forecast without information: all samples stay at the pose."""
    elsewhere = forecaster.config.elsewhere
    return Forecast(
        stamp_ns=at.stamp_ns,
        frame=at.frame,
        times_s=np.zeros(1),
        samples_xy=np.array([[[at.pose.x, at.pose.y]]]),
        component=np.full(1, -1, dtype=np.int64),
        shares={**dict.fromkeys(forecaster.places.names, 0.0), elsewhere: 1.0},
        entropy=0.0,
        walks=0,
        model_id=forecaster.model_id,
        known=False,
        endpoint=np.full(1, -1, dtype=np.int64),
        unfamiliar=1.0,
        reason=reason,
    )
