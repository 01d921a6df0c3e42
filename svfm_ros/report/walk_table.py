"""One row per walk: when it began, from where, where it ended, how fast the person walked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S, hours_of_day, zone
from svfm_ros.types import Places, Walk

__all__ = ["NIGHT_ENDS", "NIGHT_STARTS", "WalkTable", "walk_table"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

NIGHT_STARTS, NIGHT_ENDS = 22.0, 6.0  # local hours
_STEP_S = 0.5  # positions are compared over this time: over shorter ones, noise of the pose adds to the speed
_MOVING_M_S = 0.2


@dataclass(frozen=True, slots=True)
class WalkTable:
    """Columns over all walks, in the order of their starts."""

    day: Ints  # (N,), local date as an ordinal (``date.fromordinal``)
    night: Ints  # (N,), date of the evening on which the night began, -1 for walks by day
    hour: Array  # (N,), local hour in [0, 24)
    origin: Ints  # (N,), index of the place it began at, -1: none
    end: Ints  # (N,), index of the place it ended at, -1: none
    speed_m_s: Array  # (N,), median speed while moving, NaN where the person hardly moved

    def __len__(self) -> int:
        return len(self.day)

    def select(self, rows: NDArray[np.bool_]) -> "WalkTable":
        """Some of the rows, by mask ``(N,)``."""
        return WalkTable(*(getattr(self, name)[rows] for name in self.__slots__))

    @property
    def days(self) -> Ints:
        """Dates with at least one walk, in order."""
        return np.unique(self.day)


def walk_table(walks: Sequence[Walk], places: Places, reach_m: float, time_zone: str) -> WalkTable:
    """The table of walks that are in the frame of the places; places are widened by ``reach_m``."""
    ordered = sorted(walks, key=lambda walk: int(walk.stamps_ns[0]))
    stamps = np.array([walk.stamps_ns[0] for walk in ordered], dtype=np.int64)
    hour = hours_of_day(stamps, time_zone)
    local = zone(time_zone)
    day = np.array([datetime.fromtimestamp(t / NS_PER_S, local).toordinal() for t in stamps.tolist()], dtype=np.int64)
    night = np.where(hour >= NIGHT_STARTS, day, np.where(hour < NIGHT_ENDS, day - 1, -1))
    origin = places.assign(np.array([walk.xy[0] for walk in ordered]).reshape(-1, 2), reach_m)
    end = places.assign(np.array([walk.xy[-1] for walk in ordered]).reshape(-1, 2), reach_m)
    speed = np.array([walking_speed(walk) for walk in ordered], dtype=float)
    return WalkTable(day, night.astype(np.int64), hour, origin, end, speed)


def walking_speed(walk: Walk) -> float:
    """Median speed while moving in m/s; pauses do not count. NaN for a walk without motion."""
    times = np.arange(0.0, float(walk.times_s[-1]), _STEP_S)
    if len(times) < 2:
        return float("nan")
    speed = np.hypot(*np.diff(walk.xy_at(times), axis=0).T) / _STEP_S
    moving = speed[speed > _MOVING_M_S]
    return float(np.median(moving)) if len(moving) else float("nan")
