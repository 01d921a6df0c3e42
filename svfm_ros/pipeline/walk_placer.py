"""Where in the house a walk was that was recorded in a map of its own: laid onto what placed walks of the store saw.

The map of a new session begins wherever its first scan was taken. Were its walks taken as they are, the model would
learn from two houses laid over each other. No ROS in here.
"""

import numpy as np

from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks.align import align_walks
from svfm_ros.walks.reference_map import ReferenceMap
from svfm_ros.walks.walk_store import WalkStore

__all__ = ["WalkPlacer"]

_MOST_WALKS = 40  # that tell what the house looks like; more of them see the same walls again
_MOST_WAITING = 5  # refused walks that are tried again when another one has shown more of the house


class WalkPlacer:
    """Knows the house by the walks that have a place in it already."""

    def __init__(self, store: WalkStore) -> None:
        self._store = store
        self._house: ReferenceMap | None = None
        self._waiting: list[Walk] = []

    def place(self, walk: Walk) -> list[Alignment]:
        """Where the walk was, or why that cannot be told; with it what became of walks that were refused before."""
        if self._house is None:
            self._house = _house_of(self._store)
        if self._house is None:
            reason = "no walk with a place in the house has seen its walls"
            return [Alignment(walk.walk_id, Pose2(), None, False, reason)]
        tried = [walk, *self._waiting]
        found = align_walks(tried, self._house, extend=True)
        self._house = found.reference
        accepted = {a.walk_id for a in found.alignments if a.accepted}
        self._waiting = [w for w in tried if w.walk_id not in accepted][:_MOST_WAITING]
        return [found.alignments[0], *(a for a in found.alignments[1:] if a.accepted)]


def _house_of(store: WalkStore) -> ReferenceMap | None:
    """The walls that placed walks saw; None where no placed walk saw any."""
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
