"""Which old submaps are worth a look? Those that drift may have brought near, and, where drift is no guide, the alike.

Drift grows with the way walked and with every step that was ambiguous. Where it may have grown beyond what a window can
cover, or where the way is broken because tracking was lost, all of a submap is searched, at any turn, the most alike
submaps first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import MapView
from svfm_ros.slam.loops.signatures import likeness, signatures
from svfm_ros.slam.loops.submap import Submap
from svfm_ros.slam.matching.scan_matcher import Guess
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import Pose2

__all__ = ["Candidate", "Query", "alike", "near_by"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_KNOWN_M, _KNOWN_RAD = 0.5, 0.2  # how far off a place may be that a loop closure led to before
_LATELY = 20  # keyframes over which doubt may have grown since such a closure
_DRIFT_PER_M, _DRIFT_RAD_PER_M = 0.01, 0.002
_MOST_REACH_M, _MOST_TURN_RAD = 8.0, 1.5  # with more drift than this, position says nothing
_SIDE_M = 2.0  # a place may be recognised from so far beside the old path
_WHOLE_SUBMAP_M = 12.0  # no submap is searched farther from its middle than this


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
    known: bool  # a loop closure led there before
    order: float  # smaller is tried earlier


@dataclass(frozen=True, slots=True)
class _Drift:
    """How far off the query may be, as seen from a submap."""

    reach_m: float
    turn_rad: float
    known: bool

    def is_a_guide(self) -> bool:
        return self.reach_m <= _MOST_REACH_M and self.turn_rad <= _MOST_TURN_RAD


def near_by(view: MapView, submaps: tuple[Submap, ...], query: Query, config: SlamConfig) -> list[Candidate]:
    """Submaps that the query may lie inside, nearest first."""
    found: list[Candidate] = []
    here = view.poses[query.anchor]
    for submap in _old(view, submaps, query, config):
        span, drift = submap.span, _drift(view, query, submap)
        gap_m = float(np.hypot(*(view.poses[span.first : span.last, :2] - here[:2]).T).min())
        if not drift.is_a_guide() or gap_m > drift.reach_m + _SIDE_M:
            continue
        T_anchor_query = Pose2.from_array(geometry.relative(view.poses[span.anchor], here))
        found.append(Candidate(submap, _flat(T_anchor_query, drift.reach_m, drift.turn_rad), drift.known, gap_m))
    return sorted(found, key=lambda c: c.order)


def alike(
    view: MapView, submaps: tuple[Submap, ...], query: Query, cloud: Cloud, config: SlamConfig
) -> list[Candidate]:
    """Submaps for which position is no guide, most alike first; they are to be searched as a whole."""
    found: list[Candidate] = []
    own: Array | None = None
    for submap in _old(view, submaps, query, config):
        if _drift(view, query, submap).is_a_guide():
            continue
        own = signatures(cloud.points, np.zeros((1, 2)))[0] if own is None else own
        span = submap.span
        path = geometry.relative(view.poses[span.anchor], view.poses[span.first : span.last])[:, :2]
        middle = path.mean(axis=0)
        reach_m = min(float(np.hypot(*(path - middle).T).max()) + _SIDE_M, _WHOLE_SUBMAP_M)
        guess = _flat(Pose2(float(middle[0]), float(middle[1]), 0.0), reach_m, float(np.pi))
        found.append(Candidate(submap, guess, False, -likeness(own, submap.signatures)))
    return sorted(found, key=lambda c: c.order)


def _old(view: MapView, submaps: tuple[Submap, ...], query: Query, config: SlamConfig) -> list[Submap]:
    """Submaps from before the local map's time."""
    newest = view.progress[query.first] - config.local_keyframes / 2.0
    return [s for s in submaps if view.progress[s.span.last - 1] < newest]


def _flat(T_anchor_query: Pose2, reach_m: float, turn_rad: float) -> Guess:
    return Guess(T_anchor_query, reach_m, turn_rad, reach_m, turn_rad)


def _drift(view: MapView, query: Query, submap: Submap) -> _Drift:
    span, at = submap.span, query.anchor
    if np.any((query.near >= span.first) & (query.near < span.last)):
        lately_m, lately_rad = _doubt(view, max(0, at - _LATELY), at)
        return _Drift(_KNOWN_M + lately_m, _KNOWN_RAD + lately_rad, lately_m < _KNOWN_M)
    if view.islands[at] != view.islands[span.anchor]:
        return _Drift(np.inf, np.pi, False)
    walk_m = float(view.walked_m[at] - view.walked_m[span.last - 1])
    doubt_m, doubt_rad = _doubt(view, span.last - 1, at)
    reach_m = _KNOWN_M + _DRIFT_PER_M * walk_m + doubt_m
    return _Drift(reach_m, _KNOWN_RAD + _DRIFT_RAD_PER_M * walk_m + doubt_rad, False)


def _doubt(view: MapView, first: int, last: int) -> tuple[float, float]:
    """Two standard deviations of the way from one keyframe to a later one, by its ambiguous steps: m and rad."""
    place, turn = 2.0 * np.sqrt(np.maximum(view.doubts[last] - view.doubts[first], 0.0))
    return float(place), float(turn)
