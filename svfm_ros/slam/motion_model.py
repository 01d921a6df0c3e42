"""Where the sensor should be by now: constant velocity or a hint, and how far off that may be."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.matching.scan_matcher import Guess
from svfm_ros.types import Pose2

__all__ = ["Motion", "MotionHint"]

Array = NDArray[np.float64]

_SLACK_M, _SLACK_RAD = 0.2, 0.15  # the window is never smaller than this
_SPREAD_M, _SPREAD_M_S = 0.1, 0.2  # how far a guess is off at once, and more with every second
_SPREAD_RAD, _SPREAD_RAD_S = 0.1, 0.3
_MOST_REACH_M, _MOST_TURN_RAD = 2.0, 1.8
_USUAL_S, _PAUSE_S = 5.0, 8.0  # the usual speed is that of so many seconds; what takes longer holds a pause
_VAGUE_M = 0.1  # a motion known less exactly than this says little about what is usual
_TRUSTED_S = 0.5  # a velocity holds for this long, or for twice the time it was measured over


@dataclass(frozen=True, slots=True)
class MotionHint:
    """Motion since the scan before, in its axes, from odometry or an IMU; NaN where a part is not known."""

    T_previous_now: Pose2


class Motion:
    """Keeps the velocity ``twist`` (vx, vy, omega per second, sensor's axes) between scans.

    From one scan to the next within a fraction of a second, the last velocity holds. Over gaps of seconds it does not:
    what lasts that long is the usual speed, while turns come and go.
    """

    def __init__(self, config: SlamConfig) -> None:
        self._config = config
        self.twist = np.zeros(3)
        self._usual = np.zeros(3)
        self._measured_s = 0.0

    def guess(self, T_map_previous: Pose2, gap_s: float, hint: MotionHint | None) -> Guess:
        """Pose after ``gap_s`` and the window around it, which grows with the gap."""
        share = min(max((gap_s - _TRUSTED_S) / _TRUSTED_S, 0.0), 1.0)
        twist = (1.0 - share) * self.twist + share * self._usual * np.array([1.0, 1.0, 0.0])
        moved = Pose2.from_twist(*(twist * min(gap_s, max(_TRUSTED_S, 2.0 * self._measured_s))).tolist())
        if hint is not None:
            told = hint.T_previous_now.as_array()
            moved = Pose2.from_array(np.where(np.isfinite(told), told, moved.as_array()))
        return Guess(T_map_previous @ moved, *self._window(gap_s), *_spread(gap_s))

    def spread(self, gap_s: float) -> Array:
        """Covariance ``(3, 3)`` that a guess adds over ``gap_s``."""
        spread_m, spread_rad = _spread(gap_s)
        return np.diag(np.array([spread_m, spread_m, spread_rad]) ** 2)

    def measured(self, T_previous_now: Pose2, gap_s: float) -> Array:
        """The velocity ``(3,)`` of a motion that took ``gap_s``."""
        return np.asarray(T_previous_now.twist() / max(gap_s, 1e-3))

    def update(self, T_previous_now: Pose2, gap_s: float, doubt_m: float) -> None:
        """Take the velocity from a measured motion.

        What is usual is learnt neither from a motion in doubt, as in a corridor, nor from one with a pause in it.
        """
        self.twist = self.measured(T_previous_now, gap_s)
        self._measured_s = gap_s
        if gap_s < _PAUSE_S:
            share = (1.0 - np.exp(-gap_s / _USUAL_S)) / (1.0 + (doubt_m / _VAGUE_M) ** 4)
            self._usual += share * (self.twist - self._usual)

    def _window(self, gap_s: float) -> tuple[float, float]:
        """How far the guess may be off after ``gap_s``: metres and radians."""
        reach_m = min(_SLACK_M + 0.5 * self._config.max_speed_m_s * gap_s, _MOST_REACH_M)
        return reach_m, min(_SLACK_RAD + 0.5 * self._config.max_turn_rate_rad_s * gap_s, _MOST_TURN_RAD)

    def forget(self) -> None:
        """Nothing is known any more: stand still."""
        self.twist, self._usual = np.zeros(3), np.zeros(3)
        self._measured_s = 0.0


def _spread(gap_s: float) -> tuple[float, float]:
    """Standard deviations of a guess after ``gap_s``: metres and radians."""
    return _SPREAD_M + _SPREAD_M_S * gap_s, _SPREAD_RAD + _SPREAD_RAD_S * gap_s
