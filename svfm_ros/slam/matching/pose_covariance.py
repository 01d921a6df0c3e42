"""Covariance and information of poses, kept finite where a scan does not constrain some direction."""

import math

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.types import Constraint

__all__ = [
    "covariance_of",
    "information_with_floor",
    "inverse_of",
    "is_break",
    "step_information",
    "turned",
    "worst_variances",
]

Array = NDArray[np.float64]

BREAK = np.diag([1e-4, 1e-4, 1e-2])  # information of a step across a tracking loss: standard deviations 100 m, 10 rad
_BREAK_RAD = 0.3
_WINDOW_M = 1.5  # standard deviation of a position anywhere in the search window
_IN_WINDOW = np.diag([1.0 / _WINDOW_M**2, 1.0 / _WINDOW_M**2, 0.0])
_TINY = 1e-18  # rounding must not make a square negative
_LEAST = np.diag(1.0 / np.array([100.0, 100.0, 10.0]) ** 2)  # m, m, rad: the largest standard deviations


@kernel
def inverse_of(matrix: Array) -> Array:
    """Of a positive definite matrix ``(3, 3)``, by Cholesky; numpy's general inverse takes ten times as long."""
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


def worst_variances(information: Array) -> Array:
    """Variances ``(2,)``: of position along its least certain direction (m²) and of heading (rad²)."""
    covariance = covariance_of(information)
    xx, xy, yy, turn = (float(covariance[i, j]) for i, j in ((0, 0), (0, 1), (1, 1), (2, 2)))
    return np.array([0.5 * (xx + yy) + math.hypot(0.5 * (xx - yy), xy), turn])


def information_with_floor(information: Array, floor: Array) -> Array:
    """The information with the variances ``floor**2`` (3,) added to the covariance."""
    return inverse_of(covariance_of(information) + np.diag(floor**2))


def step_information(information: Array | None, floor: Array) -> Array:
    """Information of the step between two keyframes; ``BREAK`` where it was not measured or its heading is ambiguous.

    A step with this little information keeps its initial motion until a loop closure contradicts it. One whose heading
    is certain, as along a corridor, ended in the search window: a false loop must not take it farther.
    """
    if information is None:
        return BREAK
    position_m2, turn_rad2 = worst_variances(information)
    if turn_rad2 > _BREAK_RAD**2:
        return BREAK
    return information_with_floor(information + _IN_WINDOW if position_m2 > _WINDOW_M**2 else information, floor)


def is_break(step: Constraint) -> bool:
    """Whether a step is an odometry break: its motion is practically unknown."""
    return step.kind == "odometry" and bool(step.information[0, 0] <= BREAK[0, 0])


def turned(matrix: Array, theta_rad: float) -> Array:
    """A covariance or information ``(3, 3)`` rotated from map axes into the axes of a pose with heading theta."""
    c, s = np.cos(theta_rad), np.sin(theta_rad)
    R = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    return np.asarray(R @ matrix @ R.T)
