"""Walls in a grid of scores: what they hide and what lies on them, counted by hand."""

import numpy as np
import pytest

from svfm_ros.slam.matching.point_to_line import share_behind_walls, share_on_walls
from svfm_ros.slam.matching.pyramid import WALL

CELL_M, UNKNOWN = 0.1, 70
ORIGIN = np.array([-1.0, -2.0])  # of the grid, 4 m x 4 m


def room() -> np.ndarray:
    """A wall across the grid at x from 1.0 to 1.1 m, free floor before it and unknown space from 2.0 m on."""
    seen = np.zeros((40, 40), dtype=np.uint8)
    seen[:, 20] = WALL
    seen[:, 30:] = UNKNOWN
    return seen


@pytest.mark.parametrize("turn_rad", [0.0, 2.0])
def test_a_wall_hides_what_lies_well_behind_it(turn_rad: float) -> None:
    pose = np.array([-0.5, 0.5, turn_rad])
    c, s = np.cos(turn_rad), np.sin(turn_rad)
    wanted = np.array([[0.5, 0.5], [0.0, -1.0], [1.05, 0.5], [1.8, 0.5], [1.8, -1.0]])  # the last two are behind it
    points = (wanted - pose[:2]) @ np.array([[c, -s], [s, c]])
    assert share_behind_walls(room(), ORIGIN, CELL_M, points, pose) == pytest.approx(2 / 5)


def test_points_in_unknown_space_do_not_count_as_off_the_walls() -> None:
    points = np.array([[1.05, 0.0], [1.05, 1.0], [0.0, 0.0], [2.5, 0.0]])  # two on the wall, one free, one unknown
    assert share_on_walls(room(), ORIGIN, CELL_M, UNKNOWN, points, np.zeros(3)) == pytest.approx(2 / 3)
