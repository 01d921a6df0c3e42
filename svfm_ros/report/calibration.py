"""Calibration of forecasts: how often their regions held the true positions, on walks the model did not learn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.scores import region_levels
from svfm_ros.types import Walk

__all__ = ["REGIONS", "Calibration", "calibrate"]

Array = NDArray[np.float64]

REGIONS = tuple(round(0.05 * i, 2) for i in range(1, 20))
_SAMPLES = 200
_MOST_WALKS = 150
_DRAWS, _TAIL = 500, 0.025  # of the bootstrap over walks


@dataclass(frozen=True, slots=True)
class Calibration:
    """For each region (a probability) the share of true positions inside; equal when forecasts are calibrated."""

    regions: list[float]
    held: list[float]
    low: list[float]
    high: list[float]
    walks: int


def calibrate(forecaster: Forecaster, unseen: Sequence[Walk]) -> Calibration | None:
    """Calibration with 95 % intervals; None with fewer than two walks, which allow no interval."""
    levels = [_levels(forecaster, walk, n) for n, walk in enumerate(unseen[-_MOST_WALKS:])]
    levels = [x for x in levels if len(x)]
    if len(levels) < 2:
        return None
    inside = np.array([[(x <= region).sum() for region in REGIONS] for x in levels])  # (N, R)
    count = np.array([len(x) for x in levels])
    drawn = np.random.default_rng(0).integers(len(levels), size=(_DRAWS, len(levels)))
    means = inside[drawn].sum(1) / count[drawn].sum(1)[:, None]
    low, high = np.quantile(means, [_TAIL, 1.0 - _TAIL], axis=0)
    held = inside.sum(0) / count.sum()
    return Calibration(list(REGIONS), _rounded(held), _rounded(low), _rounded(high), len(levels))


def _rounded(values: Array) -> list[float]:
    return [round(float(v), 4) for v in values]


def _levels(forecaster: Forecaster, walk: Walk, seed: int) -> Array:
    """Probability of the smallest region around each true position of a walk; empty where nothing is known."""
    dt_s = forecaster.file.model.dt_s
    ticks = min(int(walk.times_s[-1] / dt_s), round(forecaster.config.longest_s / dt_s))
    if ticks < 1:
        return np.empty(0)
    found = forecaster.forecast(walk.xy[0], int(walk.stamps_ns[0]), horizon_s=ticks * dt_s, samples=_SAMPLES, seed=seed)
    if not found.known:
        return np.empty(0)
    return region_levels(found.samples_xy[:, 1:], walk.xy_at(found.times_s[1:]))
