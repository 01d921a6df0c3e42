"""Which keyframe a scan stands on: the newest, a new one, or an old one where the ground is familiar.

Someone who lives in a house walks the same ways for months. Where a place was seen often enough, from here and facing
this way, one more keyframe would tell nothing new: the scan is tied to one that is there. So the map of a house stops
growing when the house is known, and so does the memory it takes. A scan that does not fit the map well, because a
door was closed or a chair moved, is always worth a keyframe.
"""

import math

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import Keyframes
from svfm_ros.slam.matching.pose_covariance import information_with_floor, turned
from svfm_ros.types import Constraint, MatchResult, Pose2

__all__ = ["asks_for_keyframe", "familiar_keyframe", "tie_to_old"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_NEW_VIEW = 0.6  # a smaller share of inliers asks for a keyframe before its time
_NEW_VIEW_M, _NEW_VIEW_RAD = 0.1, 0.15
_FAMILIAR_RATIO = 0.85  # share of inliers that familiar ground has at least
_FAMILIAR_M, _FAMILIAR_RAD = 0.4, 0.5  # as near a keyframe must be to have seen the same
_AS_GOOD = 0.8  # of the way to the next keyframe
_TIE_FLOOR = np.array([0.02, 0.02, 0.004])  # no place in the whole map is trusted more than this: m, m, rad


def asks_for_keyframe(moved: Pose2, match: MatchResult, config: SlamConfig) -> bool:
    """Whether a scan that ``moved`` away from its keyframe needs another one."""
    distance_m, turn_rad = math.hypot(moved.x, moved.y), abs(moved.theta)
    if distance_m >= config.keyframe_distance_m or turn_rad >= config.keyframe_turn_rad:
        return True
    return match.inlier_ratio < _NEW_VIEW and (distance_m >= _NEW_VIEW_M or turn_rad >= _NEW_VIEW_RAD)


def familiar_keyframe(keyframes: Keyframes, near: Ints, match: MatchResult, config: SlamConfig) -> int | None:
    """The nearest of the keyframes that saw the same as the scan, if they are enough and the scan agrees.

    It is so near that it serves as well as a new one would.
    """
    if not config.familiar_views or match.inlier_ratio < _FAMILIAR_RATIO:
        return None
    off = geometry.relative(match.T_target_source.as_array(), keyframes.poses[near])  # (near, 3)
    distances_m, turns_rad = np.hypot(off[:, 0], off[:, 1]), np.abs(off[:, 2])
    alike = (distances_m <= _FAMILIAR_M) & (turns_rad <= _FAMILIAR_RAD)
    if np.count_nonzero(alike) < config.familiar_views:
        return None
    gaps = np.maximum(distances_m / config.keyframe_distance_m, turns_rad / config.keyframe_turn_rad)
    return int(near[np.argmin(gaps)]) if gaps.min() < _AS_GOOD else None


def tie_to_old(keyframes: Keyframes, k: int, match: MatchResult) -> Constraint:
    """Bind keyframe k, which was found in the whole map, to the nearest one of before."""
    poses = keyframes.poses
    old = np.flatnonzero(keyframes.mainland[:k])
    nearest = int(old[np.argmin(np.hypot(*(poses[old, :2] - poses[k, :2]).T))])
    information = information_with_floor(turned(match.information, poses[nearest, 2]), _TIE_FLOOR)
    return Constraint(nearest, k, Pose2.from_array(geometry.relative(poses[nearest], poses[k])), information, "loop")
