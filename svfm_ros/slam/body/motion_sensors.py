"""Hints for SLAM from an IMU and from odometry, each used when present and as long as the scans agree with it.

    scan = sensors.prepare(scan)              rotation during the sweep and tilt are compensated
    update = slam.add_scan(scan, sensors)     which calls ``sensors.between`` for the motion since the last pose
    sensors.check(update)                     offset of the clocks, bias, agreement

Headings come from the IMU, else from odometry; positions from odometry.
"""

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.body.heading_check import OFFSETS_S, Agreement, HeadingCheck
from svfm_ros.slam.body.motion_track import ImuTrack, MotionTrack, OdometryTrack
from svfm_ros.slam.scan_gate import LONGEST_SWEEP_S
from svfm_ros.types import ImuReading, MotionHint, OdometryReading, Pose2, Scan, SlamUpdate

__all__ = ["MotionReport", "MotionSensors"]

Array = NDArray[np.float64]

_GYRO_BIAS_RADPS, _ODOMETRY_BIAS_RADPS = 0.035, 0.002  # standard deviations before anything was measured
_SPREAD_RAD, _SPREAD_RAD_S, _SPREAD_RAD_RAD = 0.02, 0.02, 0.05  # of a turn: constant, per second, per radian
_SPREAD_M, _SPREAD_M_M = 0.03, 0.1  # of an odometry step: constant, per metre
_OFF_M, _OFF_M_M = 0.1, 0.3  # steps agree within this plus this share of their length
_STEP_M = 0.05  # shorter steps are not compared
_MARGIN_M = 0.2  # echoes this near to floor or ceiling by tilt are left out
_LONGEST_STEP_S = 1.0  # scans farther apart are not compared
_CERTAIN = 0.6  # minimum share of inliers of a scan whose pose the sensors are compared with
_MOST_WAITING = 100
_MOST_READINGS = 20_000  # between two scans: an IMU goes on where the LiDAR is unplugged


@dataclass(frozen=True, slots=True)
class MotionReport:
    """What is known about the motion sensors."""

    imu_readings: int = 0
    odometry_readings: int = 0
    imu_used: bool = False
    odometry_used: bool = False
    offset_s: float = 0.0  # how much later the stamps of the sensor that gives the heading are
    bias_radps: float = 0.0  # of the rate of turn
    beams_left_out: int = 0  # because of tilt
    problem: str = ""  # why a sensor is not used; empty otherwise


@dataclass(frozen=True, slots=True)
class _Sweep:
    """The middle of a sweep: the heading there, by scan matching, does not depend on the turn assumed in the sweep."""

    stamp_ns: int  # of the first beam
    half_s: float  # from the first beam to the middle
    turned_rad: float | None  # rotation between them that was compensated; None: by the mean rate since the last scan
    T_map_base: Pose2 = field(default_factory=Pose2)  # at the first beam, by scan matching


@dataclass(frozen=True, slots=True)
class _Step:
    """Motion between two scans as scan matching has it."""

    before: _Sweep
    after: _Sweep

    @property
    def gap_s(self) -> float:
        return (self.after.stamp_ns - self.before.stamp_ns) / NS_PER_S

    @property
    def T_from_to(self) -> Pose2:
        return self.before.T_map_base.inverse() @ self.after.T_map_base

    @property
    def turn_rad(self) -> float:
        """From the middle of one sweep to the middle of the other."""
        return self.T_from_to.theta + (self.after.turned_rad or 0.0) - (self.before.turned_rad or 0.0)

    def with_turn(self) -> _Sweep:
        """The later sweep; where no turn was measured, the tracker undistorted it with the mean rate between both."""
        if self.after.turned_rad is not None:
            return self.after
        return replace(self.after, turned_rad=self.after.half_s * self.T_from_to.theta / self.gap_s)

    @property
    def middles_ns(self) -> tuple[float, float]:
        before, after = (s.stamp_ns + s.half_s * NS_PER_S for s in (self.before, self.after))
        return before, after


class MotionSensors:
    """Takes readings, returns measured motion between scans. ``add`` may be called from another thread."""

    def __init__(self, config: SlamConfig | None = None, T_base_sensor: Pose2 | None = None) -> None:
        """``T_base_sensor`` is the pose of the LiDAR on the base that the odometry is of."""
        self._config = config or SlamConfig()
        self._T_base_sensor = T_base_sensor or Pose2()
        self._inbox: deque[ImuReading | OdometryReading] = deque(maxlen=_MOST_READINGS)
        self._imu, self._odometry = ImuTrack(), OdometryTrack()
        self._imu_check = HeadingCheck(_GYRO_BIAS_RADPS)
        self._odometry_check = HeadingCheck(_ODOMETRY_BIAS_RADPS)
        self._positions = Agreement()
        self._R_sensor_imu = _rotation(self._config.imu_mount)
        self._sweep: _Sweep | None = None  # of the newest scan
        self._last: _Sweep | None = None  # of the newest scan, if its pose is certain
        self._waiting: deque[_Step] = deque(maxlen=_MOST_WAITING)
        self._counts = [0, 0, 0]  # readings of the IMU, of the odometry, beams left out

    def calibrated_copy(self) -> "MotionSensors":
        """A copy without readings, with time offset, bias and agreement kept: for a second pass over a recording."""
        other = MotionSensors(self._config, self._T_base_sensor)
        other._imu_check, other._odometry_check = self._imu_check, self._odometry_check
        other._positions = self._positions
        return other

    def add(self, reading: ImuReading | OdometryReading) -> None:
        """Keep a reading for the next scan; without scans, the latest ones are kept."""
        self._inbox.append(reading)

    def prepare(self, scan: Scan) -> Scan:
        """The scan with its beams levelled by the measured tilt, and with the measured turn at each beam."""
        self._take_readings()
        beams = np.arange(len(scan.ranges))
        if not abs(scan.time_increment_s) * len(beams) <= LONGEST_SWEEP_S:  # ScanGate will refuse this scan
            return scan
        stamps_ns: Array = np.asarray(scan.stamp_ns + beams * (scan.time_increment_s * NS_PER_S), dtype=np.float64)
        if len(beams) and self._config.use_imu and self._imu_check.agreement.holds and self._imu.has_gravity:
            scan = self._levelled(scan, stamps_ns)
        turned = self._turned(stamps_ns) if len(beams) and scan.time_increment_s else None
        middle = len(beams) // 2
        half_s = middle * scan.time_increment_s
        self._sweep = _Sweep(scan.stamp_ns, half_s, None if turned is None else float(turned[middle]))
        if turned is None:
            return scan
        return replace(scan, turned_rad=turned if scan.turned_rad is None else scan.turned_rad + turned)

    def between(self, from_ns: int, to_ns: int) -> MotionHint | None:
        """The measured motion of the LiDAR from one moment to a later one; None where nothing was measured."""
        gap_s = (to_ns - from_ns) / NS_PER_S
        if gap_s < 0.0:
            return None
        turned = self._turned(np.array([from_ns, to_ns], dtype=np.float64))
        step = self._odometry_step(from_ns, to_ns)
        if turned is None and step is None:
            return None
        turn_rad = float(turned[1]) if turned is not None else float("nan")
        spread_rad = _SPREAD_RAD + _SPREAD_RAD_S * gap_s + _SPREAD_RAD_RAD * abs(turn_rad)
        if step is None:
            return MotionHint(Pose2(np.nan, np.nan, turn_rad), None, spread_rad)
        spread_m = _SPREAD_M + _SPREAD_M_M * float(np.hypot(step.x, step.y))
        known_rad = None if turned is None else spread_rad
        return MotionHint(Pose2(step.x, step.y, turn_rad), spread_m, known_rad)

    def check(self, update: SlamUpdate) -> None:
        """Compare the readings with the motion since the last scan that has a pose."""
        match, last, sweep = update.match, self._last, self._sweep
        certain = match is not None and match.inlier_ratio >= _CERTAIN
        self._last = replace(sweep, T_map_base=update.T_map_base) if certain and sweep is not None else None
        if last is not None and self._last is not None:
            step = _Step(last, self._last)
            if 0.0 < step.gap_s <= _LONGEST_STEP_S and not update.loops:
                self._last = step.with_turn()
                if last.turned_rad is not None:
                    self._waiting.append(_Step(last, self._last))
        while self._waiting and self._compare(self._waiting[0]):
            self._waiting.popleft()

    def report(self) -> MotionReport:
        """What is known so far."""
        imu, odometry = self._imu_check.agreement.holds, self._odometry_check.agreement.holds and self._positions.holds
        names = [
            n for n, k, ok in zip(("IMU", "odometry"), self._counts, (imu, odometry), strict=False) if k and not ok
        ]
        problem = f"{' and '.join(names)} not used: the scans contradict" if names else ""
        chosen = self._imu_check if self._counts[0] else self._odometry_check
        use_imu, use_odometry = self._config.use_imu, self._config.use_odometry
        return MotionReport(
            imu_readings=self._counts[0],
            odometry_readings=self._counts[1],
            imu_used=use_imu and bool(self._counts[0]) and imu,
            odometry_used=use_odometry and bool(self._counts[1]) and odometry,
            offset_s=chosen.offset_s,
            bias_radps=chosen.bias_radps,
            beams_left_out=self._counts[2],
            problem=problem,
        )

    # ---- readings

    def _take_readings(self) -> None:
        while self._inbox:
            reading = self._inbox.popleft()
            if isinstance(reading, ImuReading):
                self._counts[0] += 1
                self._imu.add(reading)
            else:
                self._counts[1] += 1
                self._odometry.add(reading)

    def _turned(self, stamps_ns: Array) -> Array | None:
        """Turn ``(N,)`` from the first of some moments to each; None where no sensor measured it."""
        sources: tuple[tuple[bool, MotionTrack, HeadingCheck], ...] = (
            (self._config.use_imu, self._imu, self._imu_check),
            (self._config.use_odometry, self._odometry, self._odometry_check),
        )
        for is_wanted, track, check in sources:
            if is_wanted and check.agreement.holds:
                late_ns = stamps_ns + check.offset_s * NS_PER_S
                if track.covers(late_ns[0], late_ns[-1]):
                    headings = track.at(late_ns)[:, 0]
                    seconds = (stamps_ns - stamps_ns[0]) / NS_PER_S
                    return np.asarray(headings - headings[0] - check.bias_radps * seconds)
        return None

    def _odometry_step(self, from_ns: int, to_ns: int, *, checked: bool = True) -> Pose2 | None:
        """Motion of the LiDAR by odometry; with ``checked`` only while the scans agree with it."""
        holds = self._positions.holds and self._odometry_check.agreement.holds
        stamps = np.array([from_ns, to_ns]) + self._odometry_check.offset_s * NS_PER_S
        if not (self._config.use_odometry and (holds or not checked) and self._odometry.covers(*stamps.tolist())):
            return None
        before, after = (Pose2(float(x), float(y), float(theta)) for theta, x, y in self._odometry.at(stamps))
        return self._T_base_sensor.inverse() @ (before.inverse() @ after) @ self._T_base_sensor

    # ---- tilt

    def _levelled(self, scan: Scan, stamps_ns: Array) -> Scan:
        """Ranges along the floor; beams that ended at the floor or at the ceiling are left out."""
        late_ns = stamps_ns + self._imu_check.offset_s * NS_PER_S
        if not self._imu.covers(late_ns[0], late_ns[-1]):
            return scan
        up = self._imu.at(late_ns)[:, 1:] @ self._R_sensor_imu.T  # (N, 3), in the LiDAR's axes
        up /= np.linalg.norm(up, axis=1, keepdims=True)
        angles = scan.angles()
        c, s = np.cos(angles), np.sin(angles)
        rise = c * up[:, 0] + s * up[:, 1]  # metres of height gained per metre along the beam
        ranges = scan.ranges.astype(np.float64)
        with np.errstate(invalid="ignore"):
            height_m = self._config.sensor_height_m + rise * ranges
            inside = (height_m > _MARGIN_M) & (height_m < self._config.room_height_m - _MARGIN_M)
        is_echo = np.isfinite(ranges)
        self._counts[2] += int(np.count_nonzero(is_echo & ~inside))
        level = np.where(inside | ~is_echo, ranges * np.sqrt(1.0 - rise**2), np.nan).astype(np.float32)
        # Azimuth of each beam in the level plane, from the LiDAR's x axis projected onto it.
        azimuth = np.arctan2(s * up[:, 2], c * (1.0 - up[:, 0] ** 2) - s * up[:, 0] * up[:, 1])
        off = np.remainder(azimuth - angles + np.pi, 2.0 * np.pi) - np.pi
        return replace(scan, ranges=level, turned_rad=off)

    # ---- comparison with the scans

    def _compare(self, step: _Step) -> bool:
        """Compare the sensors with a step; false while readings for it may still come."""
        offsets_ns = OFFSETS_S * NS_PER_S
        first_ns, last_ns = step.middles_ns[0] + float(offsets_ns[0]), step.middles_ns[1] + float(offsets_ns[-1])
        tracks = [t for t in (self._imu, self._odometry) if len(t)]
        if any(not t.has_passed(last_ns) for t in tracks) and len(self._waiting) < _MOST_WAITING:
            return False
        for track, check in ((self._imu, self._imu_check), (self._odometry, self._odometry_check)):
            if track.covers(first_ns, last_ns):
                before, after = (track.at(t + offsets_ns)[:, 0] for t in step.middles_ns)
                check.add(after - before, step.turn_rad, (step.middles_ns[1] - step.middles_ns[0]) / NS_PER_S)
        by_odometry = self._odometry_step(step.before.stamp_ns, step.after.stamp_ns, checked=False)
        if by_odometry is not None:
            self._compare_positions(by_odometry, step.T_from_to)
        return True

    def _compare_positions(self, by_odometry: Pose2, by_scans: Pose2) -> None:
        length_m = float(np.hypot(by_scans.x, by_scans.y))
        if max(length_m, float(np.hypot(by_odometry.x, by_odometry.y))) > _STEP_M:
            off_m = float(np.hypot(by_odometry.x - by_scans.x, by_odometry.y - by_scans.y))
            self._positions.add(off_m > _OFF_M + _OFF_M_M * length_m)


def _rotation(roll_pitch_yaw: tuple[float, float, float]) -> Array:
    """Rotation matrix ``(3, 3)`` of roll about x, then pitch about y, then yaw about z."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(roll_pitch_yaw), np.sin(roll_pitch_yaw)
    roll = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    pitch = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    yaw = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    return np.asarray(yaw @ pitch @ roll)
