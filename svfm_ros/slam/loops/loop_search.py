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
from svfm_ros.slam.loops.headings import facing_histogram, likely_headings
from svfm_ros.slam.loops.loop_candidates import LoopCandidate, LoopQuery, nearby_candidates, similar_candidates
from svfm_ros.slam.loops.placement import Placement
from svfm_ros.slam.loops.submap import Submap
from svfm_ros.slam.matching.correlative import Fit, Window, search, search_blocks, thinned
from svfm_ros.slam.matching.keyframe_group import KeyframeGroup, keyframe_cloud
from svfm_ros.slam.matching.local_map import LocalMap, build_local_map
from svfm_ros.slam.matching.pose_covariance import information_with_floor, worst_variances
from svfm_ros.slam.matching.scan_matcher import refine, with_ambiguity
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import Constraint, MatchResult, Pose2

__all__ = ["LoopSearch"]

Array = NDArray[np.float64]

_SEARCH_POINTS = 150
_KNOWN_DISCOUNT = 0.1  # thresholds are this much lower where an earlier loop closure joins the two
_MARGIN = 0.1  # minimum difference of the total score to a match elsewhere, where the pose is unknown
_MAX_SPREAD_M = 0.15  # loops with a larger standard deviation are not used
_CERTAIN_SPREAD_M = 0.06  # the same where the pose is unknown
_MAX_BLOCKED = 0.25  # share of beams that may cross walls, where the pose is unknown: moved doors, people, clutter
_LOOK_M = 4.0  # radius in which other poses with a similar score are looked for
_SECTOR_RAD = 0.4  # half a sector of headings; each has a best match of its own
_RIVAL_SCORE, _MOST_RIVALS = 0.2, 8  # only matches within this score of the best are compared, and so many
_AGREEING, _AGREEING_JOINS = 1, 2  # earlier queries that must imply the same correction, within and between pieces
_CONFIRM_KEYFRAMES = 60  # largest distance of queries that confirm or contradict each other
_MOST_WAITING = 200  # unconfirmed loops that are kept
_MOST_CHECKED, _MIN_AROUND, _REACH_M = 10, 0.6, 25.0  # keyframes around a join; minimum of their median inlier share
_SAME_M, _SAME_RAD = 1.0, 0.2  # corrections that differ by less agree
_FLOOR = np.array([0.02, 0.02, 0.004])  # minimum standard deviations of a loop: m, m, rad


@dataclass(frozen=True, slots=True)
class _LoopMatch:
    """A verified candidate: its match, its total score and the pose it gives the query."""

    candidate: LoopCandidate
    match: MatchResult
    total: float  # coarse score plus share of inliers
    T_map_query: Pose2


class LoopSearch:
    """Finds loop constraints between the newest keyframes and old submaps."""

    def __init__(self, config: SlamConfig) -> None:
        self._config = config
        self._waiting: list[Constraint] = []  # unconfirmed loops with submaps of unknown pose
        self._placement = Placement()

    def find(self, view: MapView, submaps: tuple[Submap, ...], query: LoopQuery) -> list[Constraint]:
        """Loops with nearby submaps, or else with one of unknown pose; and perhaps one that joins another piece."""
        ids = np.arange(query.first, query.last)
        group = KeyframeGroup.around(view.pool, ids, view.poses, view.poses[query.anchor])
        if query.is_placement:
            return self._placement.find(view, group, query.anchor)
        cloud = group.cloud(self._config.range_max_m)
        tries = nearby_candidates(view, submaps, query, self._config)[: self._config.loop_candidates]
        near = [m for c in tries for m in self._match_nearby(view, cloud, c)]
        certain = [m for m in near if worst_variances(m.match.information)[0] <= _MAX_SPREAD_M**2]
        piece = view.pieces[query.anchor]
        far = [s for s in submaps if not near or view.pieces[s.span.anchor] != piece]
        tries = similar_candidates(view, tuple(far), query, cloud, self._config)[: self._config.loop_alike]
        found = _unambiguous(self._match_anywhere(view, group, cloud, tries))
        return [*(self._constraint(m, query) for m in certain), *self._confirmed(view, query, found)]

    def _match_nearby(self, view: MapView, cloud: Cloud, candidate: LoopCandidate) -> list[_LoopMatch]:
        """The best match in the candidate's window, if it passes the thresholds."""
        guess, target = candidate.guess, candidate.submap.target()
        discount = _KNOWN_DISCOUNT if candidate.known else 0.0
        window = Window(guess.T_map_scan, guess.reach_m, guess.turn_rad)
        fit = search(target.pyramid, _thinned(cloud), window, self._config.loop_min_score - discount)
        match = refine(cloud, target, fit.T_target_source) if fit else None
        if fit is None or match is None or match.inlier_ratio < self._config.loop_min_inliers - discount:
            return []
        return [_loop_match(view, cloud, candidate, target, match, fit.score + match.inlier_ratio)]

    def _match_anywhere(
        self, view: MapView, group: KeyframeGroup, cloud: Cloud, candidates: list[LoopCandidate]
    ) -> list[_LoopMatch]:
        """The best matches anywhere in the candidates, at every heading at which walls are parallel."""
        facing, best = facing_histogram(cloud.normals), 0.0
        matches: list[_LoopMatch] = []
        for candidate in candidates:
            target, guess = candidate.submap.target(), candidate.guess
            for headings in likely_headings(facing, candidate.submap.facing):
                centre = Pose2(guess.T_map_scan.x, guess.T_map_scan.y, headings.centre_rad)
                window = Window(centre, guess.reach_m, headings.half_rad)
                sectors = max(1, round(headings.half_rad / _SECTOR_RAD))
                least = max(self._config.loop_min_score, best - _RIVAL_SCORE)
                fits = search_blocks(
                    target.pyramid, _thinned(cloud), window, sectors, least, _RIVAL_SCORE, _MOST_RIVALS
                )
                best = max([best, *(fit.score for fit in fits)])
                matches += self._verified(view, group, cloud, candidate, target, fits)
        return matches

    def _verified(
        self,
        view: MapView,
        group: KeyframeGroup,
        cloud: Cloud,
        candidate: LoopCandidate,
        target: LocalMap,
        fits: list[Fit],
    ) -> list[_LoopMatch]:
        """The matches with enough inliers whose beams cross few walls."""
        matches: list[_LoopMatch] = []
        for fit in fits:
            match = refine(cloud, target, fit.T_target_source)
            if match.inlier_ratio < self._config.loop_min_inliers:
                continue
            blocked = group.blocked_share(target, match.T_target_source)
            if blocked <= _MAX_BLOCKED:
                total = fit.score + match.inlier_ratio - blocked
                matches.append(_loop_match(view, cloud, candidate, target, match, total))
        return matches

    def _confirmed(self, view: MapView, query: LoopQuery, found: list[_LoopMatch]) -> list[Constraint]:
        """The loop and those of earlier queries that agree with it, if they are enough and in the majority; else none.

        The pose graph can still reject a loop within a piece, by odometry. It has no odometry between two pieces: to
        join them, more loops must agree, and a larger part of both pieces must match.
        """
        if not found:
            return []
        new = self._constraint(found[0], query)
        joins = view.pieces[new.from_id] != view.pieces[new.to_id]
        rivals = [w for w in self._waiting if _concerns_the_same(view, w, new)]
        agreeing = [w for w in rivals if _agree(view, w, new)]
        is_enough = len(agreeing) >= (_AGREEING_JOINS if joins else _AGREEING)
        if is_enough and 2 * len(agreeing) > len(rivals) and (not joins or self._surroundings_match(view, new)):
            self._waiting = [w for w in self._waiting if w not in rivals]
            return [new, *agreeing]
        self._waiting = [*self._waiting[-_MOST_WAITING:], new]
        return []

    def _surroundings_match(self, view: MapView, loop: Constraint) -> bool:
        """Whether more of the query's piece matches the other piece, with few beams that would cross its walls."""
        other = np.flatnonzero(view.pieces == view.pieces[loop.from_id])
        own = np.flatnonzero(view.pieces == view.pieces[loop.to_id])
        own = own[np.abs(view.progress[own] - view.progress[loop.to_id]) <= self._config.submap_keyframes]
        T_other_own = _correction(view, loop).as_array()
        moved = view.poses.copy()
        moved[own] = geometry.compose(T_other_own, view.poses[own])
        centre = moved[loop.to_id]
        near_m = np.hypot(*(view.poses[other, :2] - centre[:2]).T)
        other = other[np.argsort(near_m)[: self._config.local_keyframes]]
        target = build_local_map(view.pool, view.poses, np.sort(other), centre, _REACH_M, other)
        matches = [
            refine(keyframe_cloud(view.pool, int(k)), target, Pose2.from_array(moved[k]))
            for k in own[:: max(1, len(own) // _MOST_CHECKED)]
        ]
        blocked = KeyframeGroup(view.pool, own, moved[own]).blocked_share(target, Pose2())
        return float(np.median([m.inlier_ratio for m in matches])) >= _MIN_AROUND and blocked <= _MAX_BLOCKED

    def _constraint(self, found: _LoopMatch, query: LoopQuery) -> Constraint:
        information = information_with_floor(found.match.information, _FLOOR)
        anchor = found.candidate.submap.span.anchor
        return Constraint(anchor, query.anchor, found.match.T_target_source, information, "loop")


def _thinned(cloud: Cloud) -> Array:
    return thinned(cloud.points, _SEARCH_POINTS)


def _loop_match(
    view: MapView, cloud: Cloud, candidate: LoopCandidate, target: LocalMap, match: MatchResult, total: float
) -> _LoopMatch:
    """The match with its covariance enlarged where other poses score as well, and the pose it gives the query."""
    match = with_ambiguity(match, cloud, target, candidate.guess, _LOOK_M)
    T_map_anchor = Pose2.from_array(view.poses[candidate.submap.span.anchor])
    return _LoopMatch(candidate, match, total, T_map_anchor @ match.T_target_source)


def _correction(view: MapView, loop: Constraint) -> Pose2:
    """The transform, in the map frame, that moves the end of the loop to where the loop puts it."""
    start, end = (Pose2.from_array(view.poses[k]) for k in (loop.from_id, loop.to_id))
    return start @ loop.T_from_to @ end.inverse()


def _concerns_the_same(view: MapView, one: Constraint, other: Constraint) -> bool:
    """Whether two loops are between the same pieces, and their queries lie close together on the path."""
    pieces = view.pieces
    same = pieces[one.from_id] == pieces[other.from_id] and pieces[one.to_id] == pieces[other.to_id]
    return bool(same and 0 < abs(one.to_id - other.to_id) <= _CONFIRM_KEYFRAMES)


def _agree(view: MapView, one: Constraint, other: Constraint) -> bool:
    """Whether two loops give the end of the second the same pose."""
    end = Pose2.from_array(view.poses[other.to_id])
    gap = (_correction(view, one) @ end).inverse() @ (_correction(view, other) @ end)
    return bool(np.hypot(gap.x, gap.y) <= _SAME_M and abs(gap.theta) <= _SAME_RAD)


def _unambiguous(matches: list[_LoopMatch]) -> list[_LoopMatch]:
    """The best match, if its covariance is small and no match elsewhere scores nearly as well; else none."""
    if not matches:
        return []
    best = max(matches, key=lambda m: m.total)
    if worst_variances(best.match.information)[0] > _CERTAIN_SPREAD_M**2:
        return []
    for other in matches:
        gap = best.T_map_query.inverse() @ other.T_map_query
        elsewhere = np.hypot(gap.x, gap.y) > _SAME_M or abs(gap.theta) > _SAME_RAD
        if elsewhere and other.total > best.total - _MARGIN:
            return []
    return [best]
