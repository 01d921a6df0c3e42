"""Motion prediction: constant velocity or a motion hint, with the search window around it."""

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.matching.scan_matcher import Guess
from svfm_ros.types import MotionHint, Pose2

__all__ = ["MotionSource", "VelocityModel"]

Array = NDArray[np.float64]

_SLACK_M, _SLACK_RAD = 0.2, 0.15  # minimum half size of the search window
_SPREAD_M, _SPREAD_M_S = 0.1, 0.2  # standard deviation of a prediction, plus its growth per second
_SPREAD_RAD, _SPREAD_RAD_S = 0.1, 0.3
_MOST_REACH_M, _MOST_TURN_RAD = 2.0, 1.8  # maximum half size of the search window
_MEAN_S, _PAUSE_S = 5.0, 8.0  # time constant of the mean velocity; longer gaps do not update it
_MAX_SPREAD_M = 0.1  # motions with a larger standard deviation hardly update the mean velocity
_WINDOW_SPREADS = 3.0  # half size of the window around a hint, in its standard deviations
_TRUSTED_S = 0.5  # a velocity is extrapolated this long, or twice the time it was measured over


class MotionSource(Protocol):
    """What measures the motion of the sensor besides the scans."""

    def between(self, from_ns: int, to_ns: int) -> MotionHint | None:
        """The motion from one moment to a later one; None where it was not measured."""


class VelocityModel:
    """The velocity ``twist`` (vx, vy, omega per second, sensor axes) between scans.

    Within a fraction of a second the last velocity is used; over gaps of seconds the mean velocity without turning.
    """

    def __init__(self, config: SlamConfig) -> None:
        self._config = config
        self.twist = np.zeros(3)
        self._mean = np.zeros(3)
        self._measured_s = 0.0

    def guess(self, T_map_previous: Pose2, gap_s: float, hint: MotionHint | None) -> Guess:
        """Predicted pose after ``gap_s`` and the search window around it, which grows with the gap."""
        share = min(max((gap_s - _TRUSTED_S) / _TRUSTED_S, 0.0), 1.0)
        twist = (1.0 - share) * self.twist + share * self._mean * np.array([1.0, 1.0, 0.0])
        moved = Pose2.from_twist(*(twist * min(gap_s, max(_TRUSTED_S, 2.0 * self._measured_s))).tolist())
        guess = Guess(T_map_previous @ moved, *self._window(gap_s), *_spread(gap_s))
        return guess if hint is None else _hinted(guess, T_map_previous, moved, hint)

    def spread(self, gap_s: float) -> Array:
        """Covariance ``(3, 3)`` that a prediction over ``gap_s`` adds."""
        spread_m, spread_rad = _spread(gap_s)
        return np.diag(np.array([spread_m, spread_m, spread_rad]) ** 2)

    def measured(self, T_previous_now: Pose2, gap_s: float) -> Array:
        """The velocity ``(3,)`` of a motion that took ``gap_s``."""
        return np.asarray(T_previous_now.twist() / max(gap_s, 1e-3))

    def update(self, T_previous_now: Pose2, gap_s: float, spread_m: float) -> None:
        """Set the velocity from a measured motion with standard deviation ``spread_m``.

        The mean velocity is not updated by uncertain motions, as along a corridor, nor over long gaps.
        """
        self.twist = self.measured(T_previous_now, gap_s)
        self._measured_s = gap_s
        if gap_s < _PAUSE_S:
            share = (1.0 - np.exp(-gap_s / _MEAN_S)) / (1.0 + (spread_m / _MAX_SPREAD_M) ** 4)
            self._mean += share * (self.twist - self._mean)

    def _window(self, gap_s: float) -> tuple[float, float]:
        """Half sizes of the search window after ``gap_s``: metres and radians."""
        reach_m = min(_SLACK_M + 0.5 * self._config.max_speed_m_s * gap_s, _MOST_REACH_M)
        return reach_m, min(_SLACK_RAD + 0.5 * self._config.max_turn_rate_rad_s * gap_s, _MOST_TURN_RAD)

    def forget(self) -> None:
        """Reset to zero velocity."""
        self.twist, self._mean = np.zeros(3), np.zeros(3)
        self._measured_s = 0.0


def _hinted(guess: Guess, T_map_previous: Pose2, moved: Pose2, hint: MotionHint) -> Guess:
    """The guess at the hinted pose; where the hint has standard deviations, the window is no larger than they need."""
    hinted = hint.T_previous_now.as_array()
    there = T_map_previous @ Pose2.from_array(np.where(np.isfinite(hinted), hinted, moved.as_array()))
    guess = replace(guess, T_map_scan=there)
    if hint.spread_rad is not None:
        turn_rad = min(guess.turn_rad, _SLACK_RAD + _WINDOW_SPREADS * hint.spread_rad)
        guess = replace(guess, turn_rad=turn_rad, spread_rad=min(guess.spread_rad, hint.spread_rad))
    if hint.spread_m is not None:
        reach_m = min(guess.reach_m, _SLACK_M + _WINDOW_SPREADS * hint.spread_m)
        guess = replace(guess, reach_m=reach_m, spread_m=min(guess.spread_m, hint.spread_m))
    return guess


def _spread(gap_s: float) -> tuple[float, float]:
    """Standard deviations of a prediction after ``gap_s``: metres and radians."""
    return _SPREAD_M + _SPREAD_M_S * gap_s, _SPREAD_RAD + _SPREAD_RAD_S * gap_s
