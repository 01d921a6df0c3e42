"""Cut a trajectory into walks: the rules, used by ``cut_walks`` and by the live recorder.

A *stay* is an interval of ``dwell_time_s`` during which the wearer remains within ``dwell_radius_m`` of the position at
its start. A pose is still if it is part of a stay. A walk is a longest run of poses that are not still, without a gap
in time. Its ends are then moved into the stays before and after it, up to ``trim_radius_m`` from the median position of
each: there the wearer left and came to rest. An outlier of SLAM gives a run of one pose, which is too short for a walk.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import DataError

__all__ = ["Reason", "Stretch", "WalkCut", "cut_walks", "is_stay", "leave", "to_ns", "trim"]

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]
Reason = Literal["dwell", "gap", "long", "finish"]

_EDGE_POSES = 3  # poses whose median is used where a run starts or ends without a stay


@dataclass(frozen=True, slots=True)
class WalkCut:
    """The interval of a walk, both stamps included, and why it ended."""

    start_ns: int
    end_ns: int
    reason: Reason


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
    reason: Reason


def cut_walks(stamps_ns: ArrayLike, poses: ArrayLike, config: RecorderConfig | None = None) -> list[WalkCut]:
    """All walks of a whole trajectory: stamps ``(T,)`` and poses ``(T, 3)`` or positions ``(T, 2)``."""
    config = config or RecorderConfig()
    stamps = np.asarray(stamps_ns, dtype=np.int64)
    xy = np.asarray(poses, dtype=float)[:, :2] if len(stamps) else np.empty((0, 2))
    _check_trajectory(stamps, xy)
    cuts = (trim(stamps, xy, s, config) for s in _stretches(stamps, xy, config))
    return [c for c in cuts if c is not None]


def _check_trajectory(stamps: Stamps, xy: Array) -> None:
    if len(stamps) != len(xy):
        raise DataError(f"expected one pose per stamp, got {len(xy)} poses and {len(stamps)} stamps")
    if np.any(np.diff(stamps) <= 0):
        at = int(np.argmax(np.diff(stamps) <= 0)) + 1
        raise DataError(f"expected stamps to increase, got {stamps[at]} after {stamps[at - 1]}")
    if not np.isfinite(xy).all():
        raise DataError(f"expected finite poses, got {xy[~np.isfinite(xy).all(axis=1)][0]}")


def _stretches(stamps: Stamps, xy: Array, config: RecorderConfig) -> list[Stretch]:
    """All runs of poses that are not part of a stay."""
    if not len(stamps):
        return []
    dwell_ns, gap_ns = to_ns(config.dwell_time_s), to_ns(config.max_gap_s)
    new_part = np.diff(stamps, prepend=stamps[0]) > gap_ns  # (T,), True right after a gap
    ends = _stay_ends(stamps, xy, np.cumsum(new_part), config)  # (T,)
    starts_stay = ends > 0
    covered_until = np.maximum.accumulate(np.where(starts_stay, stamps + dwell_ns, np.iinfo(np.int64).min))
    last_stay = np.maximum.accumulate(np.where(starts_stay, np.arange(len(stamps)), -1))
    moving = stamps > covered_until
    opens = moving & (new_part | ~np.concatenate([[False], moving[:-1]]))
    closes = moving & (np.concatenate([new_part[1:], [True]]) | ~np.concatenate([moving[1:], [False]]))
    found: list[Stretch] = []
    for first, last in zip(np.flatnonzero(opens).tolist(), np.flatnonzero(closes).tolist(), strict=True):
        before = int(last_stay[first]) if first > 0 and not new_part[first] else None
        after, reason = _what_follows(last, new_part, ends)
        found += _split_long(stamps, Stretch(first, last, before, after, reason), to_ns(config.longest_s))
    return found


def _what_follows(last: int, new_part: NDArray[np.bool_], stay_ends: Stamps) -> tuple[int | None, Reason]:
    if last + 1 == len(stay_ends):
        return None, "finish"
    return (None, "gap") if new_part[last + 1] else (int(stay_ends[last + 1]), "dwell")


def _stay_ends(stamps: Stamps, xy: Array, part: Stamps, config: RecorderConfig) -> Stamps:
    """One past the last index of the stay that begins at each pose, 0 where none does ``(T,)``."""
    count = len(stamps)
    until = stamps + to_ns(config.dwell_time_s)
    end = np.searchsorted(stamps, until, side="right")
    reached = np.searchsorted(stamps, until, side="left")  # the first pose after the dwell time
    complete = reached < count
    complete[complete] = part[reached[complete]] == part[complete]
    anchors = np.flatnonzero(complete)
    step = 1
    while len(open_ := np.flatnonzero(anchors + step < end[anchors])):
        offset = xy[anchors[open_] + step] - xy[anchors[open_]]
        left = open_[_beyond(offset, config.dwell_radius_m)]
        anchors = np.delete(anchors, left)
        step += 1
    ends = np.zeros(count, dtype=np.int64)
    ends[anchors] = end[anchors]
    return ends


def is_stay(xy: Array, config: RecorderConfig) -> bool:
    """Whether positions ``(N, 2)`` are all within ``dwell_radius_m`` of the first."""
    return not bool(_beyond(xy[1:] - xy[0], config.dwell_radius_m).any())


def _beyond(offset: Array, radius_m: float) -> NDArray[np.bool_]:
    return np.asarray(offset[:, 0] ** 2 + offset[:, 1] ** 2 > radius_m**2)


def _split_long(stamps: Stamps, stretch: Stretch, longest_ns: int) -> list[Stretch]:
    """The run cut into pieces of at most ``longest_ns``."""
    pieces, first, before = [], stretch.first, stretch.rest_before
    while stamps[stretch.last] - stamps[first] > longest_ns:
        cut = int(np.searchsorted(stamps, stamps[first] + longest_ns, side="right"))
        pieces.append(Stretch(first, cut - 1, before, None, "long"))
        first, before = cut, None
    return [*pieces, Stretch(first, stretch.last, before, stretch.rest_after, stretch.reason)]


def trim(stamps: Stamps, xy: Array, stretch: Stretch, config: RecorderConfig) -> WalkCut | None:
    """The walk of a run, from where the wearer left to where they came to rest; None when it is too short."""
    first = leave(stamps, xy, stretch, config)
    last = _arrive(stamps, xy, stretch, config)
    if last <= first or stamps[last] - stamps[first] < to_ns(config.min_duration_s):
        return None
    offset = xy[first : last + 1] - xy[first]
    if np.hypot(offset[:, 0], offset[:, 1]).max() < config.min_extent_m:
        return None
    return WalkCut(int(stamps[first]), int(stamps[last]), stretch.reason)


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
