"""Trajectory of all placed scans, stored relative to their reference keyframes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.slam.keyframes import grown
from svfm_ros.types import Pose2

__all__ = ["History", "Trajectory"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Poses of the sensor with their times, in the order of arrival."""

    stamps_ns: NDArray[np.int64]  # (T,)
    poses: Array  # (T, 3), T_map_base

    def __len__(self) -> int:
        return len(self.stamps_ns)


class History:
    """Placed scans; a correction of the keyframe poses corrects all of them."""

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

    def last(self, keyframe_poses: Array) -> Pose2:
        """``T_map_scan`` of the newest scan."""
        n = self._count - 1
        return Pose2.from_array(keyframe_poses[self._keyframes[n]]) @ Pose2.from_array(self._poses[n])

    def trajectory(self, keyframe_poses: Array, wanted: NDArray[np.bool_]) -> Trajectory:
        """All scans with the current keyframe poses ``(K, 3)``, where their keyframe is ``wanted`` (K,)."""
        keyframes = self._keyframes[: self._count]
        chosen = np.flatnonzero(wanted[keyframes])
        poses = geometry.compose(keyframe_poses[keyframes[chosen]], self._poses[chosen])
        return Trajectory(self._stamps_ns[chosen], poses.reshape(-1, 3))
