"""Covariance and information of poses, kept finite where a scan says nothing in some direction."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["covariance_of", "information_with_floor", "turned"]

Array = NDArray[np.float64]

_IGNORANCE = np.array([100.0, 100.0, 10.0])  # m, m, rad: as wide as "no idea" gets


def covariance_of(information: Array) -> Array:
    """Inverse of an information matrix ``(3, 3)`` that may be singular."""
    return np.asarray(np.linalg.inv(information + np.diag(1.0 / _IGNORANCE**2)))


def information_with_floor(information: Array, floor: Array) -> Array:
    """The same information, but never surer than the standard deviations ``floor`` (3,)."""
    return np.asarray(np.linalg.inv(covariance_of(information) + np.diag(floor**2)))


def turned(matrix: Array, theta_rad: float) -> Array:
    """A covariance or information ``(3, 3)`` in axes turned by theta: from the map's to those of a pose in it."""
    c, s = np.cos(theta_rad), np.sin(theta_rad)
    R = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    return np.asarray(R @ matrix @ R.T)
