"""Trajectory of all scans that have a pose, and its file in the format of the TUM benchmark.

Poses are stored relative to their reference keyframes. In a file each line is a pose: ``t x y z qx qy qz qw``, in
seconds.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import geometry
from svfm_ros.atomic_files import write_whole
from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.slam.keyframes import grown
from svfm_ros.types import Pose2

__all__ = ["History", "Trajectory", "poses_at", "save_tum", "twists"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_LONGEST_GAP_S = 0.5


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Poses of the sensor with their times, in the order of arrival."""

    stamps_ns: NDArray[np.int64]  # (T,)
    poses: Array  # (T, 3), T_map_base
    origin: int = 0  # keyframe whose pose defines the frame; another one means that the frames are unrelated

    def __len__(self) -> int:
        return len(self.stamps_ns)


class History:
    """Scans that have a pose; a correction of the keyframe poses corrects all of them."""

    def __init__(self) -> None:
        self._stamps_ns = np.empty(256, dtype=np.int64)
        self._keyframes = np.empty(256, dtype=np.int64)
        self._poses = np.empty((256, 3))
        self._count = 0

    @classmethod
    def restored(cls, stamps_ns: Ints, keyframes: Ints, poses: Array) -> "History":
        """A history from saved arrays."""
        self = cls()
        self._stamps_ns, self._keyframes, self._poses = stamps_ns.copy(), keyframes.copy(), poses.copy()
        self._count = len(stamps_ns)
        return self

    def rows(self) -> tuple[Ints, Ints, Array]:
        """Stamps, keyframes and poses relative to these, of all scans; views that do not change later."""
        n = self._count
        return self._stamps_ns[:n], self._keyframes[:n], self._poses[:n]

    def __len__(self) -> int:
        return self._count

    def add(self, stamp_ns: int, keyframe: int, T_keyframe_scan: Array) -> None:
        """Append one scan."""
        n = self._count
        self._stamps_ns = grown(self._stamps_ns, n + 1)
        self._keyframes = grown(self._keyframes, n + 1)
        self._poses = grown(self._poses, n + 1)
        self._stamps_ns[n], self._keyframes[n], self._poses[n] = stamp_ns, keyframe, T_keyframe_scan
        self._count = n + 1

    def forget_all_but_last(self) -> None:
        """Keep the newest scan only."""
        stamps_ns, keyframes, poses = self.rows()
        self._stamps_ns, self._keyframes, self._poses = stamps_ns[-1:].copy(), keyframes[-1:].copy(), poses[-1:].copy()
        self._count = len(self._stamps_ns)

    @property
    def last_ns(self) -> int:
        """Stamp of the newest scan."""
        return int(self._stamps_ns[self._count - 1])

    def last(self, keyframe_poses: Array) -> Pose2:
        """``T_map_scan`` of the newest scan."""
        n = self._count - 1
        return Pose2.from_array(keyframe_poses[self._keyframes[n]]) @ Pose2.from_array(self._poses[n])

    def trajectory(self, keyframe_poses: Array, wanted: NDArray[np.bool_]) -> Trajectory:
        """All scans whose keyframe is ``wanted`` (K,), one piece of the map, with keyframe poses ``(K, 3)``."""
        keyframes = self._keyframes[: self._count]
        chosen = np.flatnonzero(wanted[keyframes])
        poses = geometry.compose(keyframe_poses[keyframes[chosen]], self._poses[chosen])
        return Trajectory(self._stamps_ns[chosen], poses.reshape(-1, 3), int(np.argmax(wanted)))


Stamps = NDArray[np.int64]


def save_tum(path: Path, stamps_ns: ArrayLike, poses: ArrayLike) -> None:
    """Write stamps ``(T,)`` and poses ``(T, 3)``; stamps keep all their nanoseconds."""
    stamps, trajectory = np.asarray(stamps_ns, dtype=np.int64), np.asarray(poses, dtype=float).reshape(-1, 3)
    if len(stamps) != len(trajectory):
        raise DataError(f"expected as many stamps as poses, got {len(stamps)} and {len(trajectory)}")
    half = trajectory[:, 2] / 2.0
    rows = zip(stamps.tolist(), trajectory[:, 0], trajectory[:, 1], np.sin(half), np.cos(half), strict=True)
    lines = [f"{_seconds(t)} {x:.6f} {y:.6f} 0 0 0 {qz:.9f} {qw:.9f}\n" for t, x, y, qz, qw in rows]
    write_whole(path, "".join(["# t x y z qx qy qz qw\n", *lines]).encode())


def poses_at(wanted_ns: ArrayLike, stamps_ns: ArrayLike, poses: ArrayLike) -> Array:
    """Poses ``(K, 3)`` at other times, interpolated between neighbours; the first and last pose are held."""
    wanted, stamps = np.asarray(wanted_ns, dtype=np.int64), np.asarray(stamps_ns, dtype=np.int64)
    trajectory = np.asarray(poses, dtype=float)
    after = np.clip(np.searchsorted(stamps, wanted), 1, max(len(stamps) - 1, 1))
    before, after = after - 1, np.minimum(after, len(stamps) - 1)
    span = np.maximum(stamps[after] - stamps[before], 1)
    share = np.clip((wanted - stamps[before]) / span, 0.0, 1.0)[:, None]
    motion = geometry.log(geometry.relative(trajectory[before], trajectory[after]))
    return geometry.compose(trajectory[before], geometry.exp(share * motion))


def twists(stamps_ns: ArrayLike, poses: ArrayLike) -> Array:
    """Velocity ``(T, 3)`` (vx, vy, omega per second, in the pose's own axes) from each pose to the next.

    Zero where the next pose is more than half a second away; the last has that of the one before.
    """
    stamps, trajectory = np.asarray(stamps_ns, dtype=np.int64), np.asarray(poses, dtype=float).reshape(-1, 3)
    if len(stamps) < 2:
        return np.zeros((len(stamps), 3))
    seconds = np.diff(stamps) / NS_PER_S
    motion = geometry.log(geometry.relative(trajectory[:-1], trajectory[1:]))
    usable = (seconds > 0) & (seconds <= _LONGEST_GAP_S)
    velocity = np.where(usable[:, None], motion / np.where(usable, seconds, 1.0)[:, None], 0.0)
    return np.concatenate([velocity, velocity[-1:]])


def _seconds(stamp_ns: int) -> str:
    sign = "-" if stamp_ns < 0 else ""
    whole, rest = divmod(abs(stamp_ns), NS_PER_S)
    return f"{sign}{whole}.{rest:09d}"
