"""The pose of a chain that began at an unknown pose: its newest keyframes are searched for in the whole map.

Loop closures would join it to the map as well, yet only after many metres; walks at home are short.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.slam.keyframes import Keyframes, MapView, relocalisation_constraint
from svfm_ros.slam.loops.loop_candidates import LoopQuery
from svfm_ros.slam.loops.relocalise import GlobalMatch, find_pose, is_same
from svfm_ros.slam.matching.keyframe_group import KeyframeGroup
from svfm_ros.slam.matching.local_map import build_whole_map
from svfm_ros.types import Constraint, Pose2

__all__ = ["Placement", "UnplacedChain"]

_FIRST_M, _LEAST_M, _MOST_M = 0.5, 0.25, 2.0  # path before the first search, least and greatest path between two
_KEYFRAMES = 12  # newest keyframes that are searched for together
_AGREEING_SEARCHES = 3  # that confirm a pose which is not unambiguous by itself


@dataclass(slots=True)
class UnplacedChain:
    """The newest chain, while its pose in the map is unknown, and the path length at which it is searched for next."""

    start: int  # its first keyframe
    search_at_m: float = _FIRST_M

    def is_joined(self, keyframes: Keyframes) -> bool:
        """Whether loops join it to older keyframes."""
        pieces = keyframes.pieces
        return bool(np.any(pieces[: self.start] == pieces[self.start]))

    def query(self, keyframes: Keyframes) -> LoopQuery | None:
        """The newest keyframes, where a search is due."""
        k = len(keyframes) - 1
        walked_m = float(keyframes.walked_m[k] - keyframes.walked_m[self.start])
        if walked_m < self.search_at_m:
            return None
        self.search_at_m = walked_m + min(max(walked_m / 2.0, _LEAST_M), _MOST_M)
        first = max(self.start, k + 1 - _KEYFRAMES)
        return LoopQuery(first, k + 1, np.arange(first, k + 1), is_placement=True)


class Placement:
    """Searches for one chain after another; earlier searches for the same chain count."""

    def __init__(self) -> None:
        self._chain_start = -1
        self._earlier: list[Pose2] = []  # corrections of the chain's poses, T_map_chain

    def find(self, view: MapView, group: KeyframeGroup, anchor: int) -> list[Constraint]:
        """The constraint from the largest other piece of the map to keyframe ``anchor``, if its pose is certain."""
        old = _largest_other_piece(view, anchor)
        if not len(old):
            return []
        found = find_pose(group, build_whole_map(view.pool, view.poses, old))
        if found is None or not (self._is_confirmed(view, found, anchor) or found.is_accepted):
            return []
        return [relocalisation_constraint(view.poses, old, anchor, found.match)]

    def _is_confirmed(self, view: MapView, found: GlobalMatch, anchor: int) -> bool:
        """Whether earlier searches for this chain gave the same pose, and it is good enough."""
        start = int(np.argmax(view.pieces == view.pieces[anchor]))
        if start != self._chain_start:
            self._chain_start, self._earlier = start, []
        T_chain_anchor, T_map_anchor = Pose2.from_array(view.poses[anchor]), found.match.T_target_source
        self._earlier = [p for p in self._earlier if is_same(p @ T_chain_anchor, T_map_anchor)]
        self._earlier.append(T_map_anchor @ T_chain_anchor.inverse())
        return found.is_plausible and len(self._earlier) >= _AGREEING_SEARCHES


def _largest_other_piece(view: MapView, anchor: int) -> NDArray[np.int64]:
    """Keyframes of the largest piece that the keyframe does not belong to."""
    others = view.pieces[view.pieces != view.pieces[anchor]]
    return np.flatnonzero(view.pieces == np.argmax(np.bincount(others))) if len(others) else np.empty(0, dtype=np.int64)
