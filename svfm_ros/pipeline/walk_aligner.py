"""Align walks that were recorded in a map of their own with the walks of a store.

The map of a new session has its origin where the first scan was taken. Without alignment the model would be trained on
walks in two frames. No ROS in here.
"""

import numpy as np

from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks.align import align_walks
from svfm_ros.walks.reference_map import ReferenceMap
from svfm_ros.walks.walk_store import WalkStore

__all__ = ["WalkAligner"]

_MOST_WALKS = 40  # of the store, from which the reference map is made; more of them show the same walls again
_MOST_WAITING = 5  # refused walks that are tried again after another walk has extended the reference map


class WalkAligner:
    """Aligns new walks with a reference map of the house, made of the aligned walks of a store."""

    def __init__(self, store: WalkStore) -> None:
        self._store = store
        self._house: ReferenceMap | None = None
        self._waiting: list[Walk] = []

    def align(self, walk: Walk) -> list[Alignment]:
        """The walk's alignment, accepted or not; then those of walks refused before that are accepted now."""
        if self._house is None:
            self._house = _house_of(self._store)
        if self._house is None:
            reason = "the store has no aligned walk with points of the house's walls"
            return [Alignment(walk.walk_id, Pose2(), None, False, reason)]
        tried = [walk, *self._waiting]
        found = align_walks(tried, self._house, extend=True)
        self._house = found.reference
        accepted = {a.walk_id for a in found.alignments if a.accepted}
        self._waiting = [w for w in tried if w.walk_id not in accepted][:_MOST_WAITING]
        return [found.alignments[0], *(a for a in found.alignments[1:] if a.accepted)]


def _house_of(store: WalkStore) -> ReferenceMap | None:
    """The reference map of the aligned walks of a store; None where they have no points."""
    known = store.ids_by_alignment(accepted=True)
    house: ReferenceMap | None = None
    for i in np.unique(np.linspace(0, len(known) - 1, min(len(known), _MOST_WALKS)).astype(int)):
        alignment = store.alignment(known[i])
        if alignment is None:  # deleted meanwhile
            continue
        walk = store.load(known[i]).placed(alignment.T_house_walk)
        if len(walk.points):
            house = ReferenceMap.from_walk(walk) if house is None else house.extended(walk)
    return house
