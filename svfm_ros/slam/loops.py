"""Loop closure: is the sensor back where it was before?

The last few keyframes together form the question: several scans from several spots are far harder to mistake for
another place than one scan is. Old submaps that drift may have brought near are tried, and those that look alike. Each
answers with its best fit; a fine fit and a list of checks decide. All of it is a pure function of a view of the map, so
it can run beside the online path.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import se2
from svfm_ros.config.slam import SlamConfig
from svfm_ros.correlative import Window, search, thinned
from svfm_ros.datatypes import Constraint, Pose2
from svfm_ros.slam.keyframes import Pool
from svfm_ros.slam.localmap import merged_cloud
from svfm_ros.slam.match import Guess, honest, refine
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.slam.submap import Submap
from svfm_ros.slam.uncertainty import information_with_floor

__all__ = ["LoopSearch", "MapView", "Query"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_SEARCH_POINTS = 300
_KNOWN_M, _KNOWN_RAD = 0.5, 0.2  # how far off a place may be that a loop closure led to before
_EASE = 0.1  # so much less does a closure need to convince there
_DRIFT_PER_M, _DRIFT_RAD_PER_M = 0.03, 0.01
_MOST_REACH_M = 8.0
_SIDE_M = 2.0  # a place may be recognised from so far beside the old path
_CELL_M = 0.1  # the query's points are merged by cells of this size
_FLOOR = np.array([0.02, 0.02, 0.004])  # no closure is trusted more than this: m, m, rad


@dataclass(frozen=True, slots=True)
class MapView:
    """The map as it was at one moment; later keyframes do not change it."""

    pool: Pool
    poses: Array  # (K, 3)
    walked_m: Array  # (K,), length of the path up to each keyframe
    doubt_m2: Array  # (K,), sum of the steps' variances up to each keyframe
    islands: Ints  # (K,), equal for keyframes whose relative pose is known


@dataclass(frozen=True, slots=True)
class Query:
    """The newest keyframes ``first`` to ``last`` (not included), and those known to be near by accepted loops."""

    first: int
    last: int
    near: Ints

    @property
    def anchor(self) -> int:
        """The keyframe that a constraint is tied to."""
        return (self.first + self.last) // 2


@dataclass(frozen=True, slots=True)
class Candidate:
    """A submap worth trying, and the window to try; ``guess`` is the query's pose as seen from the submap's anchor."""

    submap: Submap
    guess: Guess
    distance_m: float


class LoopSearch:
    """Finds constraints between the newest keyframes and old submaps."""

    def __init__(self, config: SlamConfig) -> None:
        self._config = config

    def find(self, view: MapView, submaps: tuple[Submap, ...], query: Query) -> list[Constraint]:
        """All accepted closures, nearest submaps first."""
        cloud = self._cloud(view, query)
        tries = self._candidates(view, submaps, query)[: self._config.loop_candidates]
        found = [self._close(cloud, candidate, query) for candidate in tries]
        return [c for c in found if c is not None]

    def _cloud(self, view: MapView, query: Query) -> Cloud:
        relative = se2.relative(view.poses[query.anchor], view.poses[: query.last])
        ids = np.arange(query.first, query.last)
        return merged_cloud(view.pool, relative, ids, np.zeros(2), self._config.range_max_m, _CELL_M)

    def _candidates(self, view: MapView, submaps: tuple[Submap, ...], query: Query) -> list[Candidate]:
        newest = query.first - self._config.local_keyframes // 2
        found = [self._candidate(view, query, s) for s in submaps if s.span.last <= newest]
        return sorted((c for c in found if c is not None), key=lambda c: c.distance_m)

    def _candidate(self, view: MapView, query: Query, submap: Submap) -> Candidate | None:
        """The submap, if the query may lie inside it after all the drift that the way since then allows."""
        span, here = submap.span, view.poses[query.anchor]
        gaps = np.hypot(*(view.poses[span.first : span.last, :2] - here[:2]).T)
        reach_m, turn_rad = self._drift(view, query, submap)
        if gaps.min() > reach_m + _SIDE_M:
            return None
        T_anchor_query = Pose2.from_array(se2.relative(view.poses[span.anchor], here))
        return Candidate(submap, Guess(T_anchor_query, reach_m, turn_rad, reach_m, turn_rad), float(gaps.min()))

    def _drift(self, view: MapView, query: Query, submap: Submap) -> tuple[float, float]:
        """How far off the query may be, as seen from the submap: metres and radians."""
        span = submap.span
        if np.any((query.near >= span.first) & (query.near < span.last)):
            return _KNOWN_M, _KNOWN_RAD
        walk_m = float(view.walked_m[query.anchor] - view.walked_m[span.last - 1])
        doubt_m = 2.0 * float(np.sqrt(view.doubt_m2[query.anchor] - view.doubt_m2[span.last - 1]))
        reach_m = _KNOWN_M + _DRIFT_PER_M * walk_m + doubt_m
        return min(reach_m, _MOST_REACH_M), min(_KNOWN_RAD + _DRIFT_RAD_PER_M * walk_m, np.pi)

    def _close(self, cloud: Cloud, candidate: Candidate, query: Query) -> Constraint | None:
        guess, target = candidate.guess, candidate.submap.target
        window = Window(guess.T_map_scan, guess.reach_m, guess.turn_rad)
        ease = _EASE if guess.reach_m <= _KNOWN_M else 0.0
        points = thinned(cloud.points, _SEARCH_POINTS)
        fit = search(target.pyramid, points, window, self._config.loop_min_score - ease)
        if fit is None:
            return None
        match = refine(cloud, target, fit.T_target_source)
        if match.inlier_ratio < self._config.loop_min_inliers - ease:
            return None
        match = honest(match, cloud, target, guess)
        information = information_with_floor(match.information, _FLOOR)
        return Constraint(candidate.submap.span.anchor, query.anchor, match.T_target_source, information, "loop")
