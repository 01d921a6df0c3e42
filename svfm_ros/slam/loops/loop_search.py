"""Loop search: match the newest keyframes against old submaps and verify the matches.

The last few keyframes are merged into one cloud, which is less ambiguous than a single scan. It is searched in each
candidate submap, refined and verified. The search reads a snapshot of the map only, so it can run in a thread.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.loop_candidates import LoopCandidate, LoopQuery, nearby_candidates, similar_candidates
from svfm_ros.slam.loops.submap import Submap
from svfm_ros.slam.matching.correlative import Window, search_sectors, thinned
from svfm_ros.slam.matching.local_map import merged_cloud
from svfm_ros.slam.matching.pose_covariance import information_with_floor, worst_variances
from svfm_ros.slam.matching.scan_matcher import blocked_share, refine, with_ambiguity
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import Constraint, MatchResult, Pose2

__all__ = ["LoopSearch"]

Array = NDArray[np.float64]

_SEARCH_POINTS = 150
_CELL_M = 0.1  # side of the cells in which the query's points are merged
_KNOWN_DISCOUNT = 0.1  # thresholds are this much lower where an earlier loop closure joins the two
_MARGIN = 0.1  # least difference of the total score to a match elsewhere, where the pose is unknown
_MAX_SPREAD_M = 0.15  # loops with a larger standard deviation are not used
_SHARP_SPREAD_M = 0.06  # the same where the pose is unknown
_MAX_BLOCKED = 0.15  # share of the query's beams that may cross walls, where the pose is unknown
_LOOK_M = 4.0  # radius in which other poses with a similar score are looked for
_SECTORS = 8
_AGREEING = 1  # earlier queries that must imply the same correction, and more than those that imply another
_CONFIRM_KEYFRAMES = 30  # an unconfirmed match is dropped after so many keyframes
_SAME_M, _SAME_RAD = 1.0, 0.3
_FLOOR = np.array([0.02, 0.02, 0.004])  # least standard deviations of a loop: m, m, rad


@dataclass(frozen=True, slots=True)
class _LoopMatch:
    """A verified candidate: its match, its total score and the pose it gives the query."""

    candidate: LoopCandidate
    match: MatchResult
    total: float  # coarse score plus share of inliers
    T_map_query: Pose2


@dataclass(frozen=True, slots=True)
class _PendingLoop:
    """A match in a submap of unknown pose that waits for a second one: the correction it implies."""

    anchor: int
    move: Pose2  # corrected map pose of a keyframe = move @ current one


class LoopSearch:
    """Finds loop constraints between the newest keyframes and old submaps."""

    def __init__(self, config: SlamConfig) -> None:
        self._config = config
        self._waiting: list[_PendingLoop] = []

    def find(self, view: MapView, submaps: tuple[Submap, ...], query: LoopQuery) -> list[Constraint]:
        """Loops with nearby submaps; if there are none, perhaps one with a submap of unknown pose."""
        cloud = self._cloud(view, query)
        tries = nearby_candidates(view, submaps, query, self._config)[: self._config.loop_candidates]
        found = [a for c in tries for a in self._match(view, cloud, c, sectors=1)]
        if not found:
            tries = similar_candidates(view, submaps, query, cloud, self._config)[: self._config.loop_alike]
            found = _unambiguous([a for c in tries for a in self._match(view, cloud, c, sectors=_SECTORS)])
            found = self._confirmed(view, query, found)
        return [
            self._constraint(a, query) for a in found if worst_variances(a.match.information)[0] <= _MAX_SPREAD_M**2
        ]

    def _cloud(self, view: MapView, query: LoopQuery) -> Cloud:
        """Points of the query's keyframes in the frame of its anchor."""
        relative = geometry.relative(view.poses[query.anchor], view.poses[: query.last])
        ids = np.arange(query.first, query.last)
        return merged_cloud(view.pool, relative, ids, np.zeros(2), self._config.range_max_m, _CELL_M)

    def _match(self, view: MapView, cloud: Cloud, candidate: LoopCandidate, sectors: int) -> list[_LoopMatch]:
        """The best matches in the candidate's window, one for each sector of headings, that pass the thresholds."""
        guess, target, discount = (
            candidate.guess,
            candidate.submap.target(),
            _KNOWN_DISCOUNT if candidate.known else 0.0,
        )
        window = Window(guess.T_map_scan, guess.reach_m, guess.turn_rad)
        points = thinned(cloud.points, _SEARCH_POINTS)
        T_map_anchor = Pose2.from_array(view.poses[candidate.submap.span.anchor])
        matches: list[_LoopMatch] = []
        for fit in search_sectors(target.pyramid, points, window, sectors, self._config.loop_min_score - discount):
            match = refine(cloud, target, fit.T_target_source)
            if match.inlier_ratio < self._config.loop_min_inliers - discount:
                continue
            blocked = blocked_share(cloud, target, match.T_target_source) if sectors > 1 else 0.0
            if blocked > _MAX_BLOCKED:
                continue
            match, total = (
                with_ambiguity(match, cloud, target, guess, _LOOK_M),
                fit.score + match.inlier_ratio - blocked,
            )
            matches.append(_LoopMatch(candidate, match, total, T_map_anchor @ match.T_target_source))
        return matches

    def _confirmed(self, view: MapView, query: LoopQuery, found: list[_LoopMatch]) -> list[_LoopMatch]:
        """The matches if more of the recent queries agree with their correction than contradict it; else they wait."""
        here = Pose2.from_array(view.poses[query.anchor])
        pending = [_PendingLoop(query.anchor, a.T_map_query @ here.inverse()) for a in found]
        recent = [w for w in self._waiting if query.anchor - w.anchor <= _CONFIRM_KEYFRAMES]
        agreeing = [w for c in pending for w in recent if _agree(c, w, here)]
        contradicting = len(recent) - len(agreeing)
        is_confirmed = bool(pending) and len(agreeing) >= max(_AGREEING, contradicting + 1)
        self._waiting = [] if is_confirmed else recent + pending
        return found if is_confirmed else []

    def _constraint(self, found: _LoopMatch, query: LoopQuery) -> Constraint:
        information = information_with_floor(found.match.information, _FLOOR)
        anchor = found.candidate.submap.span.anchor
        return Constraint(anchor, query.anchor, found.match.T_target_source, information, "loop")


def _agree(one: _PendingLoop, other: _PendingLoop, here: Pose2) -> bool:
    """Whether two corrections give the keyframe ``here`` the same pose."""
    gap = (one.move @ here).inverse() @ (other.move @ here)
    apart = np.hypot(gap.x, gap.y) > _SAME_M or abs(gap.theta) > _SAME_RAD
    return one.anchor != other.anchor and not bool(apart)


def _unambiguous(matches: list[_LoopMatch]) -> list[_LoopMatch]:
    """The best match, if its covariance is small and no match elsewhere scores nearly as well; else none."""
    if not matches:
        return []
    best = max(matches, key=lambda m: m.total)
    if worst_variances(best.match.information)[0] > _SHARP_SPREAD_M**2:
        return []
    for other in matches:
        gap = best.T_map_query.inverse() @ other.T_map_query
        elsewhere = np.hypot(gap.x, gap.y) > _SAME_M or abs(gap.theta) > _SAME_RAD
        if elsewhere and other.total > best.total - _MARGIN:
            return []
    return [best]
