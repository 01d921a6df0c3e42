"""The IMU and odometry hold to physics, and err by as much as they say."""

from dataclasses import replace

import numpy as np
import pytest
from rooms import straight_walk

from svfm_ros import geometry
from svfm_ros.config.sim_config import ImuSimConfig, LidarConfig, OdometrySimConfig
from svfm_ros.sim.house import House
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.sensors.inertial import GRAVITY_MPS2, imu_readings, odometry_readings, true_imu
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.sim.wearer_motion import BodySway, Motion, motion_of
from svfm_ros.types import ImuReading

EXACT = ImuSimConfig(
    gyro_noise_dps_rthz=0.0,
    gyro_bias_dps=0.0,
    gyro_walk_dps_rts=0.0,
    accel_noise_ug_rthz=0.0,
    accel_bias_mg=0.0,
    scale_error=0.0,
)
EXACT_ODOMETRY = OdometrySimConfig(length_error=0.0, turn_error=0.0, noise_m_rtm=0.0, turn_noise_deg_rtm=0.0)
LEVEL = LidarConfig(sway=False)


@pytest.fixture(scope="module")
def tour(home: House, home_ways: RouteBook) -> Motion:
    walks = simulate_protocol(home, seed=4, repeats=1, book=home_ways, and_back=True)
    return motion_of([w.walk for w in walks], 2.0, 2.0, 0)


def standing(seconds: float, theta: float = 0.4) -> Motion:
    return Motion(10**18, np.array([0.0, seconds]), np.array([[1.0, 2.0, theta]] * 2), np.zeros(2))


def readings(motion: Motion, config: ImuSimConfig, lidar: LidarConfig = LEVEL, seed: int = 1) -> list[ImuReading]:
    return list(imu_readings(motion, BodySway(motion, lidar, 1.8, seed), config, seed))


def test_the_integral_of_the_gyro_is_the_change_of_heading(tour: Motion) -> None:
    rates = np.array([r.gyro_radps for r in readings(tour, EXACT)])
    heading = np.concatenate([[0.0], np.cumsum(rates[:, 2])]) * 0.01
    at = np.arange(len(heading)) * 0.01 - 0.005
    truth = np.interp(at, tour.seconds, tour.poses[:, 2]) - tour.poses[0, 2]
    assert np.abs(heading - truth).max() < 0.03  # rounding to 16 bit adds up over a minute
    assert np.ptp(truth) > 3.0
    assert np.abs(rates[:, :2]).max() < 1e-3  # level: no turns about other axes


def test_with_noise_it_is_so_within_the_bias(tour: Motion) -> None:
    config = ImuSimConfig()
    for seed in range(4):
        rates = np.array([r.gyro_radps[2] for r in readings(tour, config, seed=seed)])
        error = rates.sum() * 0.01 - (tour.poses[-1, 2] - tour.poses[0, 2])
        assert abs(error) < np.radians(4.0 * config.gyro_bias_dps) * tour.duration_s + 4 * 0.01 * np.pi


def test_swaying_rates_integrate_to_the_same_rotation(tour: Motion) -> None:
    """Rotations multiplied up from the rates of a swaying body end where the body's attitude says."""
    sway = BodySway(tour, LidarConfig(), 1.8, 1)
    period_s = 0.0025
    t = 0.5 * period_s + period_s * np.arange(round(20.0 / period_s))
    gyro, _ = true_imu(tour, sway, t, period_s)
    rotation = attitude(tour, sway, 0.0)
    for rate in gyro:
        rotation = rotation @ rotation_of(rate * period_s)
    assert rotation == pytest.approx(attitude(tour, sway, 20.0), abs=2e-3)


def attitude(motion: Motion, sway: BodySway, t: float) -> np.ndarray:
    at = sway.at(np.array([t]))
    yaw = float(np.interp(t, motion.seconds, motion.poses[:, 2]))
    z, y, x = [0, 0, yaw], [0, float(at.pitch_rad[0]), 0], [float(at.roll_rad[0]), 0, 0]
    return np.asarray(rotation_of(np.array(z)) @ rotation_of(np.array(y)) @ rotation_of(np.array(x)))


def rotation_of(vector: np.ndarray) -> np.ndarray:
    """Rodrigues' formula."""
    angle = float(np.linalg.norm(vector))
    x, y, z = vector / max(angle, 1e-12)
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k)


def test_at_rest_it_feels_gravity_upwards() -> None:
    level = np.array([r.accel_mps2 for r in readings(standing(5.0), EXACT)])
    assert level == pytest.approx(np.tile([0.0, 0.0, GRAVITY_MPS2], (len(level), 1)), abs=2e-3)
    leaning = replace(LidarConfig(), lean_deg=8.0)
    force = np.array([r.accel_mps2 for r in readings(standing(20.0), EXACT, leaning)])
    assert np.linalg.norm(force, axis=1) == pytest.approx(GRAVITY_MPS2, abs=0.01)
    assert np.abs(force[:, :2]).max() > 0.3


def test_tilt_follows_from_gravity() -> None:
    motion = standing(20.0)
    sway = BodySway(motion, replace(LidarConfig(), lean_deg=5.0), 1.8, 1)
    t = np.arange(2000) * 0.01
    _, force = true_imu(motion, sway, t, 0.01)
    at = sway.at(t)
    assert np.arctan2(force[:, 1], force[:, 2]) == pytest.approx(at.roll_rad, abs=1e-6)
    assert np.arctan2(-force[:, 0], np.hypot(force[:, 1], force[:, 2])) == pytest.approx(at.pitch_rad, abs=1e-6)


def test_setting_off_is_felt_ahead() -> None:
    """From rest to 1 m/s within one second: 1 m/s^2 ahead, whatever the heading."""
    t = np.linspace(0.0, 3.0, 301)
    s = np.where(t < 1.0, 0.0, np.where(t < 2.0, 0.5 * (t - 1.0) ** 2, t - 1.5))
    poses = np.column_stack([s * np.cos(2.0), s * np.sin(2.0), np.full(len(t), 2.0)])
    motion = Motion(10**18, t, poses, np.zeros(len(t)))
    force = np.array([r.accel_mps2 for r in readings(motion, EXACT)])
    assert force[130:170, 0] == pytest.approx(1.0, abs=0.02)
    assert np.abs(force[130:170, 1]).max() < 0.02
    assert np.abs(force[30:70, 0]).max() < 0.02


def test_noise_and_bias_are_those_of_the_data_sheet() -> None:
    config = ImuSimConfig(gyro_walk_dps_rts=0.0)
    runs = [np.array([r.gyro_radps for r in readings(standing(20.0), config, seed=s)]) for s in range(30)]
    bias = np.degrees([r.mean(axis=0) for r in runs])
    assert bias.std() == pytest.approx(config.gyro_bias_dps, rel=0.25)
    noise = np.degrees([(r - r.mean(axis=0)).std() for r in runs])
    assert np.mean(noise) == pytest.approx(0.005 * np.sqrt(50.0), rel=0.05)
    force = np.array([r.accel_mps2 for r in readings(standing(20.0), config)])
    assert force.std(axis=0) == pytest.approx(400e-6 * GRAVITY_MPS2 * np.sqrt(50.0), rel=0.1)
    biased = replace(EXACT, accel_bias_mg=20.0)
    still = [np.mean([r.accel_mps2 for r in readings(standing(1.0), biased, seed=s)], axis=0) for s in range(60)]
    assert np.std(still, axis=0) == pytest.approx(20e-3 * GRAVITY_MPS2, rel=0.3)


def test_stamps_are_even_and_late_by_the_offset() -> None:
    stamps = np.array([r.stamp_ns for r in readings(standing(65.0), replace(EXACT, time_offset_s=0.03))])
    assert stamps[0] == 10**18 + 30_000_000
    assert set(np.diff(stamps).tolist()) == {10_000_000}
    assert len(stamps) == 6501  # across the border of two chunks


def test_exact_odometry_is_the_motion(tour: Motion) -> None:
    found = list(odometry_readings(tour, EXACT_ODOMETRY, 0))
    t = np.array([(r.stamp_ns - tour.start_ns) * 1e-9 for r in found])
    truth = geometry.relative(tour.poses_at(np.zeros(1)), tour.poses_at(t))
    assert np.array([r.T_odom_base for r in found]) == pytest.approx(truth, abs=1e-6)
    walk = straight_walk(np.array([0.0, 0.0]), np.array([3.0, 4.0]), 5.0)
    steady = list(odometry_readings(motion_of([walk], 0.0, 0.0, 0), EXACT_ODOMETRY, 0))
    assert steady[50].twist == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)


def test_odometry_drifts_as_it_says(tour: Motion) -> None:
    """Over many seeds, final errors are about as large as the covariance that comes with them."""
    ends = [list(odometry_readings(tour, OdometrySimConfig(), s))[-1] for s in range(40)]
    truth = geometry.relative(tour.poses_at(np.zeros(1)), tour.poses_at(np.array([tour.duration_s])))[0]
    error = np.array([geometry.wrap_angle(e.T_odom_base[2] - truth[2]) for e in ends])
    assert 0.3 < error.std() / np.sqrt(ends[0].covariance[2, 2]) < 3.0
    away = np.array([np.hypot(*(e.T_odom_base - truth)[:2]) for e in ends])
    assert 0.02 < np.median(away) < 5.0
