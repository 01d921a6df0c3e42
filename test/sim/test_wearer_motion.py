"""The lean of a wearer: drawn at knots two seconds apart, and linear in time between them."""

from dataclasses import replace

import numpy as np
import pytest

from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.sim.wearer_motion import BodySway, Motion


def test_a_wearer_leans_slowly():
    standing = Motion(0, np.array([0.0, 60.0]), np.zeros((2, 3)), np.zeros(2))
    sway = BodySway(standing, replace(LidarConfig(), lean_deg=5.0), 1.8, 3)
    knots = sway.at(np.arange(0.0, 60.0, 2.0))
    assert np.degrees(knots.pitch_rad).std() == pytest.approx(5.0, rel=0.5)
    assert len(np.unique(knots.pitch_rad)) == 30
    middles = sway.at(np.arange(1.0, 58.0, 2.0))
    for name in ("pitch_rad", "roll_rad"):
        at_knots = getattr(knots, name)
        assert getattr(middles, name) == pytest.approx(0.5 * (at_knots[1:] + at_knots[:-1]))
