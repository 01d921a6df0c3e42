"""Pose, gait and tilt of the wearer over a whole recording: walks, with stays and turns on the spot between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import TURN_RADPS, LidarConfig
from svfm_ros.errors import DataError
from svfm_ros.geometry import wrap_angle
from svfm_ros.types import Walk

__all__ = ["Attitude", "BodySway", "Motion", "motion_of"]

Array = NDArray[np.float64]
_Knots = tuple[Array, Array, Array]  # seconds, poses, activity

_FIDGET_S = 0.5  # knots of the small movements of someone who stays
_FIDGET_M = 0.004
_FIDGET_RAD = 0.01
_RAMP_KNOTS = 8
_WALKING_MPS = 0.8  # at this speed the gait is at its full swing
_LEAN_KNOT_S = 2.0


@dataclass(frozen=True, slots=True)
class Motion:
    """Poses of the body, linear in time between knots, and the amplitude of the gait at each knot."""

    start_ns: int
    seconds: Array  # (K,), since the start, strictly increasing
    poses: Array  # (K, 3), frame map, heading unwrapped
    activity: Array  # (K,), 0 at rest to 1 in full swing

    @property
    def duration_s(self) -> float:
        """From the first to the last pose."""
        return float(self.seconds[-1])

    def poses_at(self, seconds: Array) -> Array:
        """Poses ``(..., 3)`` at times ``(...)`` since the start; heading in [-pi, pi)."""
        x, y, theta = (np.interp(seconds, self.seconds, self.poses[:, i]) for i in range(3))
        return np.stack([x, y, wrap_angle(theta)], axis=-1)

    def activity_at(self, seconds: Array) -> Array:
        """Amplitude of the gait, 0 to 1, same shape as the times."""
        return np.interp(seconds, self.seconds, self.activity)


@dataclass(frozen=True, slots=True)
class Attitude:
    """Tilt and height of the worn sensors at some moments, same shape each."""

    pitch_rad: Array  # nose down
    roll_rad: Array  # left side up
    height_m: Array


class BodySway:
    """How the worn sensors tilt and bounce with the steps, and slowly lean, during one recording."""

    def __init__(self, motion: Motion, config: LidarConfig, step_hz: float, seed: int) -> None:
        """``step_hz`` is the rhythm of the wearer's steps; the same seed gives the same lean."""
        self._motion, self._config, self._step_hz = motion, config, step_hz
        rng = np.random.default_rng([seed, 22])
        count = int(motion.duration_s / _LEAN_KNOT_S) + 2
        self._lean = np.radians(config.lean_deg) * rng.standard_normal((2, count))  # forward and sideways

    def at(self, t: Array) -> Attitude:
        """Tilt and height at times ``(...)`` since the start of the motion."""
        c = self._config
        if not c.sway:
            return Attitude(np.zeros_like(t), np.zeros_like(t), np.full_like(t, c.height_m))
        swing = self._motion.activity_at(t)
        step = 2.0 * np.pi * self._step_hz * t
        knots = _LEAN_KNOT_S * np.arange(self._lean.shape[1])
        pitch = np.radians(c.sway_pitch_deg) * swing * np.sin(step) + np.interp(t, knots, self._lean[0])
        roll = np.radians(c.sway_roll_deg) * swing * np.sin(0.5 * step) + np.interp(t, knots, self._lean[1])
        return Attitude(pitch, roll, c.height_m + c.bounce_m * swing * np.cos(step))


def motion_of(
    walks: Sequence[Walk], before_s: float, after_s: float, seed: int, turn_radps: float = TURN_RADPS
) -> Motion:
    """One recording of walks that follow each other, with a stay before, between and after them.

    Each walk must begin where the last one ended. During a stay the body moves by millimetres, and turns to the
    next walk just before it begins, at ``turn_radps`` in the mean.
    """
    if not walks:
        raise DataError("expected at least one walk to record, got none")
    rng = np.random.default_rng([seed, 11])
    start_ns = int(walks[0].stamps_ns[0]) - round(before_s * NS_PER_S)
    parts: list[_Knots] = []
    last_s, last_pose = 0.0, walks[0].poses[0]
    for walk in walks:
        t = (walk.stamps_ns - start_ns) / NS_PER_S
        poses = np.column_stack([walk.xy, np.unwrap(walk.poses[:, 2])])
        _check_follows(last_s, last_pose, float(t[0]), poses[0], walk.walk_id)
        parts.append(_stay(last_s, float(t[0]), last_pose, poses[0], rng, turn_radps))
        parts.append((t, poses, _activity(t, poses)))
        last_s, last_pose = float(t[-1]), poses[-1]
    parts.append(_stay(last_s, last_s + after_s, last_pose, last_pose, rng, turn_radps))
    seconds, poses, activity = (np.concatenate(p) for p in zip(*parts, strict=True))
    new = np.concatenate([[True], np.diff(seconds) > 1e-9])
    poses[:, 2] = np.unwrap(poses[:, 2])
    return Motion(start_ns, seconds[new], poses[new], activity[new])


def _check_follows(last_s: float, last_pose: Array, next_s: float, next_pose: Array, walk_id: str) -> None:
    gap_m = float(np.hypot(*(next_pose - last_pose)[:2]))
    if next_s < last_s or gap_m > 0.1:
        raise DataError(
            f"{walk_id}: expected a walk that begins after the last one, where it ended, "
            f"got one {next_s - last_s:.2f} s later and {gap_m:.2f} m away"
        )


def _activity(t: Array, poses: Array) -> Array:
    speed = np.hypot(*np.gradient(poses[:, :2], t, axis=0).T)
    return np.asarray(np.clip(speed / _WALKING_MPS, 0.0, 1.0))


def _stay(
    begin_s: float, end_s: float, pose: Array, next_pose: Array, rng: np.random.Generator, turn_radps: float
) -> _Knots:
    """Knots from the end of one walk to the beginning of the next, both ends included."""
    turn = float(wrap_angle(next_pose[2] - pose[2]))
    turn_s = min(max(abs(turn) / turn_radps, min(0.3, 0.36 / turn_radps)), end_s - begin_s)
    still = np.arange(begin_s, end_s - turn_s, _FIDGET_S)
    ramp = np.linspace(max(end_s - turn_s, begin_s), end_s, _RAMP_KNOTS)
    t = np.unique(np.concatenate([[begin_s], still, ramp]))
    share = np.clip((t - (end_s - turn_s)) / max(turn_s, 1e-9), 0.0, 1.0)
    share = share * share * (3.0 - 2.0 * share)
    step = np.array([*(next_pose - pose)[:2], turn])
    knots = pose + share[:, None] * step
    fidget = rng.standard_normal((len(t), 3)) * [_FIDGET_M, _FIDGET_M, _FIDGET_RAD]
    fidget[(t <= begin_s) | (t > end_s - turn_s - _FIDGET_S)] = 0.0
    return t, knots + fidget, np.zeros(len(t))
