"""Covariance and information of poses, kept finite where a scan says nothing in some direction."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.datatypes import Constraint

__all__ = ["covariance_of", "doubt_of", "information_with_floor", "is_leap", "step_information", "turned"]

Array = NDArray[np.float64]

LEAP = np.diag([1e-4, 1e-4, 1e-2])  # information of a leap: 100 m, 10 rad
_LEAP_M, _LEAP_RAD = 1.5, 0.3
_IGNORANCE = np.array([100.0, 100.0, 10.0])  # m, m, rad: as wide as "no idea" gets


def covariance_of(information: Array) -> Array:
    """Inverse of an information matrix ``(3, 3)`` that may be singular."""
    return np.asarray(np.linalg.inv(information + np.diag(1.0 / _IGNORANCE**2)))


def doubt_of(information: Array) -> Array:
    """Variances ``(2,)`` of place, in its least sure direction, and of turn: m² and rad²."""
    covariance = covariance_of(information)
    return np.array([np.linalg.eigvalsh(covariance[:2, :2])[-1], covariance[2, 2]])


def information_with_floor(information: Array, floor: Array) -> Array:
    """The same information, but never surer than the standard deviations ``floor`` (3,)."""
    return np.asarray(np.linalg.inv(covariance_of(information) + np.diag(floor**2)))


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
