"""Motion prediction: constant velocity or a motion hint, with the search window around it."""

import math
from collections import deque
from dataclasses import dataclass, replace
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
_SPARSE_S = 1.0  # where gaps are longer a step is predicted from the steps before, not from the velocity
_GAPS = 200  # newest gaps that decide whether a recording is thinned: many, as gaps are short there too during turns
_STEPS, _FEWEST_STEPS, _LONG_PERCENT = 100, 3, 80.0  # newest steps that count, fewest, percentile of the long ones
_LEAST_M_RAD = 0.8  # of a step ahead: metres for each radian of turn
_CERTAIN_STEP_M, _FIRST_STEP_M = 0.2, 0.6  # their largest standard deviation, and that of the first
_STEP_SPREAD_M, _STEP_SPREAD_RAD = 0.3, 0.3  # least standard deviations of a predicted step
_STEP_SPREAD_SHARE = 0.3  # of its length
_FARTHEST_M = 3.5  # largest half size of the window around it
_STEP_SLACK_M, _TURN_WINDOW_RAD = 0.5, 0.7  # added to the window around a step; half the window around a turn
_WINDOW_SPREADS = 3.0  # half size of the window around a hint, in its standard deviations
_ACCELERATION_M_S2, _INERTIA_M = 3.0, 0.01  # of a person who walks; error of a velocity, over the time it was measured
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
        self._gaps_s: deque[float] = deque(maxlen=_GAPS)  # the newest
        self._steps: deque[Array] = deque(maxlen=_STEPS)  # (3,) each, sensor's axes: the newest of a thinned recording

    def guess(self, T_map_previous: Pose2, gap_s: float, hint: MotionHint | None) -> Guess:
        """Predicted pose after ``gap_s`` and the search window around it, which grows with the gap."""
        share = min(max((gap_s - _TRUSTED_S) / _TRUSTED_S, 0.0), 1.0)
        twist = (1.0 - share) * self.twist + share * self._mean * np.array([1.0, 1.0, 0.0])
        moved = Pose2.from_twist(*(twist * min(gap_s, max(_TRUSTED_S, 2.0 * self._measured_s))).tolist())
        guess = Guess(T_map_previous @ moved, *self._window(gap_s), *_spread(gap_s))
        return guess if hint is None else _hinted(guess, T_map_previous, moved, hint)

    @property
    def steps(self) -> Array:
        """The newest certain steps of a thinned recording ``(S, 3)``, each in the sensor's axes before it."""
        return np.array(self._steps).reshape(-1, 3)

    def expect(self, steps: Array) -> None:
        """Predict steps like these ``(S, 3)`` from the first scan on."""
        self._steps.extend(steps)

    def spread(self, gap_s: float) -> Array:
        """Covariance ``(3, 3)`` that a prediction over ``gap_s`` adds."""
        spread_m, spread_rad = _spread(gap_s)
        return np.diag(np.array([spread_m, spread_m, spread_rad]) ** 2)

    def guesses(self, T_map_previous: Pose2, gap_s: float, hint: MotionHint | None) -> list[Guess]:
        """One guess; in a thinned recording three: a typical step ahead, and a typical turn to either side.

        Thinned recordings have a scan after a certain distance or turn: the time between scans tells little there.
        """
        is_thinned = self._is_thinned() if self._gaps_s else gap_s > _SPARSE_S
        if not is_thinned or hint is not None:
            return [self.guess(T_map_previous, gap_s, hint)]
        turn_rad, spread_rad = self._window(gap_s)[1], _spread(gap_s)[1]
        ahead, turn = _kinds(self._steps)
        if ahead is None:  # any step is as likely
            reach_m = min(_SLACK_M + 0.5 * self._config.max_speed_m_s * gap_s, _FARTHEST_M)
            return [Guess(T_map_previous, reach_m, turn_rad, reach_m, spread_rad)]
        guesses = [ahead.guess(T_map_previous, turn_rad)]
        if turn is not None:
            guesses += [step.guess(T_map_previous, _TURN_WINDOW_RAD) for step in (turn, turn.mirrored())]
        return guesses

    def inertia_m(self, gap_s: float) -> float | None:
        """Standard deviation of the position that the last velocity leads to; None where no velocity is known."""
        return _INERTIA_M + _ACCELERATION_M_S2 * gap_s**2 if self._measured_s else None

    def measured(self, T_previous_now: Pose2, gap_s: float) -> Array:
        """The velocity ``(3,)`` of a motion that took ``gap_s``."""
        return np.asarray(T_previous_now.twist() / max(gap_s, 1e-3))

    def update(self, T_previous_now: Pose2, gap_s: float, spread_m: float) -> None:
        """Set the velocity from a measured motion with standard deviation ``spread_m``.

        The mean velocity is not updated by uncertain motions, as along a corridor, nor over long gaps.
        """
        self.twist = self.measured(T_previous_now, gap_s)
        self._measured_s = gap_s
        self._gaps_s.append(gap_s)
        if self._is_thinned():
            self._keep(T_previous_now.as_array(), spread_m)
        if gap_s < _PAUSE_S:
            share = (1.0 - np.exp(-gap_s / _MEAN_S)) / (1.0 + (spread_m / _MAX_SPREAD_M) ** 4)
            self._mean += share * (self.twist - self._mean)

    def _is_thinned(self) -> bool:
        """Whether most scans come a second or more after another; quick ones among them are steps as well."""
        return bool(self._gaps_s) and float(np.median(self._gaps_s)) > _SPARSE_S

    def _keep(self, step: Array, spread_m: float) -> None:
        """Keep a step ``(3,)`` to predict others, if its position is certain; the first need not be as certain."""
        if spread_m <= (_CERTAIN_STEP_M if len(self._steps) >= _FEWEST_STEPS else _FIRST_STEP_M):
            self._steps.append(step)

    def _window(self, gap_s: float) -> tuple[float, float]:
        """Half sizes of the search window after ``gap_s``: metres and radians."""
        reach_m = min(_SLACK_M + 0.5 * self._config.max_speed_m_s * gap_s, _MOST_REACH_M)
        return reach_m, min(_SLACK_RAD + 0.5 * self._config.max_turn_rate_rad_s * gap_s, _MOST_TURN_RAD)

    def forget(self) -> None:
        """Reset to zero velocity."""
        self.twist, self._mean = np.zeros(3), np.zeros(3)
        self._measured_s = 0.0


@dataclass(frozen=True, slots=True)
class _TypicalStep:
    """Median of the steps of one kind, standard deviations, and the largest distance of a step from the median."""

    T_previous_now: Pose2
    spread_m: float
    spread_rad: float
    farthest_m: float

    def mirrored(self) -> "_TypicalStep":
        """The same to the other side."""
        step = self.T_previous_now
        return replace(self, T_previous_now=Pose2(step.x, -step.y, -step.theta))

    def guess(self, T_map_previous: Pose2, turn_rad: float) -> Guess:
        """The pose after this step; the window covers all steps of its kind so far, and no motion."""
        step = self.T_previous_now
        reach_m = min(max(math.hypot(step.x, step.y), self.farthest_m) + _STEP_SLACK_M, _FARTHEST_M)
        return Guess(T_map_previous @ step, reach_m, turn_rad, self.spread_m, self.spread_rad, is_step=True)


def _kinds(steps: deque[Array]) -> tuple[_TypicalStep | None, _TypicalStep | None]:
    """A step ahead and a turn to the left, each None where too few of its kind are known.

    A step ahead is one about as long as the long ones: turns on the spot do not make it shorter.
    """
    newest = np.array(steps).reshape(-1, 3)  # (S, 3)
    if len(newest) < _FEWEST_STEPS:
        return None, None
    lengths_m = np.hypot(newest[:, 0], newest[:, 1])
    is_long = lengths_m >= _LEAST_M_RAD * np.abs(newest[:, 2])
    if not is_long.any():
        return None, None
    is_ahead = is_long & (lengths_m >= 0.5 * np.percentile(lengths_m[is_long], _LONG_PERCENT))
    sides = np.where(newest[:, 2] < 0.0, -1.0, 1.0)
    turns = newest * np.stack([np.ones_like(sides), sides, sides], axis=-1)
    return _typical(newest[is_ahead]), _typical(turns[~is_ahead])


def _typical(steps: Array) -> _TypicalStep | None:
    """The median of steps ``(S, 3)``, if they are enough."""
    if len(steps) < _FEWEST_STEPS:
        return None
    middle = np.median(steps, axis=0)
    off_m = np.hypot(*(steps - middle)[:, :2].T)
    length_m = math.hypot(middle[0], middle[1])
    spread_m = max(_STEP_SPREAD_M, _STEP_SPREAD_SHARE * length_m, 1.5 * float(np.median(off_m)))
    spread_rad = max(_STEP_SPREAD_RAD, 1.5 * float(np.median(np.abs(steps[:, 2] - middle[2]))))
    return _TypicalStep(Pose2.from_array(middle), spread_m, spread_rad, float(off_m.max()))


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
