"""What a report says: walks, forecasts by start and hour, wandering by hour and day, calibration.

Plain numbers only; how they look is the page's business.
"""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S, hours_of_day, zone
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.grouping import group_points
from svfm_ros.forecasting.wandering import WanderingReport, wandering_index
from svfm_ros.report.calibration import Calibration, calibrate
from svfm_ros.types import Forecast, OccupancyGrid, Walk

__all__ = ["Asked", "Content", "DrawnMap", "DrawnPlace", "DrawnWalk", "Figure", "Start", "gather"]

Array = NDArray[np.float64]
Tick = Callable[[str], None]

_HOURS = tuple(range(24))
_MOST_WALKS = 400  # drawn
_MOST_STARTS = 6
_SPOT_M = 1.0  # starts closer together than this are one
_PATHS, _POINTS = 40, 24  # drawn of a forecast, and positions of each
_SAMPLES = 600  # that shares and entropy come from
_HORIZON_S = 30.0
_OCCUPIED, _FREE = 0.65, 0.35
_CM = 100.0
_MARGIN_M = 0.6


@dataclass(frozen=True, slots=True)
class DrawnPlace:
    """A place as the page draws it; metres."""

    name: str
    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, slots=True)
class DrawnWalk:
    """Positions in whole centimetres, x and y by turns."""

    hour: float
    end: int  # index of the place it ends at, -1: none
    xy: list[int]


@dataclass(frozen=True, slots=True)
class DrawnMap:
    """The map as a picture; metres, its lower left corner and its turn."""

    picture: str  # data: address
    x: float
    y: float
    theta: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One forecast."""

    shares: list[float]  # places in order, then elsewhere
    entropy: float
    walks: int
    ends: list[int]  # place of each drawn path, -1: none
    paths: str  # drawn paths: 16 bit whole centimetres, little endian, base64


@dataclass(frozen=True, slots=True)
class Start:
    """Where forecasts begin: a spot that walks set off from, asked at every hour of the day."""

    name: str
    x: float
    y: float
    place: int  # index of the place it is, -1: it has no name of its own
    walks: int
    hours: list[Asked]


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean with its interval, at an hour or on a day."""

    at: str
    mean: float
    low: float | None
    high: float | None
    walks: int


@dataclass(frozen=True, slots=True)
class Content:
    """All that the page shows."""

    resident: str
    model_id: str
    made: str
    first_day: str
    last_day: str
    time_zone: str
    walks: int
    points: int  # positions of each drawn path
    bounds: list[float]  # x0, y0, x1, y1
    map: DrawnMap | None
    places: list[DrawnPlace]
    elsewhere: str
    drawn: list[DrawnWalk]
    starts: list[Start]
    index: Figure
    most: float  # entropy when every place is as likely as any other
    hours: list[Figure]
    days: list[Figure]
    calibration: Calibration | None


def gather(
    forecaster: Forecaster,
    walks: Sequence[Walk],
    unseen: Sequence[Walk],
    grid: OccupancyGrid | None = None,
    tick: Tick = lambda _doing: None,
) -> Content:
    """Everything about one person's walks (in the model's frame); ``unseen`` are those the model never learnt from."""
    zone_name, places = forecaster.file.time_zone, list(forecaster.places)
    stamps = np.array([w.stamps_ns[0] for w in walks])
    days = sorted(datetime.fromtimestamp(int(t) / NS_PER_S, zone(zone_name)).date().isoformat() for t in stamps)
    starts = []
    for spot in _starting_points(forecaster, walks):
        tick(f"asking from {spot.name}")
        hours = [_ask(forecaster, spot.xy, hour) for hour in _HOURS]
        x, y = (round(float(v), 3) for v in spot.xy)
        starts.append(Start(spot.name, x, y, spot.place, spot.walks, hours))
    tick("how open it is where they go")
    wandering = wandering_index(forecaster, walks)
    tick("calibration")
    return Content(
        resident=walks[0].resident,
        model_id=forecaster.model_id,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        first_day=days[0],
        last_day=days[-1],
        time_zone=zone_name,
        walks=len(walks),
        points=_POINTS,
        bounds=_bounds(walks, grid),
        map=None if grid is None else _drawn_map(grid),
        places=[DrawnPlace(p.name, p.x, p.y, p.radius_m, p.colour) for p in places],
        elsewhere=forecaster.config.elsewhere,
        drawn=_drawn_walks(forecaster, walks, stamps),
        starts=starts,
        index=Figure("", *_figures(wandering), wandering.walks),
        most=wandering.most,
        hours=[Figure(str(h.hour), h.mean, h.low, h.high, h.walks) for h in wandering.hours],
        days=[Figure(d.day.isoformat(), d.mean, d.low, d.high, d.walks) for d in wandering.days],
        calibration=calibrate(forecaster, unseen),
    )


def _figures(report: WanderingReport) -> tuple[float, float | None, float | None]:
    return report.mean, report.low, report.high


@dataclass(frozen=True, slots=True)
class _Spot:
    name: str
    xy: Array  # (2,)
    place: int
    walks: int


def _starting_points(forecaster: Forecaster, walks: Sequence[Walk]) -> list[_Spot]:
    """Where walks set off, the most frequent first: places, and spots where none is (places are found by ends)."""
    begun = np.array([w.xy[0] for w in walks])
    place = forecaster.places.assign(begun, forecaster.config.place_reach_m)
    spots = [
        _Spot(p.name, p.xy, i, count) for i, p in enumerate(forecaster.places) if (count := int((place == i).sum()))
    ]
    rest = begun[place < 0]
    if len(rest):
        group = group_points(rest, _SPOT_M, _MOST_STARTS)
        members = sorted((rest[group == g] for g in np.unique(group)), key=len, reverse=True)
        spots += [_Spot(f"start {n}", _middle(own), -1, len(own)) for n, own in enumerate(members, 1)]
    return sorted(spots, key=lambda spot: -spot.walks)[:_MOST_STARTS]


def _middle(points: Array) -> Array:
    """The point nearest to the mean of all ``(N, 2)``: someone has really been there."""
    away = np.linalg.norm(points - points.mean(axis=0), axis=1)
    return np.asarray(points[np.argmin(away)])


def _ask(forecaster: Forecaster, xy: Array, hour: int) -> Asked:
    found = forecaster.forecast(xy, 0, what_if_hour=float(hour), horizon_s=_HORIZON_S, samples=_SAMPLES, seed=hour)
    ends = found.endpoint if found.endpoint is not None else forecaster.places.assign(found.samples_xy[:, -1])
    names = (*forecaster.places.names, forecaster.config.elsewhere)
    return Asked(
        [round(found.shares.get(name, 0.0), 4) for name in names],
        round(found.entropy, 4),
        found.walks,
        ends[:_PATHS].tolist(),
        _packed(_thinned(found)),
    )


def _thinned(found: Forecast) -> Array:
    """Some of the paths at some moments ``(_PATHS, _POINTS, 2)``, until all of them have arrived."""
    paths = found.samples_xy[:_PATHS]
    moving = np.flatnonzero((np.abs(np.diff(paths, axis=1)) > 1e-3).any(axis=(0, 2)))
    last = int(moving[-1]) + 1 if len(moving) else 1
    return np.asarray(paths[:, np.linspace(0, last, _POINTS).round().astype(int)])


def _packed(paths: Array) -> str:
    return base64.b64encode(np.clip(paths * _CM, -32000, 32000).round().astype("<i2").tobytes()).decode()


def _bounds(walks: Sequence[Walk], grid: OccupancyGrid | None) -> list[float]:
    """The floor that matters: what was walked on, and the known part of the map."""
    points = [w.xy for w in walks]
    if grid is not None:
        points.append(grid.centres_of(~np.isnan(grid.prob)))
    every = np.concatenate(points)
    low, high = every.min(axis=0) - _MARGIN_M, every.max(axis=0) + _MARGIN_M
    return [round(float(v), 2) for v in (*low, *high)]


def _drawn_map(grid: OccupancyGrid) -> DrawnMap:
    """Walls dark, floor white, unknown clear."""
    from PIL import Image

    prob = np.nan_to_num(grid.prob[::-1], nan=-1.0)  # pictures begin at the top
    cells = np.zeros((*prob.shape, 4), dtype=np.uint8)
    cells[(prob >= 0.0) & (prob < _FREE)] = (255, 253, 247, 255)
    cells[prob > _OCCUPIED] = (72, 74, 80, 255)
    file = io.BytesIO()
    Image.fromarray(cells).save(file, format="png", optimize=True)
    at = grid.T_map_grid
    height, width = (n * grid.resolution_m for n in prob.shape)
    picture = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return DrawnMap(picture, at.x, at.y, at.theta, width, height)


def _drawn_walks(forecaster: Forecaster, walks: Sequence[Walk], stamps: NDArray[np.int64]) -> list[DrawnWalk]:
    """The latest walks, thinned to the tick of the model."""
    hours = hours_of_day(stamps, forecaster.file.time_zone)
    ends = forecaster.places.assign(np.array([w.xy[-1] for w in walks]), forecaster.config.place_reach_m)
    latest = np.argsort(stamps)[-_MOST_WALKS:].tolist()
    return [DrawnWalk(round(float(hours[i]), 2), int(ends[i]), _ticks(walks[i], forecaster)) for i in latest]


def _ticks(walk: Walk, forecaster: Forecaster) -> list[int]:
    count = max(2, round(float(walk.times_s[-1]) / forecaster.file.model.dt_s) + 1)
    times = np.linspace(0.0, walk.times_s[-1], count)
    xy = np.stack([np.interp(times, walk.times_s, walk.xy[:, k]) for k in (0, 1)], axis=1)
    return [int(v) for v in (xy * _CM).round().astype(int).ravel()]
