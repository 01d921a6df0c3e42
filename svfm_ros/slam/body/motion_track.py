"""Headings, tilts and positions over time, from the readings of an IMU or of odometry.

The heading of an IMU is its angular rate about the vertical, integrated; the vertical is the direction of gravity, kept
by the gyroscope while the wearer accelerates (Mahony et al., 2008). So the heading does not depend on how the IMU is
mounted.
"""

import math

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.types import ImuReading, OdometryReading

__all__ = ["ImuTrack", "MotionTrack", "OdometryTrack"]

Array = NDArray[np.float64]

_ROWS = 4096  # of the buffer; when it is full, the newer half is kept: 20 s at 100 Hz
_LONGEST_GAP_S = 0.3  # readings farther apart are not joined
_AHEAD_S = 0.12  # the newest motion is extrapolated this far
_BACK_S = 1.0  # stamps that go back farther begin a new track; others are ignored
_UP_GAIN, _UP_BIAS_GAIN = 0.6, 0.12  # proportional (1/s) and integral (1/s²) gain of the correction by gravity
_NORM_S, _NORM_SHARE = (
    5.0,
    0.3,
)  # time constant of the mean force; a force that differs by this share is not gravity alone
_GRAVITIES = ((7.8, 11.8), (0.8, 1.2))  # usual size of gravity in m/s², or in g as some drivers have it
_LIKELY_RADPS, _LIKELY_MPS = 15.0, 5.0  # a faster step means that the odometry was reset
_SLACK_S = 0.2  # added to the duration of a step when its speed is checked


class MotionTrack:
    """Rows over time, linear between readings. A row holds what is measured; column 0 is the heading in radians."""

    def __init__(self, columns: int) -> None:
        self._stamps_s = np.empty(_ROWS)
        self._rows = np.empty((_ROWS, columns))
        self._pieces = np.zeros(_ROWS, dtype=np.int64)  # a gap begins a new piece
        self._count = 0
        self._zero_ns = 0

    def __len__(self) -> int:
        return self._count

    def covers(self, from_ns: float, to_ns: float) -> bool:
        """Whether the motion from one moment to the other was measured without a gap."""
        if self._count < 2:
            return False
        first, last = self._stamps_s[0], self._stamps_s[self._count - 1]
        begin, end = self._seconds(np.array([min(from_ns, to_ns), max(from_ns, to_ns)]))
        if not (first <= begin and end <= last + _AHEAD_S):
            return False
        a, b = self._before(np.array([begin, end]))
        b = b if end <= self._stamps_s[b] or end > last else b + 1
        return bool(self._pieces[a] == self._pieces[b])

    def has_passed(self, stamp_ns: float) -> bool:
        """Whether there are readings later than that moment."""
        return bool(self._count) and (stamp_ns - self._zero_ns) / NS_PER_S <= float(self._stamps_s[self._count - 1])

    def at(self, stamps_ns: Array) -> Array:
        """Rows ``(N, C)`` at moments ``(N,)`` that the track covers."""
        t = self._seconds(stamps_ns)
        a = np.minimum(self._before(t), self._count - 2)
        span = np.maximum(self._stamps_s[a + 1] - self._stamps_s[a], 1e-9)
        share = ((t - self._stamps_s[a]) / span)[:, None]
        return np.asarray(self._rows[a] + share * (self._rows[a + 1] - self._rows[a]))

    def _append(self, stamp_ns: int, row: Array, joined: bool) -> None:
        if self._count == len(self._stamps_s):
            half = self._count // 2
            for kept in (self._stamps_s, self._rows, self._pieces):
                kept[:half] = kept[self._count - half :]
            self._count = half
        if not self._count:
            self._zero_ns = stamp_ns
        k, self._count = self._count, self._count + 1
        self._stamps_s[k], self._rows[k] = (stamp_ns - self._zero_ns) / NS_PER_S, row
        self._pieces[k] = self._pieces[k - 1] + (0 if joined else 1) if k else 0

    def _last_gap_s(self, stamp_ns: int) -> float:
        """Seconds since the newest reading; a stamp that goes far back empties the track. NaN for the first one."""
        if self._count:
            gap_s = (stamp_ns - self._zero_ns) / NS_PER_S - float(self._stamps_s[self._count - 1])
            if gap_s > -_BACK_S:
                return gap_s
            self._count = 0
        return math.nan

    def _seconds(self, stamps_ns: Array) -> Array:
        return np.asarray((np.asarray(stamps_ns, dtype=np.float64) - self._zero_ns) / NS_PER_S)

    def _before(self, seconds: Array) -> NDArray[np.int64]:
        found = np.searchsorted(self._stamps_s[: self._count], seconds, side="right") - 1
        return np.clip(found, 0, self._count - 1)


class ImuTrack(MotionTrack):
    """Heading about the vertical, and the direction up in the axes of the IMU: columns heading, x, y, z."""

    def __init__(self) -> None:
        super().__init__(4)
        self._up = (0.0, 0.0, 1.0)
        self._bias = (0.0, 0.0, 0.0)
        self._gyro = (0.0, 0.0, 0.0)
        self._rate, self._heading, self._norm = 0.0, 0.0, 0.0

    @property
    def has_gravity(self) -> bool:
        """Whether the accelerometer measures gravity, so that the tilt is known."""
        return any(low <= self._norm <= high for low, high in _GRAVITIES)

    def add(self, reading: ImuReading) -> None:
        """Integrate one reading; those that are not finite or older than the last are ignored."""
        gx, gy, gz = (float(v) for v in reading.gyro_radps)
        force = tuple(float(v) for v in reading.accel_mps2)
        gap_s = self._last_gap_s(reading.stamp_ns)
        if not math.isfinite(gx + gy + gz + sum(force)) or gap_s <= 0.0:
            return
        if math.isnan(gap_s):
            self._begin(force)
        joined = gap_s <= _LONGEST_GAP_S
        self._turn_up((gx, gy, gz), force, gap_s if joined else 0.0)
        rate = gx * self._up[0] + gy * self._up[1] + gz * self._up[2]
        if joined:
            self._heading += 0.5 * (rate + self._rate) * gap_s
        self._rate = rate
        self._append(reading.stamp_ns, np.array([self._heading, *self._up]), joined)

    def _begin(self, force: tuple[float, ...]) -> None:
        self._norm = math.sqrt(sum(f * f for f in force))
        self._up = (force[0] / self._norm, force[1] / self._norm, force[2] / self._norm) if self._norm else (0, 0, 1.0)
        self._bias = (0.0, 0.0, 0.0)

    def _turn_up(self, gyro: tuple[float, float, float], force: tuple[float, ...], gap_s: float) -> None:
        """Rotate the vertical by the measured angular rate, then correct it towards the measured gravity."""
        norm = math.sqrt(sum(f * f for f in force))
        self._norm += min(gap_s / _NORM_S, 1.0) * (norm - self._norm)
        mean = tuple(0.5 * (a + b) for a, b in zip(gyro, self._gyro, strict=True))
        self._gyro = gyro
        (ux, uy, uz), error = self._up, (0.0, 0.0, 0.0)
        if self.has_gravity and abs(norm - self._norm) < _NORM_SHARE * self._norm:
            ax, ay, az = (f / norm for f in force)
            error = (ay * uz - az * uy, az * ux - ax * uz, ax * uy - ay * ux)
        self._bias = tuple(b - _UP_BIAS_GAIN * e * gap_s for b, e in zip(self._bias, error, strict=True))  # type: ignore[assignment]
        wx, wy, wz = (w - b + _UP_GAIN * e for w, b, e in zip(mean, self._bias, error, strict=True))
        ux, uy, uz = (
            ux + (uy * wz - uz * wy) * gap_s,
            uy + (uz * wx - ux * wz) * gap_s,
            uz + (ux * wy - uy * wx) * gap_s,
        )
        length = math.sqrt(ux * ux + uy * uy + uz * uz)
        self._up = (ux / length, uy / length, uz / length)


class OdometryTrack(MotionTrack):
    """Poses of dead reckoning: columns heading (unwrapped), x, y."""

    def __init__(self) -> None:
        super().__init__(3)

    def add(self, reading: OdometryReading) -> None:
        """Append one reading; where the odometry was reset, the poses before and after are not joined."""
        x, y, theta = (float(v) for v in reading.T_odom_base)
        gap_s = self._last_gap_s(reading.stamp_ns)
        if not math.isfinite(x + y + theta) or gap_s <= 0.0:
            return
        joined = False
        if not math.isnan(gap_s):
            before = self._rows[self._count - 1]
            turn = math.remainder(theta - float(before[0]), 2.0 * math.pi)
            theta = float(before[0]) + turn
            reach_s = gap_s + _SLACK_S
            near = math.hypot(x - before[1], y - before[2]) < _LIKELY_MPS * reach_s
            joined = near and abs(turn) < _LIKELY_RADPS * reach_s and gap_s <= 4.0 * _LONGEST_GAP_S
        self._append(reading.stamp_ns, np.array([theta, x, y]), joined)
