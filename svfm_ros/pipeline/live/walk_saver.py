"""Stores finished walks and aligns them with the frame of the house, in a thread of its own."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from svfm_ros.errors import StoreUnavailableError, SvfmError
from svfm_ros.pipeline.live.state_folder import make_private_folder
from svfm_ros.pipeline.live.worker import Worker
from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks.walk_store import WalkStore, is_store

if TYPE_CHECKING:
    from svfm_ros.walks.reference_map import ReferenceMap

__all__ = ["WalkSaver"]

_MAX_WAITING = 1000  # walks
_RETRY_S = 5.0  # until a store that could not be written to is tried again
_MOST_WALKS = 40  # of the store, from which the reference map is made; more of them show the same walls again
_MOST_WAITING = 5  # refused walks that are tried again after another walk has extended the reference map
_FIRST_SESSION = "recorded while the house's map was made"
_HOUSE_MAP = "recorded on the house's own map"
_MOVED_MAP = "recorded on a map that was aligned with the house"
_AGREE_M, _AGREE_RAD = 0.3, 0.1  # of two walks on the same map, aligned one by one


@dataclass(frozen=True, slots=True)
class _Job:
    """A walk to save, why it needs no alignment (empty: it does), and the map that it is on."""

    walk: Walk
    reason: str
    map_number: int


class WalkSaver:
    """Writes walks to the store, aligns them, then calls ``on_saved`` with each: a walk that is announced is on disk.

    ``frame`` is that of the walks. ``on_given_map``: it belongs to a map that was given; ``resumed``: mapping goes on
    with the saved map of the house. In both cases walks need no alignment. Otherwise the first session with an empty
    store defines the frame of the house, and walks of later sessions are aligned with the walks of the store. When two
    walks on the same map agree on its pose in the house, ``T_house_map`` returns it.

    Where the disk is full, or the store cannot be written to for another reason, walks wait until it can.
    """

    def __init__(
        self,
        store: str,
        frame: str,
        *,
        on_given_map: bool,
        resumed: bool = False,
        on_saved: Callable[[Walk], None] = lambda _walk: None,
        log: Callable[[str], None] = lambda _line: None,
        on_error: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        self._store = _open_store(store, frame)
        self._on_saved, self._log, self._on_error = on_saved, log, on_error
        self._aligner: WalkAligner | None = None
        self._on_given_map = on_given_map
        is_house = self._store is None or self._store.frame == frame
        self._reason = _HOUSE_MAP if on_given_map or resumed else _FIRST_SESSION
        self.in_house_frame = is_house and (on_given_map or resumed or not self._store)
        self.saved = self.duplicates = self.unaligned = 0
        self.problem = ""
        self._in_same_frame = is_house
        self._map_number = 0
        self._found: tuple[int, Pose2, bool] | None = None  # number of the map, T_house_map, whether two walks agree
        self._waiting: deque[_Job] = deque(maxlen=_MAX_WAITING)
        self._unaligned_id: str | None = None  # of a walk that is stored, but its alignment is not
        self._retry = threading.Timer(0.0, lambda: None)
        self._worker: Worker[Callable[[], None]] = Worker(
            "save walks", lambda work: work(), capacity=_MAX_WAITING, on_error=self._report
        )
        self._worker.put(self._align_leftovers)

    def save(self, walk: Walk) -> None:
        """Hand over a walk; returns at once."""
        job = _Job(walk, self._reason if self.in_house_frame else "", self._map_number)
        self._worker.put(partial(self._take, job))

    def new_map(self) -> None:
        """Later walks are on a new map, in a frame of its own unless a map was given or the store is empty."""
        self._map_number += 1
        if not self._on_given_map:
            first = self._store is not None and not self._store
            self.in_house_frame, self._reason = first, _FIRST_SESSION

    @property
    def T_house_map(self) -> Pose2 | None:
        """Where the current map, which has a frame of its own, is in the house; None until two walks on it agree."""
        found = self._found
        if self.in_house_frame or not self._in_same_frame or found is None:
            return None
        number, T_house_map, agreed = found
        return T_house_map if agreed and number == self._map_number else None

    def map_was_moved(self) -> None:
        """Later walks are on the current map, moved by ``T_house_map``: they are in the frame of the house."""
        self._map_number += 1
        self.in_house_frame, self._reason = True, _MOVED_MAP

    def close(self) -> None:
        """Save the walks that wait, then stop."""
        self._retry.cancel()
        self._worker.put(self._save_waiting)
        self._worker.stop(timeout_s=10.0, finish=True)

    def _take(self, job: _Job) -> None:
        self._waiting.append(job)
        self._save_waiting()

    def _save_waiting(self) -> None:
        """Save all walks that wait, in order, as far as the store can be written to."""
        while self._waiting:
            try:
                self._save(self._waiting[0])
            except StoreUnavailableError as error:
                self._report(error)
                self._try_again_later()
                return
            except Exception as error:  # the walk itself will not do
                self._report(error)
            self._waiting.popleft()

    def _try_again_later(self) -> None:
        self._retry.cancel()
        self._retry = threading.Timer(_RETRY_S, self._worker.put, [self._save_waiting])
        self._retry.daemon = True
        self._retry.start()

    def _align_leftovers(self) -> None:
        """Align walks that an earlier process stored but did not align before it ended."""
        for walk_id in self._store.ids_by_alignment(None) if self._store is not None else ():
            if self._store is not None:
                self._align(self._store, self._store.load(walk_id), "")

    def _save(self, job: _Job) -> None:
        walk, store = job.walk, self._store
        if store is not None and walk.walk_id != self._unaligned_id:
            if _is_stored(store, walk):
                self.duplicates += 1
                self._log(f"walk {walk.walk_id} is stored already")
                return
            self._unaligned_id = walk.walk_id if store.add(walk) else None
        if store is not None and self._unaligned_id is not None:
            alignment = self._align(store, walk, job.reason)
            self._unaligned_id = None
            if alignment.accepted and not job.reason:
                self._compare(walk, alignment.T_house_walk, job.map_number)
        self.saved += 1
        self.problem = ""
        self._log(f"walk {walk.walk_id}: {walk.times_s[-1]:.1f} s")
        self._on_saved(walk)

    def _compare(self, walk: Walk, T_house_map: Pose2, map_number: int) -> None:
        """Note where the map is in the house, and whether the previous walk on the same map agrees."""
        agreed = False
        if self._found is not None and self._found[0] == map_number:
            before = self._found[1]
            apart_m = np.linalg.norm(T_house_map.apply(walk.xy) - before.apply(walk.xy), axis=1).max()
            turned_rad = abs((before.inverse() @ T_house_map).theta)
            agreed = bool(apart_m <= _AGREE_M) and turned_rad <= _AGREE_RAD
        self._found = map_number, T_house_map, agreed

    def _align(self, store: WalkStore, walk: Walk, reason: str) -> Alignment:
        """Store the identity where ``reason`` says why no alignment is needed, else the alignment with the house."""
        if reason:
            identity = Alignment(walk.walk_id, Pose2(), None, True, reason)
            store.set_alignment(identity)
            return identity
        self._aligner = self._aligner or WalkAligner(store)
        alignments = self._aligner.align(walk)
        store.set_alignments(alignments)
        self.unaligned += not alignments[0].accepted
        for alignment in alignments:
            result = "is aligned with the house" if alignment.accepted else "could not be aligned with the house"
            self._log(f"walk {alignment.walk_id} {result}: {alignment.reason}")
        return alignments[0]

    def _report(self, error: Exception) -> None:
        self.problem = f"a walk was not saved: {error}"
        self._on_error(error)


def _open_store(store: str, frame: str) -> WalkStore | None:
    """The store at that path; a new one gets the frame of the walks."""
    if not store:
        return None
    path = Path(store).expanduser()
    make_private_folder(path)
    if is_store(path):
        return WalkStore.open(path)
    try:
        return WalkStore.create(path, frame)
    except SvfmError:
        if not is_store(path):
            raise
        return WalkStore.open(path)  # another wearable that started at the same time made it


def _is_stored(store: WalkStore, walk: Walk) -> bool:
    """Whether the store has a walk of the same person at the same time: the same recording was replayed before."""
    first_ns, last_ns = int(walk.stamps_ns[0]), int(walk.stamps_ns[-1])
    mine = (e for e in store.entries if e.resident == walk.resident)
    return any(e.start_ns <= last_ns and first_ns <= e.end_ns for e in mine)


class WalkAligner:
    """Aligns new walks with a reference map of the house, made of the aligned walks of a store.

    The map of a new session has its origin where the first scan was taken. Without alignment the model would be
    trained on walks in two frames.
    """

    def __init__(self, store: WalkStore) -> None:
        self._store = store
        self._house: ReferenceMap | None = None
        self._waiting: list[Walk] = []

    def align(self, walk: Walk) -> list[Alignment]:
        """The walk's alignment, accepted or not; then those of walks refused before that are accepted now."""
        if self._house is None:
            from svfm_ros.walks.reference_map import map_of_store

            self._house = map_of_store(self._store, _MOST_WALKS)
        if self._house is None:
            reason = "the store has no aligned walk with points of the house's walls"
            return [Alignment(walk.walk_id, Pose2(), None, False, reason)]
        from svfm_ros.walks.align import align_walks  # imports SciPy

        tried = [walk, *self._waiting]
        found = align_walks(tried, self._house, extend=True)
        self._house = found.reference
        accepted = {a.walk_id for a in found.alignments if a.accepted}
        self._waiting = [w for w in tried if w.walk_id not in accepted][:_MOST_WAITING]
        return [found.alignments[0], *(a for a in found.alignments[1:] if a.accepted)]
