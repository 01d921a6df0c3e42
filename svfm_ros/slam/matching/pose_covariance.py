"""Covariance and information of poses, kept finite where a scan says nothing in some direction."""

import math

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.types import Constraint

__all__ = ["covariance_of", "doubt_of", "information_with_floor", "inverse_of", "is_leap", "step_information", "turned"]

Array = NDArray[np.float64]

LEAP = np.diag([1e-4, 1e-4, 1e-2])  # information of a leap: 100 m, 10 rad
_LEAP_M, _LEAP_RAD = 1.5, 0.3
_TINY = 1e-18  # rounding must not make a square negative
_LEAST = np.diag(1.0 / np.array([100.0, 100.0, 10.0]) ** 2)  # m, m, rad: as wide as "no idea" gets


@kernel
def inverse_of(matrix: Array) -> Array:
    """Of a positive definite matrix ``(3, 3)``, by Cholesky: several a scan, for which numpy's takes too long."""
    a = np.sqrt(matrix[0, 0])
    b, d = matrix[1, 0] / a, matrix[2, 0] / a
    c = np.sqrt(max(matrix[1, 1] - b * b, _TINY))
    e = (matrix[2, 1] - b * d) / c
    f = np.sqrt(max(matrix[2, 2] - d * d - e * e, _TINY))
    # The inverse of the lower triangle; its square is that of the matrix.
    l00, l11, l22 = 1.0 / a, 1.0 / c, 1.0 / f
    l10, l21 = -b * l00 * l11, -e * l11 * l22
    l20 = (b * e * l11 - d) * l00 * l22
    out = np.empty((3, 3))
    out[0, 0] = l00 * l00 + l10 * l10 + l20 * l20
    out[1, 1] = l11 * l11 + l21 * l21
    out[2, 2] = l22 * l22
    out[0, 1] = out[1, 0] = l10 * l11 + l20 * l21
    out[0, 2] = out[2, 0] = l20 * l22
    out[1, 2] = out[2, 1] = l21 * l22
    return out


def covariance_of(information: Array) -> Array:
    """Inverse of an information matrix ``(3, 3)`` that may be singular."""
    return inverse_of(information + _LEAST)


def doubt_of(information: Array) -> Array:
    """Variances ``(2,)`` of place, in its least sure direction, and of turn: m² and rad²."""
    covariance = covariance_of(information)
    xx, xy, yy, turn = (float(covariance[i, j]) for i, j in ((0, 0), (0, 1), (1, 1), (2, 2)))
    return np.array([0.5 * (xx + yy) + math.hypot(0.5 * (xx - yy), xy), turn])


def information_with_floor(information: Array, floor: Array) -> Array:
    """The same information, but never surer than the standard deviations ``floor`` (3,)."""
    return inverse_of(covariance_of(information) + np.diag(floor**2))


def step_information(information: Array | None, floor: Array) -> Array:
    """Of a step between keyframes. One that nobody saw, or that might as well have gone elsewhere, is a leap.

    A leap keeps its measured motion until something speaks against it, and then gives way without resistance.
    """
    if information is None:
        return LEAP
    place_m2, turn_rad2 = doubt_of(information)
    return LEAP if place_m2 > _LEAP_M**2 or turn_rad2 > _LEAP_RAD**2 else information_with_floor(information, floor)


def is_leap(step: Constraint) -> bool:
    """Whether a step's motion is hardly known."""
    return step.kind == "odometry" and bool(step.information[0, 0] <= LEAP[0, 0])


def turned(matrix: Array, theta_rad: float) -> Array:
    """A covariance or information ``(3, 3)`` in axes turned by theta: from the map's to those of a pose in it."""
    c, s = np.cos(theta_rad), np.sin(theta_rad)
    R = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    return np.asarray(R @ matrix @ R.T)
