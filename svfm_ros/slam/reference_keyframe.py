"""Reference keyframe of a scan: the newest, a new one, or an old one in a known part of the map.

A resident walks the same paths for months. Where enough keyframes with a similar pose exist, no keyframe is added and
the scan refers to one of them, so map and memory stop growing once the home is known. A scan that matches the map badly
(a closed door, a moved chair) always becomes a keyframe.
"""

import math

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import Keyframes
from svfm_ros.slam.matching.pose_covariance import information_with_floor, turned
from svfm_ros.types import Constraint, MatchResult, Pose2

__all__ = ["familiar_keyframe", "needs_keyframe", "relocalisation_constraint"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_NEW_VIEW = 0.6  # with a smaller share of inliers a keyframe is added after a shorter distance
_NEW_VIEW_M, _NEW_VIEW_RAD = 0.1, 0.15
_FAMILIAR_RATIO = 0.85  # least share of inliers in a known part of the map
_FAMILIAR_M, _FAMILIAR_RAD = 0.4, 0.5  # largest pose difference of keyframes that count as similar
_AS_GOOD = 0.8  # largest distance to the reference, in keyframe distances
_TIE_FLOOR = np.array([0.02, 0.02, 0.004])  # least standard deviations of a relocalisation: m, m, rad


def needs_keyframe(moved: Pose2, match: MatchResult, config: SlamConfig) -> bool:
    """Whether a scan that ``moved`` away from its keyframe needs another one."""
    distance_m, turn_rad = math.hypot(moved.x, moved.y), abs(moved.theta)
    if distance_m >= config.keyframe_distance_m or turn_rad >= config.keyframe_turn_rad:
        return True
    return match.inlier_ratio < _NEW_VIEW and (distance_m >= _NEW_VIEW_M or turn_rad >= _NEW_VIEW_RAD)


def familiar_keyframe(keyframes: Keyframes, near: Ints, match: MatchResult, config: SlamConfig) -> int | None:
    """The nearest keyframe, if enough keyframes have a similar pose and the scan matches the map well; else None."""
    if not config.familiar_views or match.inlier_ratio < _FAMILIAR_RATIO:
        return None
    off = geometry.relative(match.T_target_source.as_array(), keyframes.poses[near])  # (near, 3)
    distances_m, turns_rad = np.hypot(off[:, 0], off[:, 1]), np.abs(off[:, 2])
    similar = (distances_m <= _FAMILIAR_M) & (turns_rad <= _FAMILIAR_RAD)
    if np.count_nonzero(similar) < config.familiar_views:
        return None
    gaps = np.maximum(distances_m / config.keyframe_distance_m, turns_rad / config.keyframe_turn_rad)
    return int(near[np.argmin(gaps)]) if gaps.min() < _AS_GOOD else None


def relocalisation_constraint(keyframes: Keyframes, k: int, match: MatchResult) -> Constraint:
    """Constraint between relocalised keyframe k and the nearest keyframe of the old map."""
    poses = keyframes.poses
    old = np.flatnonzero(keyframes.in_largest_piece[:k])
    nearest = int(old[np.argmin(np.hypot(*(poses[old, :2] - poses[k, :2]).T))])
    information = information_with_floor(turned(match.information, poses[nearest, 2]), _TIE_FLOOR)
    return Constraint(nearest, k, Pose2.from_array(geometry.relative(poses[nearest], poses[k])), information, "loop")
