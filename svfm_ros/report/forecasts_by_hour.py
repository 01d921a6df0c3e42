"""Forecasts from the positions where walks begin, for every hour of the day."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import hours_of_day
from svfm_ros.forecasting.fit.grouping import group_points
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.types import Forecast, OccupancyGrid, Walk
from svfm_ros.walks.place_names import PlanNames

__all__ = ["POINTS", "HourForecast", "Start", "forecasts_by_hour"]

Array = NDArray[np.float64]

POINTS = 24
"""Positions of each drawn path."""

_PATHS = 40  # drawn of a forecast
_MOST_STARTS = 6
_GROUP_M = 1.0  # starts closer together than this are one
_SAMPLES = 600  # for shares and entropy
_HORIZON_S = 30.0
_CM = 100.0
_NEAR_HOURS = 1.0  # a forecast is shown for hours that have walks within this time


@dataclass(frozen=True, slots=True)
class HourForecast:
    """The forecast for one hour."""

    shares: list[float]  # places in order, then elsewhere
    entropy: float | None  # nats, None where nothing is known
    walks: int  # recorded walks that began here within an hour of this one
    ends: list[int]  # index of the place of each drawn path, -1: none
    paths: str  # drawn paths: whole centimetres as 16 bit integers, little endian, base64


@dataclass(frozen=True, slots=True)
class Start:
    """A position where walks begin, with forecasts for 0:00 to 23:00."""

    name: str
    x: float
    y: float
    place: int  # index of its place, -1: none
    walks: int
    hours: list[HourForecast]


@dataclass(frozen=True, slots=True)
class _Origin:
    name: str
    xy: Array  # (2,)
    place: int
    hours: Array  # (N,), local hours of the walks that begin here


def forecasts_by_hour(
    forecaster: Forecaster, walks: Sequence[Walk], grid: OccupancyGrid | None, tick: Callable[[str], None]
) -> list[Start]:
    """Forecasts from the most frequent starts, at most six; those in no place are named by the map."""
    found = []
    for origin in _origins(forecaster, walks, None if grid is None else PlanNames(grid)):
        tick(f"forecasts from {origin.name}")
        hours = [_forecast(forecaster, origin, hour) for hour in range(24)]
        x, y = (round(float(v), 3) for v in origin.xy)
        found.append(Start(origin.name, x, y, origin.place, len(origin.hours), hours))
    return found


def _origins(forecaster: Forecaster, walks: Sequence[Walk], names: PlanNames | None) -> list[_Origin]:
    """Places where walks begin, and groups of starts that are in no place; the most frequent first."""
    begun = np.array([w.xy[0] for w in walks])
    hours = hours_of_day(np.array([w.stamps_ns[0] for w in walks]), forecaster.file.time_zone)
    place = forecaster.places.assign(begun, forecaster.config.place_reach_m)
    found = [_Origin(p.name, p.xy, i, hours[place == i]) for i, p in enumerate(forecaster.places) if (place == i).any()]
    rest = np.flatnonzero(place < 0)
    if len(rest):
        group = group_points(begun[rest], _GROUP_M, _MOST_STARTS)
        members = sorted((rest[group == g] for g in np.unique(group)), key=len, reverse=True)
        taken = list(forecaster.places.names)
        for number, own in enumerate(members, 1):
            xy = _medoid(begun[own])
            taken.append((names and names.name_at(xy, taken)) or f"start {number}")
            found.append(_Origin(taken[-1], xy, -1, hours[own]))
    return sorted(found, key=lambda origin: -len(origin.hours))[:_MOST_STARTS]


def _medoid(points: Array) -> Array:
    """The one of the points ``(N, 2)`` that is nearest to their mean."""
    away = np.linalg.norm(points - points.mean(axis=0), axis=1)
    return np.asarray(points[np.argmin(away)])


def _forecast(forecaster: Forecaster, origin: _Origin, hour: int) -> HourForecast:
    found = forecaster.forecast(
        origin.xy, 0, what_if_hour=float(hour), horizon_s=_HORIZON_S, samples=_SAMPLES, seed=hour
    )
    ends = found.ends_in(forecaster.places)
    names = (*forecaster.places.names, forecaster.config.elsewhere)
    apart = np.abs(origin.hours - (hour + 0.5))
    return HourForecast(
        [round(found.shares.get(name, 0.0), 4) for name in names],
        None if found.entropy is None else round(found.entropy, 4),
        int(np.count_nonzero(np.minimum(apart, 24.0 - apart) <= 0.5 + _NEAR_HOURS)),
        ends[:_PATHS].tolist(),
        _packed(_thinned(found)),
    )


def _thinned(found: Forecast) -> Array:
    """Some of the paths at some times ``(_PATHS, POINTS, 2)``, until all of them have arrived."""
    paths = found.samples_xy[:_PATHS]
    moving = np.flatnonzero((np.abs(np.diff(paths, axis=1)) > 1e-3).any(axis=(0, 2)))
    last = int(moving[-1]) + 1 if len(moving) else 1
    return np.asarray(paths[:, np.linspace(0, last, POINTS).round().astype(int)])


def _packed(paths: Array) -> str:
    return base64.b64encode(np.clip(paths * _CM, -32000, 32000).round().astype("<i2").tobytes()).decode()
