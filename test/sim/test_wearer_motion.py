"""How the body of a wearer moves: headings, stays between walks, and a slow lean."""

from dataclasses import replace

import numpy as np
import pytest

from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.errors import DataError
from svfm_ros.sim.wearer_motion import BodySway, Motion, motion_of
from svfm_ros.types import Walk

S = 1_000_000_000


def straight(name: str, begin_s: float, x: float) -> Walk:
    """One metre along x, in two seconds."""
    seconds = begin_s + np.linspace(0.0, 2.0, 21)
    poses = np.column_stack([x + np.linspace(0.0, 1.0, 21), np.zeros(21), np.zeros(21)])
    return Walk(name, "resident", np.round(seconds * S).astype(np.int64), poses)


def test_headings_stay_between_minus_pi_and_pi():
    turning = Motion(0, np.array([0.0, 2.0]), np.array([[0.0, 0.0, 3.0], [2.0, 0.0, 4.0]]), np.zeros(2))
    np.testing.assert_allclose(turning.poses_at(np.array([0.0, 1.0])), [[0.0, 0.0, 3.0], [1.0, 0.0, 3.5 - 2 * np.pi]])


def test_walks_of_one_recording_follow_each_other():
    first = straight("first", 10.0, 0.0)
    motion = motion_of([first, straight("second", 20.0, 1.0)], before_s=1.0, after_s=1.0, seed=0)
    np.testing.assert_allclose(motion.poses_at(np.array([1.0, 2.0, 3.0, 11.0, 13.0]))[:, 0], [0.0, 0.5, 1.0, 1.0, 2.0])
    for other, why in ((straight("far", 20.0, 1.5), "0.50 m away"), (straight("early", 11.0, 1.0), "-1.00 s later")):
        with pytest.raises(DataError, match=f"{other.walk_id}.*{why}"):
            motion_of([first, other], before_s=1.0, after_s=1.0, seed=0)


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
