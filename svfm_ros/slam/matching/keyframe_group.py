"""Keyframes that are matched together: one merged cloud, and one viewpoint for each of them.

A merged cloud is less ambiguous than a single scan. Its points were seen from several positions, also around corners:
whether walls of the map hide them is tested for each keyframe from its own position.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.slam.keyframes import Pool
from svfm_ros.slam.matching.local_map import LocalMap, merged_cloud
from svfm_ros.slam.matching.scan_matcher import blocked_share
from svfm_ros.slam.preprocess import Cloud, filled
from svfm_ros.types import Pose2

__all__ = ["KeyframeGroup", "keyframe_cloud"]

Array = NDArray[np.float64]

_CELL_M = 0.1  # side of the cells in which points are merged


@dataclass(frozen=True, slots=True)
class KeyframeGroup:
    """Keyframes ``ids`` of a pool and their poses, in a frame of their own."""

    pool: Pool
    ids: NDArray[np.int64]  # (G,)
    poses: Array  # (G, 3)

    @classmethod
    def around(cls, pool: Pool, ids: NDArray[np.int64], poses: Array, centre: Array) -> "KeyframeGroup":
        """Keyframes with poses ``(K, 3)`` in the frame of the pose ``centre`` (3,)."""
        return cls(pool, ids, geometry.relative(centre, poses[ids]))

    @classmethod
    def of_scan(cls, cloud: Cloud) -> "KeyframeGroup":
        """One scan that is no keyframe, in its own frame."""
        cloud = filled(cloud)
        points = np.concatenate([cloud.points, cloud.normals], axis=1).astype(np.float32)
        return cls(Pool(points, np.array([0, len(cloud)])), np.zeros(1, dtype=np.int64), np.zeros((1, 3)))

    def cloud(self, reach_m: float) -> Cloud:
        """The points of all keyframes, merged by cells; those farther away than the reach are left out."""
        poses = np.zeros((int(self.ids.max(initial=0)) + 1, 3))
        poses[self.ids] = self.poses
        return merged_cloud(self.pool, poses, self.ids, np.zeros(2), reach_m, _CELL_M)

    def blocked_share(self, target: LocalMap, T_target_group: Pose2) -> float:
        """Share of beams that would cross a wall of the map, mean over the keyframes."""
        poses = geometry.compose(T_target_group.as_array(), self.poses)
        shares = [
            blocked_share(keyframe_cloud(self.pool, int(k)), target, Pose2.from_array(pose))
            for k, pose in zip(self.ids, poses, strict=True)
        ]
        return float(np.mean(shares)) if shares else 0.0


def keyframe_cloud(pool: Pool, k: int) -> Cloud:
    """Points of one keyframe in its own frame."""
    rows = pool.points[pool.starts[k] : pool.starts[k + 1]].astype(np.float64)
    return Cloud(rows[:, :2].copy(), rows[:, 2:].copy(), np.zeros(len(rows)))
