"""Where in a whole map is the sensor? A search everywhere and at any turn, and a verdict: one place, or none for sure.

Rooms look alike. The best place only counts if it fits well by itself, if its walls hold it in every direction, and if
no other place fits nearly as well.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.slam.matching.correlative import Fit, Window, search_sectors, thinned
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.pose_covariance import doubt_of
from svfm_ros.slam.matching.scan_matcher import Guess, honest, refine, share_blocked
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import MatchResult, Pose2

__all__ = ["Place", "find_place"]

Array = NDArray[np.float64]

_POINTS = 150
_TILE_M = 5.0  # the map is searched in squares of this size, each of which names its best
_SECTORS = 8
_LEAST_SCORE = 0.5
_LEAST_INLIERS, _LEAST_MERIT = 0.65, 1.2  # in another house the best places have 0.45 and 0.8
_RIVAL = 0.15  # how much less than the best so far a place may score to be looked at
_CLEARLY = 0.1  # by so much must the best place fit better than any other place
_VAGUE_M = 0.15  # a place that is known less exactly than this is none
_LOOK_M = 2.0  # how far to look for other places that fit
_SAME_PLACE_M, _SAME_TURN_RAD = 0.6, 0.3


@dataclass(frozen=True, slots=True)
class Place:
    """The best place in the map, and why it does not count; empty when it does."""

    match: MatchResult
    merit: float
    doubt: str

    @property
    def is_sure(self) -> bool:
        """Whether it counts."""
        return not self.doubt


def find_place(cloud: Cloud, target: LocalMap, possible: Callable[[Pose2], bool] = lambda _: True) -> Place | None:
    """Of a cloud in the sensor's frame, among ``possible`` places; ``None`` where nothing in the map comes close."""
    fits = [f for f in _fits(target, thinned(cloud.points, _POINTS)) if possible(f.T_target_source)]
    if not fits:
        return None
    matches = [refine(cloud, target, fit.T_target_source) for fit in fits]
    merits = np.array(
        [
            f.score + m.inlier_ratio - share_blocked(cloud, target, m.T_target_source)
            for f, m in zip(fits, matches, strict=True)
        ]
    )
    best = int(np.argmax(merits))
    place = matches[best].T_target_source
    match = honest(matches[best], cloud, target, Guess(place, _LOOK_M, np.pi, _LOOK_M, np.pi), _LOOK_M)
    rivals = [float(r) for m, r in zip(matches, merits, strict=True) if not _same(m.T_target_source, place)]
    merit = float(merits[best])
    return Place(match, merit, _doubt(match, merit, merit - max(rivals, default=-1.0)))


def _doubt(match: MatchResult, merit: float, margin: float) -> str:
    vague_m = float(np.sqrt(doubt_of(match.information)[0]))
    if match.inlier_ratio < _LEAST_INLIERS or merit < _LEAST_MERIT:
        return f"only {match.inlier_ratio:.0%} of what is seen lies on the map at the best place"
    if vague_m > _VAGUE_M:
        return f"the best place is only known to {vague_m:.2f} m"
    if margin < _CLEARLY:
        return "several places look alike"
    return ""


def _fits(target: LocalMap, points: Array) -> list[Fit]:
    """The best of each square and each sector of the turn, those that come close to the best of all."""
    seen = target.pyramid
    size_m = np.array(seen.levels.shape[:0:-1]) * seen.resolution_m  # width, height
    tiles = np.maximum(np.ceil(size_m / _TILE_M).astype(int), 1)
    side_m = size_m / tiles
    found: list[Fit] = []
    least = _LEAST_SCORE
    for i in range(int(tiles[0])):
        for j in range(int(tiles[1])):
            x, y = seen.origin + (np.array([i, j]) + 0.5) * side_m
            window = Window(Pose2(float(x), float(y), 0.0), float(side_m.max() / 2.0))
            found += search_sectors(seen, points, window, _SECTORS, least)
            least = max([least, *(f.score - _RIVAL for f in found)])
    return [f for f in found if f.score >= least]


def _same(one: Pose2, other: Pose2) -> bool:
    gap = one.inverse() @ other
    return bool(np.hypot(gap.x, gap.y) < _SAME_PLACE_M and abs(gap.theta) < _SAME_TURN_RAD)
