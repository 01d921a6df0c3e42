"""The rules by which a trajectory is cut into walks (``walk_recorder.py``).

A *stay* is an interval of ``dwell_time_s`` during which the wearer remains within ``dwell_radius_m`` of the position at
its start. A pose is still if it is part of a stay. A walk is a longest run of poses that are not still, without a gap
in time. Its ends are then moved into the stays before and after it, up to ``trim_radius_m`` from the median position of
each: there the wearer left and came to rest. An outlier of SLAM gives a run of one pose, which is too short for a walk.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.walk_config import RecorderConfig

__all__ = ["Stretch", "WalkCut", "is_stay", "leave", "to_ns", "trim"]

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]

_EDGE_POSES = 3  # poses whose median is used where a run starts or ends without a stay


@dataclass(frozen=True, slots=True)
class WalkCut:
    """The interval of a walk, both stamps included."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of moving poses with indices ``[first, last]``, and the stays before and after it.

    ``rest_before`` is the first index of the stay that ends right before ``first``; ``rest_after`` is one past the last
    index of the stay that begins right after ``last``. None where the run starts or ends without a stay.
    """

    first: int
    last: int
    rest_before: int | None
    rest_after: int | None


def is_stay(xy: Array, config: RecorderConfig) -> bool:
    """Whether positions ``(N, 2)`` are all within ``dwell_radius_m`` of the first."""
    offset = xy[1:] - xy[0]
    return not bool((offset[:, 0] ** 2 + offset[:, 1] ** 2 > config.dwell_radius_m**2).any())


def trim(stamps: Stamps, xy: Array, stretch: Stretch, config: RecorderConfig) -> WalkCut | None:
    """The walk of a run, from where the wearer left to where they came to rest; None when it is too short."""
    first = leave(stamps, xy, stretch, config)
    last = _arrive(stamps, xy, stretch, config)
    if last <= first or stamps[last] - stamps[first] < to_ns(config.min_duration_s):
        return None
    offset = xy[first : last + 1] - xy[first]
    if np.hypot(offset[:, 0], offset[:, 1]).max() < config.min_extent_m:
        return None
    return WalkCut(int(stamps[first]), int(stamps[last]))


def leave(stamps: Stamps, xy: Array, stretch: Stretch, config: RecorderConfig) -> int:
    """Index of the last pose at rest before the run, or without a stay of the last one near its start."""
    if stretch.rest_before is None:
        near = _near_middle(xy[stretch.first : stretch.last + 1], slice(0, _EDGE_POSES), config.trim_radius_m)
        return stretch.first + _count_first(near) - 1
    stay = slice(stretch.rest_before, stretch.first)
    # Only the second half of a stay: the walk before may end in the first half, and walks must not overlap.
    late = stamps[stay] >= stamps[stretch.rest_before] + to_ns(config.dwell_time_s) // 2
    at_rest = np.flatnonzero(late & _near_middle(xy[stay], slice(None), config.trim_radius_m))
    return stretch.rest_before + int(at_rest[-1]) if len(at_rest) else stretch.first


def _arrive(stamps: Stamps, xy: Array, stretch: Stretch, config: RecorderConfig) -> int:
    """Index of the first pose at rest after the run, or without a stay of the first one near its end."""
    if stretch.rest_after is None:
        near = _near_middle(xy[stretch.first : stretch.last + 1][::-1], slice(0, _EDGE_POSES), config.trim_radius_m)
        return stretch.last - _count_first(near) + 1
    begin = stretch.last + 1
    stay = slice(begin, stretch.rest_after)
    early = stamps[stay] <= stamps[begin] + to_ns(config.dwell_time_s) // 2
    at_rest = np.flatnonzero(early & _near_middle(xy[stay], slice(None), config.trim_radius_m))
    return begin + int(at_rest[0]) if len(at_rest) else stretch.last


def _count_first(flags: NDArray[np.bool_]) -> int:
    """The number of leading True values; at least 1."""
    return max(int(np.argmin(np.append(flags, False))), 1)


def _near_middle(xy: Array, part: slice, radius_m: float) -> NDArray[np.bool_]:
    """Which positions ``(N, 2)`` lie within ``radius_m`` of the median of those in ``part`` ``(N,)``."""
    offset = xy - np.median(xy[part], axis=0)
    return np.asarray(np.hypot(offset[:, 0], offset[:, 1]) <= radius_m)


def to_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * NS_PER_S)
