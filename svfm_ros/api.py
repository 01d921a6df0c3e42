"""The functions behind ``import svfm_ros as svfm``: walks in, model out, forecasts from the model, maps from scans.

Each one checks its input and calls the same code as the command of that name. Heavy libraries are imported where they
are used, so that reading walks does not load torch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.atomic_files import write_whole, writing
from svfm_ros.clock import local_text, parse_hour, parse_local_time
from svfm_ros.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.pipeline.evaluation import Evaluation
    from svfm_ros.slam.trajectory import Trajectory
    from svfm_ros.sources import ScanSource
    from svfm_ros.sources.scan_source import Measured
    from svfm_ros.types import Forecast, OccupancyGrid, Places, Scan, Walk

__all__ = [
    "Model",
    "SlamResult",
    "draw_forecast",
    "evaluate",
    "load_model",
    "read_scans",
    "read_walks",
    "run_slam",
    "simulate",
    "train",
    "write_report",
    "write_walks",
]

_SIMULATED_WALKS = 200


def read_walks(path: Path | str, resident: str | None = None) -> "list[Walk]":
    """Walks of one person in the house's frame, from a walk store or a CSV file with the columns walk_id,t,x,y.

    ``t`` is in Unix seconds, ``x`` and ``y`` in metres. ``resident`` is needed where a file holds several people's.
    """
    return _walks_at(path, resident)


def _walks_at(path: Path | str, resident: str | None = None, several: bool = False) -> "list[Walk]":
    from svfm_ros.pipeline.walk_input import read_walks as read_input

    if not Path(path).exists():
        raise UsageError(f"expected a walk store or a CSV file, got nothing at {path}")
    return read_input(Path(path), resident, several).walks


def write_walks(walks: "Iterable[Walk]", path: Path | str) -> int:
    """Write walks as a CSV file that ``read_walks`` reads back; return how many there were."""
    from svfm_ros.walks.walk_csv import write_walks_csv

    return write_walks_csv(walks, Path(path))


def simulate(
    *,
    walks: int | None = None,
    days: float | None = None,
    house: Path | str = "home",
    profile: str = "paper",
    stay_s: float = 1500.0,
    seed: int = 0,
) -> "list[Walk]":
    """True walks of a simulated resident: ``walks`` walks from the couch (200), or all walks of ``days`` days.

    ``house`` is ``home``, ``bungalow`` or a drawing in YAML. ``profile`` is ``paper``, ``routine`` or ``wandering``;
    ``stay_s`` is the median time in seconds between the walks of a day. The same arguments give the same walks.
    ``svfm simulate`` also writes the scans of a worn LiDAR.
    """
    from svfm_ros.config.sim_config import HabitConfig
    from svfm_ros.sim.house import load_house
    from svfm_ros.sim.walker import simulate_days, simulate_habit

    if walks is not None and days is not None:
        raise UsageError("expected a number of walks or of days, got both")
    plan, habits = load_house(str(house)), HabitConfig(profile=profile, dwell_s=stay_s)
    if days is not None:
        return [one.walk for one in simulate_days(plan, seed=seed, days=days, habits=habits)]
    count = _SIMULATED_WALKS if walks is None else walks
    if count < 1:
        raise UsageError(f"expected at least one walk, got {count}")
    return [one.walk for one in simulate_habit(plan, seed=seed, count=count, habits=habits)]


class Model:
    """A learned model of the walks of a home's residents; made by ``train`` and ``load_model``."""

    def __init__(
        self,
        file: "WalkModelFile",
        places: "Places | Path | str | None" = None,
        map: "OccupancyGrid | Path | str | None" = None,
    ) -> None:
        """``places`` replace those of the model, paths do not cross the walls of ``map``."""
        self.file = file
        self._places, self.map = places, map

    def __repr__(self) -> str:
        return f"<svfm_ros.Model {self.model_id}: {', '.join(self.places.names) or 'no places'}>"

    @property
    def model_id(self) -> str:
        """A short name that changes whenever a weight does."""
        return self.file.model_id

    @property
    def time_zone(self) -> str:
        """IANA name of the zone in which the model counts hours."""
        return self.file.time_zone

    @property
    def places(self) -> "Places":
        """The places that forecasts name, with centre, radius and colour."""
        return self.forecaster.places

    @cached_property
    def forecaster(self) -> "Forecaster":
        """The forecaster that the live node uses, too."""
        from svfm_ros.config.forecast_config import ForecastConfig
        from svfm_ros.pipeline.model_input import forecaster_of

        places = None if self._places is None else _as_places(self._places)
        return forecaster_of(self.file, ForecastConfig(), places, _as_map(self.map))

    @property
    def residents(self) -> tuple[str, ...]:
        """Names of the people whose walks it was learnt from."""
        return self.file.residents.names

    def of_resident(self, name: str) -> "Model":
        """The same home, with the habits, the pace and the spread of one of its residents."""
        if name not in self.residents:
            raise UsageError(f"expected one of {', '.join(self.residents)}, got {name!r}")
        return Model(self.file.of_resident(name), self._places, self.map)

    def forecast(
        self,
        position: "ArrayLike",
        at: str | datetime | int,
        *,
        walk_so_far: "Walk | None" = None,
        what_if_hour: float | str | None = None,
        covariance: "ArrayLike | None" = None,
        horizon_s: float | None = None,
        samples: int | None = None,
        seed: int | None = None,
    ) -> "Forecast":
        """Sampled paths from ``position`` (x, y in metres) and the probability of each place.

        ``at`` is a local time such as ``"2026-11-16T14:00"``, a ``datetime`` or Unix nanoseconds. ``walk_so_far`` is
        the walk under way, which ends at ``position``. ``what_if_hour`` (``2.0`` or ``"02:00"``) replaces the hour.
        ``covariance`` (2, 2) is that of the position, in square metres.
        """
        hour = parse_hour(what_if_hour) if isinstance(what_if_hour, str) else what_if_hour
        return self.forecaster.forecast(
            position,
            _as_stamp(at, self.time_zone),
            covariance=covariance,
            walk_so_far=walk_so_far,
            what_if_hour=hour,
            horizon_s=horizon_s,
            samples=samples,
            seed=seed,
        )

    def save(self, path: Path | str) -> None:
        """Write the model as one file for ``load_model``, ``svfm forecast`` and the live node."""
        from svfm_ros.forecasting.model_file import save_walk_model

        with writing(Path(path)):
            save_walk_model(Path(path), self.file)


def train(
    walks: "Sequence[Walk] | Path | str",
    *,
    places: "Places | Path | str | None" = None,
    map: "OccupancyGrid | Path | str | None" = None,
    time_zone: str = "UTC",
    seed: int = 0,
) -> Model:
    """Learn the walks of a home, all in one frame; walks of several residents give one model with habits of each.

    ``places`` names the places (a YAML file or ``Places``); otherwise they are found where walks end. ``time_zone`` is
    that of the home.
    """
    from svfm_ros.config.forecast_config import WalkTrainConfig
    from svfm_ros.config.walk_config import WindowsConfig
    from svfm_ros.pipeline.learn import LearnConfig, learn

    given = _walks_at(walks, several=True) if isinstance(walks, Path | str) else list(walks)
    config = LearnConfig(windows=WindowsConfig(time_zone=time_zone), train=WalkTrainConfig(seed=seed))
    named = None if places is None else _as_places(places)
    return Model(learn(given, config, places=named).file, map=map)


def load_model(
    path: Path | str,
    *,
    places: "Places | Path | str | None" = None,
    map: "OccupancyGrid | Path | str | None" = None,
) -> Model:
    """A model that ``train``, ``svfm train`` or the live trainer wrote; ``places`` replace those of the model."""
    from svfm_ros.forecasting.model_file import load_walk_model

    if not Path(path).is_file():
        raise UsageError(f"expected a model, got no file at {path}")
    return Model(load_walk_model(Path(path)), places, map)


def evaluate(model: Model, walks: "Sequence[Walk] | Path | str", *, samples: int = 200, seed: int = 0) -> "Evaluation":
    """Scores of the model's forecasts on those walks it was not trained on; ``samples`` paths for each walk.

    Where it was trained on all of them, a model trained in the same way without a fifth of them is scored on that fifth
    (``relearnt``).
    """
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.pipeline.evaluation import BEST_OF, evaluate_forecasts
    from svfm_ros.pipeline.learn import scored_on_unseen

    if samples < BEST_OF:
        raise UsageError(f"expected at least {BEST_OF} samples, got {samples}")
    given = read_walks(walks) if isinstance(walks, Path | str) else list(walks)
    scored, own = scored_on_unseen(model.file, given), model.forecaster
    config = replace(own.config, samples=samples, seed=seed)
    return evaluate_forecasts(Forecaster(scored.file, own.places, config, _as_map(model.map)), scored, seed)


def draw_forecast(
    path: Path | str, forecast: "Forecast", model: Model, map: "OccupancyGrid | Path | str | None" = None
) -> None:
    """Write a picture (PNG) of a forecast: paths, places with probabilities and, where a map is given, the walls."""
    from svfm_ros.figures.forecast_figure import draw_forecasts

    at = local_text(forecast.stamp_ns, model.time_zone)
    draw_forecasts(Path(path), _as_map(map), [forecast], model.places, [at])


def write_report(
    path: Path | str, model: Model, walks: "Sequence[Walk]", map: "OccupancyGrid | Path | str | None" = None
) -> None:
    """Write one web page (HTML, works offline) about a person's walks and habits."""
    from svfm_ros.report import gather, render

    content = gather(model.forecaster, walks, _as_map(map))
    with writing(Path(path)):
        write_whole(Path(path), render(content).encode())


def read_scans(path: Path | str, topic: str | None = None) -> "ScanSource":
    """The scans of a rosbag (ROS 2 or 1), CARMEN log, MRPT rawlog or ``.npz``; can be iterated more than once."""
    from svfm_ros.sources import open_scans

    return open_scans(Path(path), topic)


@dataclass(frozen=True, slots=True)
class SlamResult:
    """A map and the pose of every scan that could be matched, in the map's frame."""

    map: "OccupancyGrid"
    trajectory: "Trajectory"  # stamps_ns (T,), poses (T, 3)


def run_slam(scans: "Iterable[Scan] | Path | str", resolution_m: float = 0.05) -> SlamResult:
    """Map and optimised trajectory from scans, and IMU and odometry in a bag; ``Slam`` does the same live."""
    from svfm_ros.config.slam_config import RasterConfig
    from svfm_ros.slam import offline

    source = _read_twice(scans)
    done = offline.run_slam(source())
    raster = RasterConfig(resolution_m=resolution_m)
    return SlamResult(offline.draw_grid(done.scans_used(source()), done.trajectory, raster), done.trajectory)


def _read_twice(scans: "Iterable[Scan] | Path | str") -> "Callable[[], Iterator[Measured]]":
    """What reads the messages once more with each call: for the poses, then for the map."""
    from svfm_ros.sources import ScanSource

    source = read_scans(scans) if isinstance(scans, Path | str) else scans
    if isinstance(source, ScanSource):
        return source.messages
    kept = list(source) if isinstance(source, Iterator) else source
    return lambda: iter(kept)


def _as_places(places: "Places | Path | str") -> "Places":
    from svfm_ros.walks.places import load_places

    return load_places(Path(places)) if isinstance(places, Path | str) else places


def _as_map(map: "OccupancyGrid | Path | str | None") -> "OccupancyGrid | None":
    from svfm_ros.mapio import load_map

    return load_map(Path(map)) if isinstance(map, Path | str) else map


def _as_stamp(at: str | datetime | int, time_zone: str) -> int:
    """Unix nanoseconds; times without a zone are in the model's."""
    if isinstance(at, int):
        return at
    return parse_local_time(at if isinstance(at, str) else at.isoformat(), time_zone)
