"""Global search: the pose of a cloud in a whole map, at any position and heading, if it is unambiguous.

The best pose is accepted only if enough of the cloud lies on the map, if its covariance is small in every direction,
and if no other pose scores nearly as well.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.slam.matching.correlative import Fit, Window, search_sectors, thinned
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.pose_covariance import worst_variances
from svfm_ros.slam.matching.scan_matcher import Guess, blocked_share, refine, with_ambiguity
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import MatchResult, Pose2

__all__ = ["GlobalMatch", "find_pose"]

Array = NDArray[np.float64]

_POINTS = 150
_TILE_M = 5.0  # the map is searched in squares of this size
_SECTORS = 8
_MIN_SCORE = 0.5
_MIN_INLIERS, _MIN_TOTAL = 0.65, 1.2  # in a map of another house the best matches have 0.45 and 0.8
_PLAUSIBLE_INLIERS, _PLAUSIBLE_TOTAL = 0.55, 1.0
_SCORE_RANGE = 0.15  # poses that score this much less than the best are refined
_MARGIN = 0.1  # least difference of the total score to the second best pose
_MAX_SPREAD_M = 0.15
_LOOK_M = 2.0  # radius in which other poses with a similar score are looked for
_SAME_M, _SAME_RAD = 0.6, 0.3


@dataclass(frozen=True, slots=True)
class GlobalMatch:
    """The best match in a map, and why it is not accepted; empty when it is."""

    match: MatchResult
    total: float  # coarse score plus share of inliers minus share of blocked beams
    objection: str

    @property
    def is_accepted(self) -> bool:
        """Whether the match is unambiguous."""
        return not self.objection

    @property
    def is_plausible(self) -> bool:
        """Whether the match is good enough to be accepted when further searches agree with it."""
        return self.match.inlier_ratio >= _PLAUSIBLE_INLIERS and self.total >= _PLAUSIBLE_TOTAL


def find_pose(cloud: Cloud, target: LocalMap, possible: Callable[[Pose2], bool] = lambda _: True) -> GlobalMatch | None:
    """The best pose of a cloud in sensor frame among ``possible`` ones; None where no pose reaches the least score."""
    fits = [f for f in _fits(target, thinned(cloud.points, _POINTS)) if possible(f.T_target_source)]
    if not fits:
        return None
    matches = [refine(cloud, target, fit.T_target_source) for fit in fits]
    totals = np.array(
        [
            f.score + m.inlier_ratio - blocked_share(cloud, target, m.T_target_source)
            for f, m in zip(fits, matches, strict=True)
        ]
    )
    best = int(np.argmax(totals))
    pose = matches[best].T_target_source
    match = with_ambiguity(matches[best], cloud, target, Guess(pose, _LOOK_M, np.pi, _LOOK_M, np.pi), _LOOK_M)
    elsewhere = [float(t) for m, t in zip(matches, totals, strict=True) if not _same(m.T_target_source, pose)]
    total = float(totals[best])
    return GlobalMatch(match, total, _objection(match, total, total - max(elsewhere, default=-1.0)))


def _objection(match: MatchResult, total: float, margin: float) -> str:
    spread_m = float(np.sqrt(worst_variances(match.information)[0]))
    if match.inlier_ratio < _MIN_INLIERS or total < _MIN_TOTAL:
        return f"only {match.inlier_ratio:.0%} of the points lie on the map at the best pose"
    if spread_m > _MAX_SPREAD_M:
        return f"the best pose is known to {spread_m:.2f} m only"
    if margin < _MARGIN:
        return "several poses match about as well"
    return ""


def _fits(target: LocalMap, points: Array) -> list[Fit]:
    """The best pose of each square and each sector of headings, as far as they score nearly as well as the best."""
    seen = target.pyramid
    size_m = np.array(seen.levels.shape[:0:-1]) * seen.resolution_m  # width, height
    tiles = np.maximum(np.ceil(size_m / _TILE_M).astype(int), 1)
    side_m = size_m / tiles
    found: list[Fit] = []
    least = _MIN_SCORE
    for i in range(int(tiles[0])):
        for j in range(int(tiles[1])):
            x, y = seen.origin + (np.array([i, j]) + 0.5) * side_m
            window = Window(Pose2(float(x), float(y), 0.0), float(side_m.max() / 2.0))
            found += search_sectors(seen, points, window, _SECTORS, least)
            least = max([least, *(f.score - _SCORE_RANGE for f in found)])
    return [f for f in found if f.score >= least]


def _same(one: Pose2, other: Pose2) -> bool:
    gap = one.inverse() @ other
    return bool(np.hypot(gap.x, gap.y) < _SAME_M and abs(gap.theta) < _SAME_RAD)
