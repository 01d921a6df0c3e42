"""IMU and odometry as hints: exact signals with known bias, offset and tilt, and what SLAM makes of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, polygon, ranges_at
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.body.heading_check import OFFSETS_S, HeadingCheck
from svfm_ros.slam.body.motion_sensors import MotionSensors
from svfm_ros.slam.body.motion_track import ImuTrack, OdometryTrack
from svfm_ros.slam.offline import SlamRun, run_slam
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.types import ImuReading, OdometryReading, Scan

Array = NDArray[np.float64]
PoseAt = Callable[[Array], Array]  # seconds (N,) to poses (N, 3)

START_NS = 1_700_000_000 * NS_PER_S
G = 9.81
RATE_HZ, BEAMS = 5.5, 360


def ns(seconds: float) -> int:
    return START_NS + round(seconds * NS_PER_S)


def still_then_turns(t: Array) -> Array:
    """At (2.2, 3.1) for 2 s; then half a turn at 4 rad/s to the left, 3 s of rest, half a turn to the right, rest."""
    turn_s = np.pi / 4.0
    ramp = np.clip((t - 2.0) / turn_s, 0.0, 1.0) - np.clip((t - 6.0) / turn_s, 0.0, 1.0)
    return np.stack([np.full_like(t, 2.2), np.full_like(t, 3.1), 0.2 + np.pi * ramp], axis=-1)


def strolling(t: Array) -> Array:
    """To and fro along the hall, swinging: turns of up to 1.3 rad/s."""
    x = 2.5 + 1.2 * np.sin(0.5 * t)
    return np.stack([x, 3.1 + 0.2 * np.sin(0.8 * t), 0.8 * np.sin(1.2 * t) + 0.3 * np.sin(2.1 * t)], axis=-1)


def sweeps(pose_at: PoseAt, seconds: float, walls: Array = FLAT, rate_hz: float = RATE_HZ) -> list[Scan]:
    """Every beam from the pose at its own time, 1 cm of noise."""
    angles = np.linspace(-np.pi, np.pi, BEAMS, endpoint=False)
    beam_s, rng, scans = 1.0 / rate_hz / BEAMS, np.random.default_rng(0), []
    for begin_s in np.arange(0.0, seconds, 1.0 / rate_hz):
        ranges = ranges_at(walls, pose_at(begin_s + beam_s * np.arange(BEAMS)), angles) + rng.normal(0, 0.01, BEAMS)
        shape = (-np.pi, 2 * np.pi / BEAMS, 0.05, 20.0, 1.0 / rate_hz, beam_s)
        scans.append(Scan(ns(begin_s), ranges.astype(np.float32), *shape))
    return scans


def gyro(
    pose_at: PoseAt, seconds: float, *, bias: float = 0.0, late_s: float = 0.0, sign: float = 1.0
) -> list[ImuReading]:
    """A level IMU at 100 Hz: the mean rate over each period."""
    t = np.arange(-0.5, seconds + 0.5, 0.01)
    rate = sign * (pose_at(t + 0.005)[:, 2] - pose_at(t - 0.005)[:, 2]) / 0.01 + bias
    gravity = np.array([0.0, 0.0, G])
    return [ImuReading(ns(s + late_s), np.array([0.0, 0.0, r]), gravity) for s, r in zip(t, rate, strict=True)]


def dead_reckoning(pose_at: PoseAt, seconds: float) -> list[OdometryReading]:
    t = np.arange(-0.5, seconds + 0.5, 0.05)
    poses = pose_at(t) - pose_at(np.zeros(1))
    return [
        OdometryReading(ns(s), np.array(p), np.zeros(3), np.eye(3))
        for s, p in zip(t, _turned_back(poses, float(pose_at(np.zeros(1))[0, 2])), strict=True)
    ]


def _turned_back(poses: Array, heading: float) -> Array:
    c, s = np.cos(heading), np.sin(heading)
    return np.column_stack([poses[:, :2] @ np.array([[c, -s], [s, c]]), poses[:, 2]])


def in_order(scans: list[Scan], *readings: list[ImuReading] | list[OdometryReading]) -> Iterator[object]:
    """As they arrive: a scan after its last beam."""
    due = [(s.stamp_ns + round(s.scan_time_s * NS_PER_S), 1, s) for s in scans]
    due += [(r.stamp_ns, 0, r) for some in readings for r in some]  # type: ignore[misc]
    return (m for *_, m in sorted(due, key=lambda d: d[:2]))


def mapped(scans: list[Scan], *readings: list[ImuReading] | list[OdometryReading], **options: object) -> SlamRun:
    return run_slam(in_order(scans, *readings), replace(SlamConfig(), **options))  # type: ignore[arg-type]


def errors(run: SlamRun, pose_at: PoseAt) -> tuple[float, float]:
    truth = pose_at((run.trajectory.stamps_ns - START_NS) / NS_PER_S)
    off = absolute_error(run.trajectory.poses, truth)
    return off.rmse_m, off.rmse_deg


def longest_gap_s(run: SlamRun) -> float:
    return float(np.diff(run.live.stamps_ns).max()) / NS_PER_S


# ---- headings and tilt


@pytest.mark.parametrize("upside_down", [False, True])
def test_heading_is_the_rate_about_the_vertical_however_the_imu_is_mounted(upside_down: bool) -> None:
    """1.5 rad/s about the vertical for 2 s are 3 rad; turned upside down about x, the axis z shows the opposite."""
    flip = np.array([1.0, -1.0, -1.0]) if upside_down else np.ones(3)
    track = ImuTrack()
    for k in range(201):
        track.add(ImuReading(ns(0.01 * k), flip * [0.0, 0.0, 1.5], flip * [0.0, 0.0, G]))
    headings = track.at(np.array([ns(0.0), ns(1.0), ns(2.0)], dtype=float))[:, 0]
    assert np.diff(headings) == pytest.approx([1.5, 1.5], abs=1e-6)


def test_the_vertical_follows_gravity_and_swings_with_the_body() -> None:
    """A body that nods by 5 degrees at 1.8 Hz, the axis y to the left: up is (-sin, 0, cos) of the pitch."""
    track, t = ImuTrack(), np.arange(0.0, 16.0, 0.01)
    pitch = np.radians(5.0) * np.sin(2 * np.pi * 1.8 * t)
    rate = np.radians(5.0) * 2 * np.pi * 1.8 * np.cos(2 * np.pi * 1.8 * t)
    for s, p, r in zip(t, pitch, rate, strict=True):
        # The force of each step along x would tilt gravity alone by 11 degrees.
        step = 2.0 * np.sin(2 * np.pi * 1.8 * s)
        track.add(
            ImuReading(ns(s), np.array([0.0, r + 0.02, 0.0]), np.array([-G * np.sin(p) + step, 0, G * np.cos(p)]))
        )
    late = t > 12.0
    up = track.at(START_NS + t[late] * NS_PER_S)[:, 1:]
    assert np.degrees(np.abs(np.arcsin(-up[:, 0]) - pitch[late]).max()) < 1.5


def test_readings_with_a_gap_between_them_are_not_joined() -> None:
    track = ImuTrack()
    for s in (0.0, 0.01, 0.02, 1.0, 1.01):
        track.add(ImuReading(ns(s), np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, G])))
    assert track.covers(ns(0.0), ns(0.02))
    assert track.covers(ns(1.0), ns(1.01))
    assert not track.covers(ns(0.0), ns(1.0))
    assert not track.covers(ns(0.015), ns(1.005))
    assert not track.covers(ns(-1.0), ns(0.01))
    assert not track.covers(ns(1.0), ns(2.0))


def test_readings_that_are_no_numbers_or_out_of_order_are_ignored() -> None:
    track = ImuTrack()
    for s, rate in ((0.0, 1.0), (0.1, np.nan), (0.1, 1.0), (0.05, 50.0), (0.2, 1.0)):
        track.add(ImuReading(ns(s), np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, G])))
    assert len(track) == 3
    assert np.diff(track.at(np.array([ns(0.0), ns(0.2)], dtype=float))[:, 0]) == pytest.approx([0.2])


def test_odometry_turns_on_past_half_a_turn_and_is_cut_where_it_was_reset() -> None:
    track = OdometryTrack()
    for s, theta, x in ((0.0, 3.1, 0.0), (0.1, -3.1, 0.1), (0.2, -3.0, 0.2), (0.3, 0.0, 90.0)):
        track.add(OdometryReading(ns(s), np.array([x, 0.0, theta]), np.zeros(3), np.eye(3)))
    headings = track.at(np.array([ns(0.0), ns(0.1)], dtype=float))[:, 0]
    assert headings[1] - headings[0] == pytest.approx(2 * np.pi - 6.2)
    assert track.covers(ns(0.0), ns(0.2))
    assert not track.covers(ns(0.1), ns(0.3))


# ---- offset, bias, agreement


def compare(check: HeadingCheck, heading: Callable[[Array], Array], late_s: float, bias: float, seconds: float) -> None:
    """Exact turns by scans, every 0.1 s, and by a gyroscope whose stamps are late and whose rate is biased."""
    for t in np.arange(0.0, seconds, 0.1):
        pair = np.array([t, t + 0.1])
        shown = [heading(s + OFFSETS_S - late_s) + bias * (s + OFFSETS_S) for s in pair]
        measured = np.diff(heading(pair))[0]
        check.add(shown[1] - shown[0], float(measured), 0.1)


@pytest.mark.parametrize(("late_s", "bias"), [(0.0, 0.0), (0.073, 0.03), (-0.12, -0.05)])
def test_offset_and_bias_are_found_exactly(late_s: float, bias: float) -> None:
    check = HeadingCheck(0.035)
    compare(check, lambda t: 0.8 * np.sin(1.2 * t) + 0.3 * np.sin(2.1 * t), late_s, bias, 30.0)
    assert check.offset_s == pytest.approx(late_s, abs=0.002)
    assert check.bias_radps == pytest.approx(bias, abs=0.002)
    assert check.agreement.holds


def test_without_turns_the_offset_stays_zero_and_the_bias_is_found() -> None:
    check = HeadingCheck(0.035)
    compare(check, np.zeros_like, 0.1, 0.02, 30.0)
    assert check.offset_s == pytest.approx(0.0, abs=1e-6)
    assert check.bias_radps == pytest.approx(0.02, abs=0.002)


def test_a_sensor_that_turns_the_other_way_is_dropped_and_used_again_when_it_agrees() -> None:
    check = HeadingCheck(0.035)
    turns = np.where(np.arange(40) % 2, 0.2, -0.2)
    for turn in turns[:5]:
        check.add(np.full(len(OFFSETS_S), -turn), float(turn), 0.2)
    assert not check.agreement.holds
    for turn in turns:
        check.add(np.full(len(OFFSETS_S), turn), float(turn), 0.2)
    assert check.agreement.holds


# ---- prepared scans


def test_turns_during_a_sweep_are_taken_out_by_the_gyroscope() -> None:
    """4 rad/s: without it, echoes of a square room are up to 0.7 rad off; with it, all lie on the walls."""
    room = polygon((-3, -2), (3, -2), (3, 2), (-3, 2))

    def turning(t: Array) -> Array:
        return np.stack([np.full_like(t, 0.4), np.full_like(t, -0.3), 4.0 * t], axis=-1)

    scan = replace(sweeps(turning, 0.1, room)[0])
    sensors = MotionSensors()
    for reading in gyro(turning, 1.0):
        sensors.add(reading)
    off_m = []
    for seen in (scan, sensors.prepare(scan)):
        angles = seen.angles()
        x, y = 0.4 + seen.ranges * np.cos(angles), -0.3 + seen.ranges * np.sin(angles)
        off_m.append(np.minimum(np.abs(np.abs(x) - 3), np.abs(np.abs(y) - 2)))
    assert np.quantile(off_m[0], 0.9) > 0.3
    assert off_m[1].max() < 0.05


def test_a_tilted_scan_is_levelled_and_beams_that_end_at_the_floor_are_left_out() -> None:
    """Nose down by 10 degrees, 1.2 m up in a room of 20 by 4 m: ahead, the floor comes first, at 1.2 / sin(10)."""
    pitch = np.radians(10.0)
    angles = np.linspace(-np.pi, np.pi, 360, endpoint=False)
    ahead, left, up = np.cos(pitch) * np.cos(angles), np.sin(angles), -np.sin(pitch) * np.cos(angles)
    level = np.hypot(ahead, left)
    room = polygon((-10, -2), (10, -2), (10, 2), (-10, 2))
    to_wall = ranges_at(room, np.zeros((360, 3)), np.arctan2(left, ahead)) / level
    with np.errstate(divide="ignore"):
        to_floor, to_ceiling = np.where(up < 0, -1.2 / up, np.inf), np.where(up > 0, 1.2 / up, np.inf)
    ranges = np.minimum(np.minimum(to_wall, to_floor), to_ceiling)
    scan = Scan(ns(0.5), ranges.astype(np.float32), -np.pi, 2 * np.pi / 360, 0.05, 20.0, 0.1, 0.0)
    sensors = MotionSensors()
    for k in range(200):
        force = G * np.array([-np.sin(pitch), 0.0, np.cos(pitch)])
        sensors.add(ImuReading(ns(0.01 * k - 1.0), np.zeros(3), force))
    levelled = sensors.prepare(scan)
    is_wall = to_wall <= np.minimum(to_floor, to_ceiling)
    kept = np.isfinite(levelled.ranges)
    assert not kept[~is_wall].any()
    assert kept[is_wall].mean() > 0.9  # those near the floor go as well
    x, y = (
        levelled.ranges[kept] * np.cos(levelled.angles()[kept]),
        levelled.ranges[kept] * np.sin(levelled.angles()[kept]),
    )
    assert np.minimum(np.abs(np.abs(x) - 10), np.abs(np.abs(y) - 2)).max() < 1e-3
    assert sensors.report().beams_left_out == np.count_nonzero(~kept)


def test_an_imu_without_gravity_levels_nothing() -> None:
    scan = Scan(ns(0.5), np.full(360, 2.0, dtype=np.float32), -np.pi, 2 * np.pi / 360, 0.05, 20.0)
    sensors = MotionSensors()
    for k in range(200):
        sensors.add(ImuReading(ns(0.01 * k), np.zeros(3), np.zeros(3)))
    assert sensors.prepare(scan).ranges == pytest.approx(scan.ranges)


# ---- SLAM


def test_a_turn_at_4_radps_is_tracked_with_an_imu() -> None:
    scans = sweeps(still_then_turns, 9.0)
    run = mapped(scans, gyro(still_then_turns, 9.0, bias=0.02))
    assert len(run.trajectory) == len(scans)
    metres, degrees = errors(run, still_then_turns)
    assert metres < 0.02
    assert degrees < 0.5
    assert run.sensors.report().imu_used


def test_a_turn_at_4_radps_without_an_imu_is_lost_for_2_s_at_most() -> None:
    """The turn begins and ends within a sweep, which no single rate undistorts; at rest, the heading is right again."""
    run = mapped(sweeps(still_then_turns, 9.0))
    assert longest_gap_s(run) <= 2.0
    assert run.counters["pieces_left_out"] == 0
    assert errors(run, still_then_turns)[0] < 0.05
    assert run.trajectory.stamps_ns[-1] == ns(49 / RATE_HZ)
    headings, seconds = run.trajectory.poses[:, 2], (run.trajectory.stamps_ns - START_NS) / NS_PER_S
    turned = np.degrees(np.abs(np.remainder(headings - headings[0] + np.pi, 2 * np.pi) - np.pi))
    assert turned[(seconds > 3.2) & (seconds < 5.8)] == pytest.approx(180.0, abs=2.0)
    assert turned[seconds > 7.2] == pytest.approx(0.0, abs=2.0)


def test_offset_and_bias_are_found_from_scans_and_a_late_gyroscope() -> None:
    run = mapped(sweeps(strolling, 25.0), gyro(strolling, 25.0, bias=-0.03, late_s=0.06))
    report = run.sensors.report()
    assert report.offset_s == pytest.approx(0.06, abs=0.006)
    assert report.bias_radps == pytest.approx(-0.03, abs=0.004)
    assert errors(run, strolling)[0] < 0.02


def test_a_gyroscope_that_contradicts_the_scans_is_dropped_and_does_no_harm() -> None:
    """An IMU whose axis z has the wrong sign, level as the other: gravity does not give it away."""
    scans = sweeps(strolling, 25.0)
    run = mapped(scans, gyro(strolling, 25.0, sign=-1.0))
    report = run.sensors.report()
    assert not report.imu_used
    assert report.problem == "IMU not used: the scans contradict"
    assert len(run.trajectory) == len(scans)
    assert errors(run, strolling)[0] < 0.03


def test_odometry_helps_in_turns_and_is_dropped_when_its_wheels_spin() -> None:
    scans = sweeps(still_then_turns, 9.0)
    run = mapped(scans, dead_reckoning(still_then_turns, 9.0))
    assert len(run.trajectory) == len(scans)
    assert run.sensors.report().odometry_used
    spinning = [
        replace(r, T_odom_base=r.T_odom_base + np.array([2.0 * (r.stamp_ns - START_NS) / NS_PER_S, 0.0, 0.0]))
        for r in dead_reckoning(strolling, 15.0)
    ]
    run = mapped(sweeps(strolling, 15.0), spinning)
    assert not run.sensors.report().odometry_used
    assert run.sensors.report().problem == "odometry not used: the scans contradict"
    assert errors(run, strolling)[0] < 0.03


def test_readings_without_scans_do_not_fill_the_memory() -> None:
    sensors = MotionSensors()
    for i in range(25_000):
        sensors.add(ImuReading(START_NS + i * 10**6, np.zeros(3), np.array([0.0, 0.0, G])))
    assert len(sensors._inbox) == 20_000
    assert sensors._inbox[-1].stamp_ns == START_NS + 24_999 * 10**6


def test_hints_can_be_switched_off() -> None:
    scans, readings = sweeps(strolling, 5.0), gyro(strolling, 5.0)
    without, off = mapped(scans), mapped(scans, readings, use_imu=False)
    np.testing.assert_array_equal(off.trajectory.poses, without.trajectory.poses)
    assert not off.sensors.report().imu_used


def test_the_map_is_drawn_from_scans_without_turns() -> None:
    scans, readings = sweeps(still_then_turns, 5.0), gyro(still_then_turns, 5.0)
    run = mapped(scans, readings)
    used = list(run.scans_used(in_order(scans, readings)))  # type: ignore[arg-type]
    assert [s.stamp_ns for s in used] == [s.stamp_ns for s in scans]
    assert max(float(np.abs(s.turned_rad).max()) for s in used if s.turned_rad is not None) == pytest.approx(
        4.0 * (BEAMS - 1) / BEAMS / RATE_HZ, rel=0.02
    )
