"""Compares the turns that a sensor measured with those of scan matching.

The squared differences are summed for each of 61 time offsets, with exponential forgetting. The offset with the
smallest sum is that between the clocks; the bias of the rate is a linear least-squares fit at each offset. Both have a
prior around zero, so that they stay there while the wearer does not turn.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["OFFSETS_S", "Agreement", "HeadingCheck"]

Array = NDArray[np.float64]

OFFSETS_S = np.linspace(-0.3, 0.3, 61)
_FORGET = 0.998  # weight of old observations is multiplied by this at each new one
_NOISE_RAD = 0.01  # standard deviation of a turn between two scans
_OFFSET_SPREAD_S = 0.1  # of the prior
_TURN_RAD = 0.05  # smaller turns are not compared
_OFF_RAD, _OFF_SHARE = 0.06, 0.15  # turns agree within this plus this share of the turn
_GAIN = 0.2  # of the running share of contradictions
_DROP, _RESTORE = 0.5, 0.2  # shares at which a sensor is dropped and used again


class Agreement:
    """Running share of contradictions; a sensor is dropped above one half and used again below one fifth."""

    def __init__(self) -> None:
        self.holds = True
        self._contradicting = 0.0

    def add(self, is_contradiction: bool) -> None:
        """Add one comparison."""
        self._contradicting += _GAIN * (float(is_contradiction) - self._contradicting)
        self.holds = self._contradicting < (_DROP if self.holds else _RESTORE)


class HeadingCheck:
    """Time offset and rate bias of a sensor that measures headings, and whether it agrees with the scans."""

    def __init__(self, bias_spread_radps: float) -> None:
        """``bias_spread_radps`` is the standard deviation of the bias before anything was measured."""
        self.offset_s = 0.0
        """How much later the sensor's stamps are than those of the scans."""
        self.bias_radps = 0.0
        self.agreement = Agreement()
        self._gap_squares = (_NOISE_RAD / bias_spread_radps) ** 2  # the prior, as if measured over that long
        self._prior = self._gap_squares
        self._gap_differences = np.zeros(len(OFFSETS_S))
        self._squares = np.zeros(len(OFFSETS_S))

    def add(self, turned_rad: Array, measured_rad: float, gap_s: float) -> None:
        """Add a turn between two scans, ``measured_rad`` by the scans, and ``(61,)`` by the sensor at each offset."""
        differences = turned_rad - measured_rad  # bias times gap, where the offset is right
        here = float(np.interp(self.offset_s, OFFSETS_S, differences)) - self.bias_radps * gap_s
        if max(abs(measured_rad), abs(here + measured_rad)) > _TURN_RAD:
            self.agreement.add(abs(here) > _OFF_RAD + _OFF_SHARE * abs(measured_rad))
        self._gap_squares = _FORGET * (self._gap_squares - self._prior) + self._prior + gap_s**2
        self._gap_differences = _FORGET * self._gap_differences + gap_s * differences
        self._squares = _FORGET * self._squares + differences**2
        self._solve()

    def _solve(self) -> None:
        misfit = self._squares - self._gap_differences**2 / self._gap_squares
        cost = misfit / _NOISE_RAD**2 + (OFFSETS_S / _OFFSET_SPREAD_S) ** 2
        k = int(np.clip(np.argmin(cost), 1, len(cost) - 2))
        before, here, after = cost[k - 1 : k + 2]
        curvature = before - 2.0 * here + after
        shift = float(np.clip(0.5 * (before - after) / curvature, -1.0, 1.0)) if curvature > 0.0 else 0.0
        self.offset_s = float(OFFSETS_S[k] + shift * (OFFSETS_S[1] - OFFSETS_S[0]))
        biases = self._gap_differences / self._gap_squares
        self.bias_radps = float(np.interp(self.offset_s, OFFSETS_S, biases))
