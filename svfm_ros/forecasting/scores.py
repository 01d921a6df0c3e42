"""Scores of forecasts: plain numpy, paths in metres, independent of any model.

Paths are arrays ``(S, K, 2)``: S paths at K common times. A walk that has ended stays where it ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.errors import DataError

__all__ = [
    "Displacement",
    "coverage",
    "destination_log_loss",
    "energy_distance",
    "entropy",
    "min_displacement",
    "path_distances",
    "region_levels",
    "shares_of",
    "total_variation",
]

Array = NDArray[np.float64]
_BANDWIDTH_M = 0.3  # of the kernel density whose regions are checked
_LEAST_SHARE = 1e-3
_BLOCK = 256  # rows of a distance matrix worked on at a time, so that thousands of paths fit in memory


@dataclass(frozen=True, slots=True)
class Displacement:
    """The best of S sampled paths, by mean and by final distance to what happened."""

    min_ade_m: float
    min_fde_m: float


def path_distances(first: ArrayLike, second: ArrayLike) -> Array:
    """Root mean square distance over time between every two paths: ``(S, K, 2), (M, K, 2) -> (S, M)``."""
    a, b = _paths(first, "first"), _paths(second, "second")
    if a.shape[1] != b.shape[1]:
        raise DataError(f"expected paths at the same times, got {a.shape[1]} and {b.shape[1]} of them")
    # Centred first: the squared norms below would otherwise swamp small distances far from the origin.
    middle = a.mean(axis=(0, 1))
    u, v = (a - middle).reshape(len(a), -1), (b - middle).reshape(len(b), -1)
    rows = [_distances(u[i : i + _BLOCK], v) for i in range(0, len(u), _BLOCK)]
    return np.asarray(np.concatenate(rows) / np.sqrt(a.shape[1]))


def _distances(u: Array, v: Array) -> Array:
    squared = (u**2).sum(1)[:, None] + (v**2).sum(1)[None, :] - 2.0 * u @ v.T
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def energy_distance(forecast: ArrayLike, held_out: ArrayLike) -> float:
    """How far the distribution of forecast paths is from that of held-out paths, in metres; zero when they agree.

    ``2 E|X - Y| - E|X - X'| - E|Y - Y'|``, each path's distance to itself left out.
    """
    x, y = _paths(forecast, "forecast"), _paths(held_out, "held_out")
    return float(2.0 * path_distances(x, y).mean() - _spread(x) - _spread(y))


def _spread(paths: Array) -> float:
    """Mean distance between two of the paths."""
    count = len(paths)
    if count < 2:
        raise DataError(f"expected at least two paths to estimate a spread, got {count}")
    total = path_distances(paths, paths)
    np.fill_diagonal(total, 0.0)  # rounding leaves a trace of it
    return float(total.sum() / (count * (count - 1)))


def shares_of(names: Sequence[str]) -> dict[str, float]:
    """How often each name occurs, as shares that add up to one, in alphabetical order."""
    if not len(names):
        raise DataError("expected at least one endpoint, got none")
    found, counts = np.unique(np.asarray(names), return_counts=True)
    return {str(name): float(count) / len(names) for name, count in zip(found, counts, strict=True)}


def total_variation(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Half the sum of the differences of two sets of shares: 0 the same, 1 nothing in common."""
    names = sorted(set(first) | set(second))
    return 0.5 * sum(abs(first.get(name, 0.0) - second.get(name, 0.0)) for name in names)


def entropy(shares: Mapping[str, float]) -> float:
    """Of the shares, in nats; 0 when one place has them all."""
    p = np.array([v for v in shares.values() if v > 0.0])
    return float(max(0.0, -(p * np.log(p)).sum()))


def min_displacement(samples: ArrayLike, truth: ArrayLike) -> Displacement:
    """Best of the samples ``(S, K, 2)`` against what happened ``(K, 2)``; mean over time and at the end."""
    paths, real = _paths(samples, "samples"), np.asarray(truth, dtype=float)
    if real.shape != paths.shape[1:]:
        raise DataError(f"expected a truth of shape {paths.shape[1:]}, got {real.shape}")
    distance = np.linalg.norm(paths - real, axis=-1)  # (S, K)
    return Displacement(float(distance.mean(1).min()), float(distance[:, -1].min()))


def region_levels(samples: ArrayLike, truth: ArrayLike) -> Array:
    """Per time, the smallest highest-density region that holds the truth, as a probability in [0, 1]: ``(K,)``.

    The density is a kernel estimate from the samples, each left out of its own. Any such function gives calibrated
    regions: when the truth is one more draw from the forecast, the levels are uniform.
    """
    paths, real = _paths(samples, "samples"), np.asarray(truth, dtype=float)
    if real.shape != paths.shape[1:] or len(paths) < 2:
        raise DataError(f"expected at least two samples and a truth of shape {paths.shape[1:]}, got {real.shape}")
    at = np.moveaxis(paths, 1, 0)  # (K, S, 2)
    squared = ((at[:, :, None, :] - at[:, None, :, :]) ** 2).sum(-1)  # (K, S, S)
    kernel = np.exp(-0.5 * squared / _BANDWIDTH_M**2)
    own = kernel.sum(2) - 1.0  # (K, S)
    there = np.exp(-0.5 * ((at - real[:, None, :]) ** 2).sum(-1) / _BANDWIDTH_M**2)  # (K, S)
    # A sample is one of S - 1 others, the truth one of S: compare sums that both leave one out.
    score = there.sum(1, keepdims=True) - there
    above = (own > score).mean(1)
    ties = (own == score).mean(1)
    return np.asarray(above + 0.5 * ties)


def coverage(levels: ArrayLike, region: float) -> float:
    """Share of truths inside the region of that probability; equals ``region`` when the forecast is calibrated."""
    values = np.asarray(levels, dtype=float).ravel()
    if not values.size or not 0.0 < region < 1.0:
        raise DataError(f"expected levels and a region between 0 and 1, got {values.size} levels and {region}")
    return float((values <= region).mean())


def destination_log_loss(shares: Sequence[Mapping[str, float]], truth: Sequence[str]) -> float:
    """Mean minus log share of where each walk really ended, in nats; shares below 0.001 count as 0.001."""
    if len(shares) != len(truth) or not len(truth):
        raise DataError(f"expected one destination per forecast, got {len(truth)} for {len(shares)}")
    given = np.array([s.get(name, 0.0) for s, name in zip(shares, truth, strict=True)])
    return float(-np.log(np.maximum(given, _LEAST_SHARE)).mean())


def _paths(paths: ArrayLike, name: str) -> Array:
    array = np.asarray(paths, dtype=float)
    if array.ndim != 3 or array.shape[-1] != 2 or 0 in array.shape:
        raise DataError(f"{name}: expected paths of shape (S, K, 2), got {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"{name}: expected finite positions, got NaN or infinity")
    return array
