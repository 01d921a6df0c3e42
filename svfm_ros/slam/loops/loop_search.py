"""Loop closure: is the sensor back where it was before?

The last few keyframes together form the question: several scans from several spots are far harder to mistake for
another place than one scan is. Each candidate submap answers with its best fit; a fine fit and a list of checks decide.
All of it is a pure function of a view of the map, so it can run beside the online path.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.loop_candidates import Candidate, Query, alike, near_by
from svfm_ros.slam.loops.submap import Submap
from svfm_ros.slam.matching.correlative import Window, search_sectors, thinned
from svfm_ros.slam.matching.local_map import merged_cloud
from svfm_ros.slam.matching.pose_covariance import doubt_of, information_with_floor
from svfm_ros.slam.matching.scan_matcher import honest, refine
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import Constraint, MatchResult, Pose2

__all__ = ["LoopSearch"]

Array = NDArray[np.float64]

_SEARCH_POINTS = 150
_CELL_M = 0.1  # the query's points are merged by cells of this size
_EASE = 0.1  # so much less does a closure need to convince where one led before
_CLEARLY = 0.1  # by so much must a place found by its looks fit better than any other place
_VAGUE_M = 0.15  # closures with a larger standard deviation tell little and mislead easily
_SHARP_M = 0.06  # one found by looks has to be this sharp
_LOOK_M = 4.0  # how far to look for other places that fit
_SECTORS = 8
_WAIT_KEYFRAMES = 30  # an unconfirmed answer is forgotten after so many keyframes
_SAME_PLACE_M, _SAME_TURN_RAD = 1.0, 0.3
_FLOOR = np.array([0.02, 0.02, 0.004])  # no closure is trusted more than this: m, m, rad


@dataclass(frozen=True, slots=True)
class _Answer:
    """A candidate that passed: its match, its merit, and where in the map it puts the query."""

    candidate: Candidate
    match: MatchResult
    merit: float
    T_map_query: Pose2


@dataclass(frozen=True, slots=True)
class _Claim:
    """What an answer by looks asks for: that the newest stretch be moved so."""

    anchor: int
    move: Pose2  # new map pose of a keyframe = move @ old one


class LoopSearch:
    """Finds constraints between the newest keyframes and old submaps."""

    def __init__(self, config: SlamConfig) -> None:
        self._config = config
        self._waiting: list[_Claim] = []

    def find(self, view: MapView, submaps: tuple[Submap, ...], query: Query) -> list[Constraint]:
        """All accepted closures, nearest submaps first; if there is none, perhaps one by looks."""
        cloud = self._cloud(view, query)
        tries = near_by(view, submaps, query, self._config)[: self._config.loop_candidates]
        found = [a for c in tries for a in self._ask(view, cloud, c, sectors=1)]
        if not found:
            tries = alike(view, submaps, query, cloud, self._config)[: self._config.loop_alike]
            found = _clear_winner([a for c in tries for a in self._ask(view, cloud, c, sectors=_SECTORS)])
            found = self._confirmed(view, query, found)
        return [self._constraint(a, query) for a in found if doubt_of(a.match.information)[0] <= _VAGUE_M**2]

    def _cloud(self, view: MapView, query: Query) -> Cloud:
        """Points of the query's keyframes in the frame of its anchor."""
        relative = geometry.relative(view.poses[query.anchor], view.poses[: query.last])
        ids = np.arange(query.first, query.last)
        return merged_cloud(view.pool, relative, ids, np.zeros(2), self._config.range_max_m, _CELL_M)

    def _ask(self, view: MapView, cloud: Cloud, candidate: Candidate, sectors: int) -> list[_Answer]:
        """The best fits in the candidate's window, one from each sector of the turn, if they convince."""
        guess, target, ease = candidate.guess, candidate.submap.target(), _EASE if candidate.known else 0.0
        window = Window(guess.T_map_scan, guess.reach_m, guess.turn_rad)
        points = thinned(cloud.points, _SEARCH_POINTS)
        T_map_anchor = Pose2.from_array(view.poses[candidate.submap.span.anchor])
        answers: list[_Answer] = []
        for fit in search_sectors(target.pyramid, points, window, sectors, self._config.loop_min_score - ease):
            match = refine(cloud, target, fit.T_target_source)
            if match.inlier_ratio < self._config.loop_min_inliers - ease:
                continue
            match, merit = honest(match, cloud, target, guess, _LOOK_M), fit.score + match.inlier_ratio
            answers.append(_Answer(candidate, match, merit, T_map_anchor @ match.T_target_source))
        return answers

    def _confirmed(self, view: MapView, query: Query, found: list[_Answer]) -> list[_Answer]:
        """An answer by looks is kept waiting until one to a later question says the same."""
        here = Pose2.from_array(view.poses[query.anchor])
        claims = [_Claim(query.anchor, a.T_map_query @ here.inverse()) for a in found]
        agreed = [c for c in claims if any(_agree(c, w, here) for w in self._waiting)]
        fresh = [w for w in self._waiting if query.anchor - w.anchor <= _WAIT_KEYFRAMES]
        self._waiting = [] if agreed else fresh + claims
        return found if agreed else []

    def _constraint(self, answer: _Answer, query: Query) -> Constraint:
        information = information_with_floor(answer.match.information, _FLOOR)
        anchor = answer.candidate.submap.span.anchor
        return Constraint(anchor, query.anchor, answer.match.T_target_source, information, "loop")


def _agree(one: _Claim, other: _Claim, here: Pose2) -> bool:
    """Whether two claims put the same keyframe at the same place."""
    gap = (one.move @ here).inverse() @ (other.move @ here)
    apart = np.hypot(gap.x, gap.y) > _SAME_PLACE_M or abs(gap.theta) > _SAME_TURN_RAD
    return one.anchor != other.anchor and not bool(apart)


def _clear_winner(answers: list[_Answer]) -> list[_Answer]:
    """The best answer, if it is sharp, and no other puts the query elsewhere and is nearly as good.

    Corridors look alike, and along a corridor any place does.
    """
    if not answers:
        return []
    best = max(answers, key=lambda a: a.merit)
    if doubt_of(best.match.information)[0] > _SHARP_M**2:
        return []
    for other in answers:
        gap = best.T_map_query.inverse() @ other.T_map_query
        elsewhere = np.hypot(gap.x, gap.y) > _SAME_PLACE_M or abs(gap.theta) > _SAME_TURN_RAD
        if elsewhere and other.merit > best.merit - _CLEARLY:
            return []
    return [best]
