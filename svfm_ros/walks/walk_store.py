"""A folder of walks that only grows, safe against power cuts and a second program at work in it.

A file gets its name only when all of it is on the disk, and ``add`` returns only when the name is there to stay: half a
walk is never read, a finished one never lost. Writers take turns; readers need not wait. A file that cannot be read is
reported in ``problems`` and left where it is. What lies where is told in ``storefolder``.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from svfm_ros import atomic_files
from svfm_ros.errors import DataError
from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks import catalogue
from svfm_ros.walks.alignment_file import decode_alignment, encode_alignment
from svfm_ros.walks.catalogue import StoreProblem, WalkEntry
from svfm_ros.walks.store_folder import STORE_SCHEMA, StoreFolder, is_store
from svfm_ros.walks.walk_csv import read_walks_csv, write_walks_csv
from svfm_ros.walks.walk_file import decode_walk, encode_walk, peek_resident

__all__ = ["STORE_SCHEMA", "Deleted", "StoreProblem", "WalkEntry", "WalkStore", "is_store"]

_BATCH = 512  # walks held in memory while many are written

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many walks were removed, and the damaged files whose owner cannot be told and which are still there."""

    walks: int
    unreadable: tuple[Path, ...]


class WalkStore:
    """Walks by id, read when asked for. ``open`` one that is there, ``create`` one that may not be."""

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder
        listed = catalogue.read_lines(folder.catalogue)
        self._stock = catalogue.take_stock(folder.walks, listed)
        if set(self.entries) != set(listed):
            self._renew_catalogue()

    @classmethod
    def open(cls, path: Path) -> "WalkStore":
        """A store that exists."""
        return cls(StoreFolder.open(Path(path)))

    @classmethod
    def create(cls, path: Path, frame: str = "map") -> "WalkStore":
        """The store in that folder, a new one unless it is there; alignments lead to ``frame``."""
        path = Path(path)
        folder = StoreFolder.open(path) if is_store(path) else StoreFolder.make(path, frame)
        if folder.frame != frame:
            raise DataError(f"expected a store of walks in frame {frame!r}, got {folder.frame!r} in {path}")
        return cls(folder)

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._folder.path

    @property
    def frame(self) -> str:
        """The frame that alignments lead to."""
        return self._folder.frame

    @property
    def entries(self) -> tuple[WalkEntry, ...]:
        """Every walk's head, in order of time."""
        return tuple(self._stock.entries.values())

    @property
    def walk_ids(self) -> tuple[str, ...]:
        """Every walk's id, in order of time."""
        return tuple(self._stock.entries)

    @property
    def residents(self) -> tuple[str, ...]:
        """Everybody who has walks here, by name."""
        return tuple(sorted({entry.resident for entry in self.entries}))

    @property
    def problems(self) -> tuple[StoreProblem, ...]:
        """Files that could not be used."""
        return self._stock.problems

    def __len__(self) -> int:
        return len(self._stock.entries)

    def __contains__(self, walk_id: str) -> bool:
        return walk_id in self._stock.entries

    def refresh(self) -> None:
        """Notice what other programs added or deleted."""
        self._stock = catalogue.take_stock(self._folder.walks, self.entries)

    def load(self, walk_id: str) -> Walk:
        """One walk as it was recorded."""
        path = self._folder.walks / self._entry(walk_id).file
        walk = decode_walk(_read(path), str(path))
        if walk.walk_id != walk_id:
            raise DataError(f"{path} is damaged: expected walk {walk_id!r}, got {walk.walk_id!r}")
        return walk

    def walks(self, resident: str | None = None) -> Iterator[Walk]:
        """All walks that can be read, as recorded, in order of time; the others are reported and passed over."""
        for entry in self.entries:
            if resident is None or entry.resident == resident:
                try:
                    yield self.load(entry.walk_id)
                except DataError as error:
                    self._report(self._folder.walks / entry.file, error)

    def alignment(self, walk_id: str) -> Alignment | None:
        """Where a walk belongs in the house; None until it was aligned."""
        path = self._folder.alignment_path(self._entry(walk_id).file)
        if not path.exists():
            return None
        alignment = decode_alignment(_read(path), str(path))
        if alignment.walk_id != walk_id:
            raise DataError(f"{path} is damaged: expected walk {walk_id!r}, got {alignment.walk_id!r}")
        return alignment

    def placed_walks(self, resident: str | None = None) -> Iterator[Walk]:
        """All walks with an accepted alignment, in the house's frame, in order of time."""
        for walk in self.walks(resident):
            try:
                alignment = self.alignment(walk.walk_id)
            except DataError as error:
                self._report(self._folder.alignment_path(self._entry(walk.walk_id).file), error)
                continue
            if alignment is not None and alignment.accepted:
                yield walk.placed(alignment.T_house_walk)

    def add(self, walk: Walk) -> bool:
        """Keep a walk; False when this very walk is there already. When this returns, the walk is safe."""
        return self.add_all([walk]) == 1

    def add_all(self, walks: Sequence[Walk]) -> int:
        """Keep walks, all but those that are there already; returns how many are new.

        Another walk under a known id is refused, and then none is kept.
        """
        with self._folder.writing():
            new = self._new_among(walks)
            for begin in range(0, len(new), _BATCH):
                self._write(new[begin : begin + _BATCH])
        return len(new)

    def set_alignment(self, alignment: Alignment) -> None:
        """Keep where a walk belongs; replaces what was kept before."""
        self.set_alignments([alignment])

    def set_alignments(self, alignments: Sequence[Alignment]) -> None:
        """Keep where several walks belong."""
        targets = [self._folder.alignment_path(self._entry(a.walk_id).file) for a in alignments]
        with self._folder.writing():
            self._folder.write(targets, [encode_alignment(a) for a in alignments])

    def import_csv(self, path: Path, resident: str = "unknown") -> int:
        """Keep the walks of a CSV file, which are in the house's frame already; returns how many are new."""
        walks = read_walks_csv(path, resident)
        added = self.add_all(walks)
        missing = [w.walk_id for w in walks if self.alignment(w.walk_id) is None]
        reason = "imported in the house's frame"
        self.set_alignments([Alignment(walk_id, Pose2(), None, True, reason) for walk_id in missing])
        return added

    def export_csv(self, path: Path, raw: bool = False) -> int:
        """Write the placed walks, or with ``raw`` all as recorded, as CSV; returns how many."""
        return write_walks_csv(self.walks() if raw else self.placed_walks(), path)

    def delete_resident(self, resident: str) -> Deleted:
        """Remove all walks and alignments of a resident from the folder."""
        with self._folder.writing():
            self.refresh()
            files = {self._folder.walks / e.file: e.resident for e in self.entries}
            owners: dict[Path, str | None] = {**files, **{path: peek_resident(path) for path in self._damaged()}}
            victims = [path for path, owner in owners.items() if owner == resident]
            if not victims:
                raise DataError(f"expected a resident among {', '.join(self.residents) or 'nobody'}, got {resident!r}")
            # Alignments go first: once a walk is gone nothing tells whose its alignment was.
            for path in [self._folder.alignment_path(p.name) for p in victims] + victims:
                atomic_files.remove(path)
            for folder in (self._folder.alignments, self._folder.walks):
                atomic_files.sync_folder(folder)
            self.refresh()
            catalogue.write_lines(self._folder.catalogue, self.entries)
        return Deleted(len(victims), tuple(path for path, owner in owners.items() if owner is None))

    def _entry(self, walk_id: str) -> WalkEntry:
        if walk_id not in self:
            self.refresh()
        if walk_id not in self:
            raise DataError(f"expected a walk of the store {self.path}, got {walk_id!r}")
        return self._stock.entries[walk_id]

    def _report(self, path: Path, error: DataError) -> None:
        _log.warning("%s", error)
        others = [p for p in self.problems if p.path != path]
        self._stock = catalogue.Inventory(self._stock.entries, (*others, StoreProblem(path, str(error))))

    def _new_among(self, walks: Iterable[Walk]) -> list[Walk]:
        """The walks that are not on the disk; refuses those that contradict one that is."""
        new: dict[str, Walk] = {}
        for walk in walks:
            if walk.walk_id in new:
                raise DataError(f"expected each walk once, got {walk.walk_id!r} twice")
            if not self._holds(walk):
                new[walk.walk_id] = walk
        return list(new.values())

    def _holds(self, walk: Walk) -> bool:
        """Whether this very walk is on the disk. A damaged file in its place is put aside."""
        data = encode_walk(walk)
        known = self._stock.entries.get(walk.walk_id)
        path = self._folder.walk_path(walk.walk_id) if known is None else self._folder.walks / known.file
        if not path.exists():
            return False
        kept = _read(path)
        if kept == data:
            return True
        if _is_sound(kept):
            raise DataError(f"{self.path} already holds another walk {walk.walk_id!r}: expected a new id")
        self._folder.put_aside(path)
        return False

    def _write(self, walks: Sequence[Walk]) -> None:
        paths = [self._folder.walk_path(walk.walk_id) for walk in walks]
        self._folder.write(paths, [encode_walk(walk) for walk in walks])
        entries = [catalogue.look_into(str(path)) for path in paths]
        catalogue.append_lines(self._folder.catalogue, entries)
        problems = tuple(p for p in self.problems if p.path not in paths)
        self._stock = catalogue.Inventory(catalogue.merged(self._stock.entries, entries), problems)

    def _damaged(self) -> list[Path]:
        """Walk files that are of no use, in their place or put aside."""
        aside = sorted(self._folder.aside.iterdir()) if self._folder.aside.is_dir() else []
        return [p.path for p in self.problems if p.path.parent == self._folder.walks] + aside

    def _renew_catalogue(self) -> None:
        """Write the catalogue anew, if nobody is writing and the folder lets us: it is only there for speed."""
        with suppress(DataError), self._folder.writing(wait=False):
            catalogue.write_lines(self._folder.catalogue, self.entries)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def _is_sound(data: bytes) -> bool:
    try:
        decode_walk(data, "the file")
    except DataError:
        return False
    return True
