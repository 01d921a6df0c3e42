"""What a forecast is asked for: how many paths how far ahead, for whom, and the walk that led there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.errors import DataError
from svfm_ros.types import Walk

__all__ = ["ForecastSize", "SeenWalk", "WalkerQuestion", "covariance_factor"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ForecastSize:
    """What holds for all forecasts of a call."""

    horizon_s: float
    samples: int
    seed: int


@dataclass(frozen=True, slots=True)
class WalkerQuestion:
    """One walker."""

    here: Array  # (2,), metres
    stamp_ns: int
    hour: float
    day: int
    factor: Array | None  # (2, 2), times its transpose: the covariance of ``here``; None: it is exact
    walk_so_far: Walk | None
    what_if_hour: float | None

    def starts(self, samples: int, rng: np.random.Generator) -> Array:
        """Where they may be (S, 2)."""
        if self.factor is None:
            return np.tile(self.here, (samples, 1))
        return np.asarray(self.here + rng.standard_normal((samples, 2)) @ self.factor.T)


@dataclass(frozen=True, slots=True)
class SeenWalk:
    """A walk so far on ticks, and when it began."""

    xy: Array  # (T, 2), metres
    variance: Array  # (T,), m^2
    hour: float
    day: int


def covariance_factor(covariance: ArrayLike | None) -> Array | None:
    """A matrix (2, 2) that times its transpose is the covariance of a position; None without one."""
    if covariance is None:
        return None
    spread = np.asarray(covariance, dtype=float)
    if spread.shape not in ((2, 2), (3, 3)) or not np.isfinite(spread).all():
        raise DataError(f"expected a finite covariance (2, 2) or (3, 3), got shape {spread.shape}")
    values, axes = np.linalg.eigh(0.5 * (spread[:2, :2] + spread[:2, :2].T))
    if values.min() < -1e-9:
        raise DataError(f"expected a covariance without negative variances, got {values.min():.3g}")
    return np.asarray(axes * np.sqrt(values.clip(min=0.0)))
