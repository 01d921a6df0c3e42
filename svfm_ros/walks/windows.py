"""Walks in the house's frame as training data: positions at equal time steps, padded, with the local hour."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import hours_of_day
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.errors import DataError
from svfm_ros.types import Walk, WalkWindows

__all__ = ["make_windows"]

Array = NDArray[np.float64]

_ROUNDING = 1e-6  # of a step: a walk of ten steps must not lose its last one to rounding


@dataclass(frozen=True, slots=True)
class _Row:
    """One walk, or the part of it between two gaps, at equal time steps."""

    walk: Walk
    start_ns: int
    xy: Array  # (L, 2)
    variance: Array | None  # (L, 2), in square metres


def make_windows(walks: Iterable[Walk], config: WindowsConfig | None = None, frame: str = "map") -> WalkWindows:
    """Rows for walks that are all in the same frame; positions at equal time steps are interpolated linearly.

    A row stops at the last time step that its walk reaches: nothing is extrapolated.
    """
    config = config or WindowsConfig()
    rows: list[_Row] = []
    seen: set[str] = set()
    for walk in walks:
        _check_walk(walk, seen)
        rows += [row for row in _rows(walk, config) if len(row.xy) >= config.min_steps]
    return _pad(rows, config, frame)


def _check_walk(walk: Walk, seen: set[str]) -> None:
    if walk.walk_id in seen:
        raise DataError(f"expected each walk once, got {walk.walk_id!r} twice")
    if not len(walk.stamps_ns) or np.any(np.diff(walk.stamps_ns) <= 0):
        raise DataError(f"walk {walk.walk_id!r}: expected stamps that increase")
    if not np.isfinite(walk.xy).all():
        raise DataError(f"walk {walk.walk_id!r}: expected finite positions")
    seen.add(walk.walk_id)


def _rows(walk: Walk, config: WindowsConfig) -> list[_Row]:
    """The walk resampled at equal time steps, split where it has gaps."""
    gaps = np.flatnonzero(np.diff(walk.stamps_ns) > config.max_gap_s * 1e9) + 1
    edges = [0, *gaps.tolist(), len(walk.stamps_ns)]
    return [_resample(walk, slice(a, b), config.dt_s) for a, b in itertools.pairwise(edges)]


def _resample(walk: Walk, part: slice, dt_s: float) -> _Row:
    stamps = walk.stamps_ns[part]
    times_s = (stamps - stamps[0]) * 1e-9
    grid_s = dt_s * np.arange(math.floor(times_s[-1] / dt_s + _ROUNDING) + 1)
    xy = _on_grid(grid_s, times_s, walk.xy[part])
    variance = None if walk.covariance is None else _on_grid(grid_s, times_s, _xy_variance(walk.covariance[part]))
    return _Row(walk, int(stamps[0]), xy, variance)


def _on_grid(grid_s: Array, times_s: Array, values: Array) -> Array:
    """Linear interpolation of ``(S, 2)`` at the grid's times ``(L, 2)``."""
    return np.stack([np.interp(grid_s, times_s, values[:, i]) for i in (0, 1)], axis=1)


def _xy_variance(covariance: Array) -> Array:
    """The variances of x and y ``(S, 2)`` in covariances ``(S, 3, 3)``."""
    return np.asarray(np.diagonal(covariance, axis1=1, axis2=2)[:, :2])


def _pad(rows: list[_Row], config: WindowsConfig, frame: str) -> WalkWindows:
    longest = max((len(r.xy) for r in rows), default=0)
    xy = np.zeros((len(rows), longest, 2))
    valid = np.zeros((len(rows), longest), dtype=np.bool_)
    for n, row in enumerate(rows):
        xy[n, : len(row.xy)] = row.xy
        xy[n, len(row.xy) :] = row.xy[-1]
        valid[n, : len(row.xy)] = True
    start_ns = np.array([r.start_ns for r in rows], dtype=np.int64)
    ids, residents = tuple(r.walk.walk_id for r in rows), tuple(r.walk.resident for r in rows)
    hours = hours_of_day(start_ns, config.time_zone)
    variance = _padded_variance(rows, longest)
    return WalkWindows(xy, valid, config.dt_s, start_ns, hours, ids, residents, frame, config.time_zone, variance)


def _padded_variance(rows: list[_Row], longest: int) -> Array | None:
    """Variances ``(N, longest, 2)``, 0 for rows without; None where no row has any."""
    if all(row.variance is None for row in rows):
        return None
    variance = np.zeros((len(rows), longest, 2))
    for n, row in enumerate(rows):
        if row.variance is not None:
            variance[n, : len(row.xy)] = row.variance
            variance[n, len(row.xy) :] = row.variance[-1]
    return variance
