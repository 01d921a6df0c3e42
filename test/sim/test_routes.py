"""Middle lines: how their corners are rounded."""

import numpy as np
import pytest

from svfm_ros.sim.house_drawing import parse_drawing
from svfm_ros.sim.routes import RouteBook, resample

HALL = {
    "name": "hall",
    "wall_thickness": 0.1,
    "wall_height": 2.4,
    "door_height": 2.0,
    "walls": [[[0, 0], [8, 0], [8, 8], [0, 8], [0, 0]]],
    "places": [
        {"name": "a", "x": 2.0, "y": 2.0, "radius": 0.4, "colour": "#000000"},
        {"name": "b", "x": 6.0, "y": 6.0, "radius": 0.4, "colour": "#ffffff"},
    ],
}


def test_a_corner_is_rounded_by_a_gaussian_of_a_third_of_a_metre():
    """The mean of a right-angled corner under a Gaussian of s metres along the line is s / sqrt(pi) away from it."""
    corner = np.array([6.0, 4.0])
    line = resample(np.array([[2.0, 4.0], corner, [6.0, 6.5]]), 400)
    smooth = RouteBook(parse_drawing(HALL, "hall"), 0.25)._smooth(line)
    assert np.linalg.norm(smooth - corner, axis=1).min() == pytest.approx(0.35 / np.sqrt(np.pi), abs=0.02)
    assert smooth[[0, -1]] == pytest.approx(line[[0, -1]])
