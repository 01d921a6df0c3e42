"""Predicted motion: in a thinned recording the next step is like those before."""

import numpy as np
import pytest

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.motion_model import VelocityModel
from svfm_ros.types import MotionHint, Pose2

AHEAD, LEFT = Pose2(2.0, 0.1, 0.05), Pose2(0.2, 0.1, 0.8)
HERE = Pose2(5.0, 3.0, np.pi / 2)
CERTAIN_M, UNCERTAIN_M = 0.05, 1.0


def model_after(*steps: Pose2, gap_s: float = 4.0, spread_m: float = CERTAIN_M) -> VelocityModel:
    model = VelocityModel(SlamConfig())
    for step in steps:
        model.update(step, gap_s, spread_m)
    return model


def test_a_thinned_recording_is_predicted_by_its_steps_however_long_they_take() -> None:
    for gap_s in (1.5, 20.0):
        (guess,) = model_after(AHEAD, AHEAD, AHEAD).guesses(HERE, gap_s, None)
        assert guess.T_map_scan.as_array() == pytest.approx((HERE @ AHEAD).as_array())
        assert guess.reach_m >= 2.0  # it may have stood still


def test_turns_on_the_spot_are_no_reason_to_expect_no_step_ahead() -> None:
    guesses = model_after(AHEAD, AHEAD, AHEAD, *(LEFT for _ in range(10))).guesses(HERE, 4.0, None)
    expected = (AHEAD, LEFT, Pose2(0.2, -0.1, -0.8))  # a turn to the right mirrors one to the left
    for guess, step in zip(guesses, expected, strict=True):
        assert guess.T_map_scan.as_array() == pytest.approx((HERE @ step).as_array())


def test_a_recording_that_begins_with_turns_says_nothing_of_steps_ahead() -> None:
    (guess,) = model_after(*(LEFT for _ in range(10))).guesses(HERE, 4.0, None)
    assert guess.T_map_scan == HERE
    assert guess.reach_m > 2.5


def test_short_steps_are_predicted_as_long_ones_are() -> None:
    """Along a corridor a metre on looks like standing still."""
    (guess,) = model_after(*(Pose2(0.9, 0.0, 0.0) for _ in range(3))).guesses(HERE, 2.0, None)
    assert guess.T_map_scan.as_array() == pytest.approx((HERE @ Pose2(0.9, 0.0, 0.0)).as_array())


def test_a_quick_turn_in_a_thinned_recording_is_a_step_like_the_others() -> None:
    """The velocity of the step before would predict the same turn, or the other way round."""
    model = model_after(AHEAD, AHEAD, AHEAD, *(LEFT for _ in range(3)))
    quick, slow = model.guesses(HERE, 0.9, None), model.guesses(HERE, 4.0, None)
    assert [guess.T_map_scan for guess in quick] == [guess.T_map_scan for guess in slow]


def test_steps_known_in_advance_are_expected_from_the_first_scan_on() -> None:
    model = VelocityModel(SlamConfig())
    model.expect(model_after(AHEAD, AHEAD, AHEAD).steps)
    (guess,) = model.guesses(HERE, 4.0, None)
    assert guess.T_map_scan.as_array() == pytest.approx((HERE @ AHEAD).as_array())


def test_steps_of_which_nothing_certain_is_known_are_all_as_likely() -> None:
    (guess,) = model_after(AHEAD, AHEAD, AHEAD, spread_m=UNCERTAIN_M).guesses(HERE, 4.0, None)
    assert guess.T_map_scan == HERE
    assert guess.reach_m > 2.5
    assert guess.spread_m == guess.reach_m


def test_a_gap_between_dense_scans_and_a_hint_leave_the_velocity_in_charge() -> None:
    dense = model_after(*(Pose2(0.1, 0.0, 0.0) for _ in range(30)), gap_s=0.1)
    assert dense.guesses(HERE, 2.0, None) == [dense.guess(HERE, 2.0, None)]
    hint = MotionHint(Pose2(1.0, 0.0, 0.0))
    sparse = model_after(AHEAD, AHEAD, AHEAD)
    assert sparse.guesses(HERE, 4.0, hint) == [sparse.guess(HERE, 4.0, hint)]


def test_nobody_stops_at_once_but_anybody_within_a_second() -> None:
    model = model_after(Pose2(0.1, 0.0, 0.0), gap_s=0.1)
    assert model.inertia_m(0.1) < 0.05
    assert model.inertia_m(1.0) > 1.0
    model.forget()
    assert model.inertia_m(0.1) is None
