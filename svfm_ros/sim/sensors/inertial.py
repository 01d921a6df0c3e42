"""IMU and odometry of the wearer, with the errors of low-cost parts.

The IMU sits in the housing of the LiDAR and has its axes: x ahead, y to the left, z up. It measures angular rate and
specific force (at rest: gravity, upwards) of the same swaying body that carries the LiDAR. Errors are those of the
MPU-6050 class: white noise by its density, a constant bias, a bias that walks, a scale error, steps of 16 bit.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import ImuSimConfig, OdometrySimConfig
from svfm_ros.sim.wearer_motion import BodySway, Motion
from svfm_ros.types import ImuReading, OdometryReading

__all__ = ["GRAVITY_MPS2", "imu_readings", "odometry_readings", "true_imu"]

Array = NDArray[np.float64]

GRAVITY_MPS2 = 9.80665

_CHUNK_S = 60.0
_SMOOTHING_S = 0.05  # knots of a motion are joined by straight lines; a body does not jerk at them
_PADDING_S = 0.5
_FULL_SCALE_RADPS = np.radians(500.0)
_FULL_SCALE_MPS2 = 4.0 * GRAVITY_MPS2
_STEPS = 32768.0


def true_imu(motion: Motion, sway: BodySway, t: Array, period_s: float) -> tuple[Array, Array]:
    """Angular rate and specific force ``(N, 3)`` each, in the body's axes, at times ``(N,)`` at even steps.

    Rates are averages over one period, so their sum times the period is the change of the angles.
    """
    fine = np.concatenate([t - 0.5 * period_s, [t[-1] + 0.5 * period_s]])
    yaw = np.interp(fine, motion.seconds, motion.poses[:, 2])
    at_edges, at = sway.at(fine), sway.at(t)
    d_yaw, d_pitch, d_roll = (np.diff(a) / period_s for a in (yaw, at_edges.pitch_rad, at_edges.roll_rad))
    sp, cp, sr, cr = np.sin(at.pitch_rad), np.cos(at.pitch_rad), np.sin(at.roll_rad), np.cos(at.roll_rad)
    gyro = np.stack([d_roll - d_yaw * sp, d_pitch * cr + d_yaw * sr * cp, d_yaw * cr * cp - d_pitch * sr], axis=1)
    a = _acceleration(motion, sway, t, period_s)  # (N, 3), in the frame map
    heading = np.interp(t, motion.seconds, motion.poses[:, 2])
    ahead = np.cos(heading) * a[:, 0] + np.sin(heading) * a[:, 1]
    left = np.cos(heading) * a[:, 1] - np.sin(heading) * a[:, 0]
    up = a[:, 2] + GRAVITY_MPS2
    # Back through the pitch about y, then through the roll about x.
    x, z = cp * ahead - sp * up, sp * ahead + cp * up
    return gyro, np.stack([x, cr * left + sr * z, cr * z - sr * left], axis=1)


def _acceleration(motion: Motion, sway: BodySway, t: Array, period_s: float) -> Array:
    """Second derivative of the position ``(N, 3)``, smoothed."""
    pad = int(np.ceil(_PADDING_S / period_s))
    long = np.concatenate([t[0] - period_s * np.arange(pad, 0, -1), t, t[-1] + period_s * np.arange(1, pad + 1)])
    position = np.stack([np.interp(long, motion.seconds, motion.poses[:, i]) for i in (0, 1)], axis=1)
    height = sway.at(np.clip(long, 0.0, motion.duration_s)).height_m
    smooth = gaussian_filter1d(np.column_stack([position, height]), _SMOOTHING_S / period_s, axis=0, mode="nearest")
    second = np.gradient(np.gradient(smooth, period_s, axis=0), period_s, axis=0)
    return np.asarray(second[pad:-pad])


def imu_readings(motion: Motion, sway: BodySway, config: ImuSimConfig, seed: int) -> Iterator[ImuReading]:
    """All readings of a recording in order of time; the same seed gives the same readings."""
    rng = np.random.default_rng([seed, 51])
    period_ns = round(NS_PER_S / config.rate_hz)
    period_s = period_ns / NS_PER_S
    gyro_bias = np.radians(config.gyro_bias_dps) * rng.standard_normal(3)
    accel_bias = config.accel_bias_mg * 1e-3 * GRAVITY_MPS2 * rng.standard_normal(3)
    scale = 1.0 + config.scale_error * rng.standard_normal(6)
    gyro_sigma = np.radians(config.gyro_noise_dps_rthz) * np.sqrt(0.5 * config.rate_hz)
    accel_sigma = config.accel_noise_ug_rthz * 1e-6 * GRAVITY_MPS2 * np.sqrt(0.5 * config.rate_hz)
    walk_sigma = np.radians(config.gyro_walk_dps_rts) * np.sqrt(period_s)
    late_ns = round(config.time_offset_s * NS_PER_S)
    total = int(motion.duration_s / period_s) + 1
    chunk = max(2, round(_CHUNK_S * config.rate_hz))
    for first in range(0, total, chunk):
        k = np.arange(first, min(first + chunk, total))
        gyro, accel = true_imu(motion, sway, np.asarray(k * period_s), period_s)
        walk = gyro_bias + np.cumsum(walk_sigma * rng.standard_normal(gyro.shape), axis=0)
        gyro = gyro * scale[:3] + walk + gyro_sigma * rng.standard_normal(gyro.shape)
        accel = accel * scale[3:] + accel_bias + accel_sigma * rng.standard_normal(accel.shape)
        gyro_bias = walk[-1]
        gyro, accel = _digits(gyro, _FULL_SCALE_RADPS), _digits(accel, _FULL_SCALE_MPS2)
        for i, number in enumerate(k.tolist()):
            yield ImuReading(motion.start_ns + number * period_ns + late_ns, gyro[i], accel[i])


def _digits(values: Array, full_scale: float) -> Array:
    """Cut off at full scale and rounded to steps of 16 bit."""
    step = full_scale / _STEPS
    return np.asarray(np.rint(np.clip(values, -full_scale, full_scale - step) / step) * step)


def odometry_readings(motion: Motion, config: OdometrySimConfig, seed: int) -> Iterator[OdometryReading]:
    """Dead reckoning from the start of a recording, in a frame that begins at the first pose."""
    rng = np.random.default_rng([seed, 52])
    period_ns = round(NS_PER_S / config.rate_hz)
    t: Array = np.asarray(np.arange(int(motion.duration_s * NS_PER_S / period_ns) + 1) * (period_ns / NS_PER_S))
    steps = geometry.relative(motion.poses_at(t[:-1]), motion.poses_at(t[1:]))  # (T-1, 3), in the axes of the wearer
    distance, turn = np.hypot(*steps[:, :2].T), np.abs(steps[:, 2])
    steps[:, :2] *= 1.0 + config.length_error * rng.standard_normal()
    steps[:, 2] *= 1.0 + config.turn_error * rng.standard_normal()
    along_sigma = config.noise_m_rtm * np.sqrt(distance)
    turn_sigma = np.radians(config.turn_noise_deg_rtm) * np.sqrt(distance + turn)
    steps += np.column_stack([along_sigma, along_sigma, turn_sigma]) * rng.standard_normal(steps.shape)
    travelled, turned = np.cumsum(distance), np.cumsum(turn)
    heading = np.cumsum(steps[:, 2])
    pose = np.zeros(3)
    yield OdometryReading(motion.start_ns, pose, np.zeros(3), np.zeros((3, 3)))
    for k, step in enumerate(steps):
        pose = geometry.compose(pose, step)
        away = float(np.hypot(*pose[:2]))
        covariance = _pose_covariance(config, away, float(heading[k]), float(travelled[k]), float(turned[k]))
        stamp_ns = motion.start_ns + (k + 1) * period_ns
        yield OdometryReading(stamp_ns, pose, step * NS_PER_S / period_ns, covariance)


def _pose_covariance(
    config: OdometrySimConfig, away_m: float, heading_rad: float, travelled_m: float, turned_rad: float
) -> Array:
    """Rough variances of the pose, from where it is and how long the way there was: what drivers publish."""
    turn_noise = np.radians(config.turn_noise_deg_rtm)
    heading = (config.turn_error * heading_rad) ** 2 + turn_noise**2 * (travelled_m + turned_rad)
    position = (config.length_error * away_m) ** 2 + config.noise_m_rtm**2 * travelled_m
    position += heading * away_m**2
    return np.diag([position, position, heading])
