"""Stores finished walks and aligns them with the frame of the house, in a thread of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from svfm_ros.pipeline.live.state_folder import make_private_folder
from svfm_ros.pipeline.live.worker import Worker
from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks.walk_store import WalkStore, is_store

if TYPE_CHECKING:
    from svfm_ros.pipeline.walk_aligner import WalkAligner

__all__ = ["WalkSaver"]

_MAX_WAITING = 1000  # walks
_FIRST_SESSION = "recorded while the house's map was made"
_HOUSE_MAP = "recorded on the house's own map"


class WalkSaver:
    """Writes walks to the store, aligns them, then calls ``on_saved`` with each: a walk that is announced is on disk.

    ``frame`` is that of the walks. ``on_given_map``: it belongs to a map that was given; ``resumed``: mapping goes on
    with the saved map of the house. In both cases walks need no alignment. Otherwise the first session with an empty
    store defines the frame of the house, and walks of later sessions are aligned with the walks of the store.
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
        self._worker: Worker[tuple[Walk, str] | None] = Worker(
            "save walks", self._handle, capacity=_MAX_WAITING, on_error=self._report
        )
        self._worker.put(None)

    def save(self, walk: Walk) -> None:
        """Hand over a walk; returns at once."""
        self._worker.put((walk, self._reason if self.in_house_frame else ""))

    def new_map(self) -> None:
        """Later walks are on a new map, in a frame of its own unless a map was given or the store is empty."""
        if not self._on_given_map:
            self.in_house_frame, self._reason = not self._store, _FIRST_SESSION

    def close(self) -> None:
        """Save the walks that wait, then stop."""
        self._worker.stop(timeout_s=10.0, finish=True)

    def _handle(self, item: tuple[Walk, str] | None) -> None:
        if item is None:
            self._align_leftovers()
        else:
            self._save(*item)

    def _align_leftovers(self) -> None:
        """Align walks that an earlier process stored but did not align before it ended."""
        for walk_id in self._store.ids_by_alignment(None) if self._store is not None else ():
            if self._store is not None:
                self._align(self._store, self._store.load(walk_id), "")

    def _save(self, walk: Walk, reason: str) -> None:
        if self._store is not None and _is_stored(self._store, walk):
            self.duplicates += 1
            self._log(f"walk {walk.walk_id} is stored already")
            return
        if self._store is not None and self._store.add(walk):
            self._align(self._store, walk, reason)
        self.saved += 1
        self.problem = ""
        self._log(f"walk {walk.walk_id}: {walk.times_s[-1]:.1f} s")
        self._on_saved(walk)

    def _align(self, store: WalkStore, walk: Walk, reason: str) -> None:
        """Store the identity where ``reason`` says why no alignment is needed, else the alignment with the house."""
        if reason:
            store.set_alignment(Alignment(walk.walk_id, Pose2(), None, True, reason))
            return
        from svfm_ros.pipeline.walk_aligner import WalkAligner  # imports SciPy

        self._aligner = self._aligner or WalkAligner(store)
        alignments = self._aligner.align(walk)
        store.set_alignments(alignments)
        self.unaligned += not alignments[0].accepted
        for alignment in alignments:
            result = "is aligned with the house" if alignment.accepted else "could not be aligned with the house"
            self._log(f"walk {alignment.walk_id} {result}: {alignment.reason}")

    def _report(self, error: Exception) -> None:
        self.problem = f"a walk was not saved: {error}"
        self._on_error(error)


def _open_store(store: str, frame: str) -> WalkStore | None:
    """The store at that path; a new one gets the frame of the walks."""
    if not store:
        return None
    path = Path(store).expanduser()
    make_private_folder(path)
    return WalkStore.open(path) if is_store(path) else WalkStore.create(path, frame)


def _is_stored(store: WalkStore, walk: Walk) -> bool:
    """Whether the store has a walk of the same person at the same time: the same recording was replayed before."""
    first_ns, last_ns = int(walk.stamps_ns[0]), int(walk.stamps_ns[-1])
    mine = (e for e in store.entries if e.resident == walk.resident)
    return any(e.start_ns <= last_ns and first_ns <= e.end_ns for e in mine)
