"""Absolute trajectory error after rigid alignment."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import geometry
from svfm_ros.errors import DataError
from svfm_ros.types import Pose2

__all__ = ["AbsoluteError", "absolute_error"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AbsoluteError:
    """Difference to the true trajectory after rigid alignment."""

    rmse_m: float
    rmse_deg: float
    worst_m: float
    worst_deg: float
    T_truth_estimate: Pose2


def _best_alignment(estimate: ArrayLike, truth: ArrayLike) -> Pose2:
    """``T_truth_estimate`` that aligns positions ``(T, 2 or 3)`` with the true ones by least squares."""
    a, b = np.asarray(estimate, dtype=float), np.asarray(truth, dtype=float)
    mean_a, mean_b = a[:, :2].mean(axis=0), b[:, :2].mean(axis=0)
    p, q = a[:, :2] - mean_a, b[:, :2] - mean_b
    sine = float(np.sum(p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]))
    cosine = float(np.sum(p[:, 0] * q[:, 0] + p[:, 1] * q[:, 1]))
    if np.hypot(sine, cosine) < 1e-9 and a.shape[1] == 3:  # no translation: align the headings
        sine, cosine = float(np.sin(b[:, 2] - a[:, 2]).sum()), float(np.cos(b[:, 2] - a[:, 2]).sum())
    theta = float(np.arctan2(sine, cosine))
    x, y = mean_b - geometry.apply(np.array([0.0, 0.0, theta]), mean_a[None])[0]
    return Pose2(float(x), float(y), theta)


def absolute_error(estimate: ArrayLike, truth: ArrayLike) -> AbsoluteError:
    """Error of poses ``(T, 3)`` against the true ones at the same moments."""
    a, b = np.asarray(estimate, dtype=float), np.asarray(truth, dtype=float)
    if a.shape != b.shape or a.ndim != 2 or not len(a):
        raise DataError(f"expected as many poses as true ones, and some, got {a.shape} and {b.shape}")
    T_truth_estimate = _best_alignment(a, b)
    aligned = geometry.compose(T_truth_estimate.as_array(), a)
    metres = np.hypot(*(aligned - b)[:, :2].T)
    degrees = np.degrees(np.abs(geometry.wrap_angle(aligned[:, 2] - b[:, 2])))
    return AbsoluteError(_rms(metres), _rms(degrees), float(metres.max()), float(degrees.max()), T_truth_estimate)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))
