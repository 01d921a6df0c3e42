"""Calibration of forecasts: how often their regions held the true positions, on walks the model did not learn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["REGIONS", "Calibration", "calibrate"]

Array = NDArray[np.float64]

REGIONS = tuple(round(0.05 * i, 2) for i in range(1, 20))
_DRAWS, _TAIL = 500, 0.025  # of the bootstrap over walks


@dataclass(frozen=True, slots=True)
class Calibration:
    """For each region (a probability) the share of true positions inside; equal when forecasts are calibrated."""

    regions: list[float]
    held: list[float]
    low: list[float]
    high: list[float]
    walks: int


def calibrate(levels: Sequence[Array]) -> Calibration | None:
    """Calibration with 95 % intervals from the levels of each walk, as ``pipeline.evaluation.walk_levels`` has them.

    None with fewer than two walks, which allow no interval.
    """
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
