"""The angle of the walls on a map, by which plans are turned so that walls are upright."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.types import OCCUPIED_FROM, OccupancyGrid

__all__ = ["turned", "wall_angle"]

Array = NDArray[np.float64]

_MOST_WALL_CELLS = 4000
_COARSE_RAD, _FINE_RAD = np.deg2rad(1.0), np.deg2rad(0.1)
_BIN_M = 0.1


def wall_angle(grid: OccupancyGrid) -> float:
    """Angle of the walls against the axes of the map, in radians, between -45 and 45 degrees; 0 without walls.

    Turned by the right angle, cells of walls share few rows and columns: the sum of squared counts is largest.
    """
    walls = grid.centres_of(np.nan_to_num(grid.prob) > OCCUPIED_FROM)
    if len(walls) < 2:
        return 0.0
    walls = walls[:: 1 + len(walls) // _MOST_WALL_CELLS]
    coarse = _best_angle(walls, np.arange(-np.pi / 4, np.pi / 4, _COARSE_RAD))
    return _best_angle(walls, coarse + np.arange(-_COARSE_RAD, _COARSE_RAD, _FINE_RAD))


def _best_angle(walls: Array, angles: Array) -> float:
    scores = [sum(float(np.square(_histogram(axis)).sum()) for axis in turned(walls, a).T) for a in angles.tolist()]
    ties = np.flatnonzero(np.array(scores) >= max(scores) * (1.0 - 1e-9))
    return float(angles[ties[np.argmin(np.abs(angles[ties]))]])


def _histogram(values: Array) -> NDArray[np.int64]:
    return np.bincount(np.floor((values - values.min()) / _BIN_M).astype(int))


def turned(xy: Array, turn: float) -> Array:
    """Points ``(N, 2)`` turned by ``-turn``."""
    cos, sin = np.cos(turn), np.sin(turn)
    return np.asarray(xy @ np.array([[cos, -sin], [sin, cos]]))
