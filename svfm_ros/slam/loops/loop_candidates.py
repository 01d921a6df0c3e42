"""Loop-closure candidates: submaps near the current pose within its drift, and submaps with a similar signature.

Drift grows with the length of the path and with every ambiguous step. Where it exceeds the largest search window, or
where tracking was lost in between, whole submaps are searched at any heading, the most similar ones first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.submap import Submap, signatures, similarity
from svfm_ros.slam.matching.scan_matcher import Guess
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import Pose2

__all__ = ["LoopCandidate", "LoopQuery", "nearby_candidates", "similar_candidates"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_KNOWN_M, _KNOWN_RAD = 0.5, 0.2  # search window where an earlier loop closure joins query and submap already
_RECENT = 20  # keyframes over which the variance may have grown since that closure
_DRIFT_PER_M, _DRIFT_RAD_PER_M = 0.01, 0.002
_MOST_REACH_M, _MOST_TURN_RAD = 8.0, 1.5  # with more drift than this, the pose does not limit the search
_SIDE_M = 2.0  # largest lateral distance to the old path
_WHOLE_SUBMAP_M = 12.0  # largest half size of the search window in a submap


@dataclass(frozen=True, slots=True)
class LoopQuery:
    """Keyframes ``first`` to ``last`` (excluded) to search for; ``near`` are keyframes linked to them."""

    first: int
    last: int
    near: Ints
    is_placement: bool = False  # of a chain that began at an unknown pose: searched for in the whole map

    @property
    def anchor(self) -> int:
        """The keyframe that a constraint refers to."""
        return (self.first + self.last) // 2


@dataclass(frozen=True, slots=True)
class LoopCandidate:
    """A submap and the search window; ``guess`` is the query's pose in the frame of the submap's anchor."""

    submap: Submap
    guess: Guess
    known: bool  # joined by an earlier loop closure
    order: float  # smaller is searched first


@dataclass(frozen=True, slots=True)
class _Drift:
    """Bounds of the query's pose error relative to a submap."""

    reach_m: float
    turn_rad: float
    known: bool

    def is_bounded(self) -> bool:
        return self.reach_m <= _MOST_REACH_M and self.turn_rad <= _MOST_TURN_RAD


def nearby_candidates(
    view: MapView, submaps: tuple[Submap, ...], query: LoopQuery, config: SlamConfig
) -> list[LoopCandidate]:
    """Submaps that the query may overlap, nearest first."""
    found: list[LoopCandidate] = []
    here = view.poses[query.anchor]
    for submap in _old(view, submaps, query, config):
        span, drift = submap.span, _drift(view, query, submap)
        gap_m = float(np.hypot(*(view.poses[span.first : span.last, :2] - here[:2]).T).min())
        if not drift.is_bounded() or gap_m > drift.reach_m + _SIDE_M:
            continue
        T_anchor_query = Pose2.from_array(geometry.relative(view.poses[span.anchor], here))
        found.append(LoopCandidate(submap, _uniform(T_anchor_query, drift.reach_m, drift.turn_rad), drift.known, gap_m))
    return sorted(found, key=lambda c: c.order)


def similar_candidates(
    view: MapView, submaps: tuple[Submap, ...], query: LoopQuery, cloud: Cloud, config: SlamConfig
) -> list[LoopCandidate]:
    """Submaps whose relative pose is unknown, most similar first; they are searched as a whole."""
    found: list[LoopCandidate] = []
    own: Array | None = None
    for submap in _old(view, submaps, query, config):
        if _drift(view, query, submap).is_bounded():
            continue
        own = signatures(cloud.points, np.zeros((1, 2)))[0] if own is None else own
        span = submap.span
        path = geometry.relative(view.poses[span.anchor], view.poses[span.first : span.last])[:, :2]
        middle = path.mean(axis=0)
        reach_m = min(float(np.hypot(*(path - middle).T).max()) + _SIDE_M, _WHOLE_SUBMAP_M)
        guess = _uniform(Pose2(float(middle[0]), float(middle[1]), 0.0), reach_m, float(np.pi))
        found.append(LoopCandidate(submap, guess, False, -similarity(own, submap.signatures)))
    return sorted(found, key=lambda c: c.order)


def _old(view: MapView, submaps: tuple[Submap, ...], query: LoopQuery, config: SlamConfig) -> list[Submap]:
    """Submaps that are older than the local map, and all of other pieces."""
    newest, piece = view.progress[query.first] - config.local_keyframes / 2.0, view.pieces[query.anchor]
    return [s for s in submaps if view.progress[s.span.last - 1] < newest or view.pieces[s.span.anchor] != piece]


def _uniform(T_anchor_query: Pose2, reach_m: float, turn_rad: float) -> Guess:
    return Guess(T_anchor_query, reach_m, turn_rad, reach_m, turn_rad)


def _drift(view: MapView, query: LoopQuery, submap: Submap) -> _Drift:
    span, at = submap.span, query.anchor
    if np.any((query.near >= span.first) & (query.near < span.last)):
        recent_m, recent_rad = _two_sigma(view, max(0, at - _RECENT), at)
        return _Drift(_KNOWN_M + recent_m, _KNOWN_RAD + recent_rad, recent_m < _KNOWN_M)
    if view.pieces[at] != view.pieces[span.anchor]:
        return _Drift(np.inf, np.pi, False)
    walk_m = float(view.walked_m[at] - view.walked_m[span.last - 1])
    sigma_m, sigma_rad = _two_sigma(view, span.last - 1, at)
    reach_m = _KNOWN_M + _DRIFT_PER_M * walk_m + sigma_m
    return _Drift(reach_m, _KNOWN_RAD + _DRIFT_RAD_PER_M * walk_m + sigma_rad, False)


def _two_sigma(view: MapView, first: int, last: int) -> tuple[float, float]:
    """Two standard deviations of the motion from one keyframe to a later one, from its ambiguous steps: m and rad."""
    position, heading = 2.0 * np.sqrt(np.maximum(view.variances[last] - view.variances[first], 0.0))
    return float(position), float(heading)
