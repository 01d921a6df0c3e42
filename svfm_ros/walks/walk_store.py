"""A store of walks: one SQLite file in a folder, safe against power cuts and other programs at work in it.

    STORE/walks.sqlite   the walks and their alignments
    STORE/map.state      and model.pt: kept there by the nodes

``add`` returns only when the walk is on the disk: half a walk is never read, a stored one never lost. Writers take
turns; readers do not wait. A walk that fails its checksum is listed in ``problems`` and passed over.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from sqlite3 import Connection, DatabaseError

from svfm_ros.errors import DataError
from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks import walk_rows
from svfm_ros.walks.old_store import read_old_frame, read_old_walks
from svfm_ros.walks.store_database import (
    STORE_SCHEMA,
    StoreDatabase,
    check_folder,
    check_room,
    is_in_old_format,
    is_store,
    warn_if_open_to_others,
)
from svfm_ros.walks.walk_csv import write_walks_csv
from svfm_ros.walks.walk_rows import WalkEntry

__all__ = ["STORE_SCHEMA", "Added", "Deleted", "Exported", "StoreProblem", "WalkEntry", "WalkStore", "is_store"]
__all__ += ["frame_of_store"]

_READ_AT_ONCE = 64  # walks per reading, so that a long export does not keep SQLite from reusing old pages
_WRITE_AT_ONCE = 512  # walks per transaction of an import

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """A walk that cannot be used, and why; it stays in the store."""

    walk_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Added:
    """How many walks of an import are new, were in the store already, and could not be read."""

    new: int
    duplicates: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """How many walks were written, and how many there were when the export began."""

    walks: int
    expected: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many walks were removed, and whether their bytes are gone from the file and its log."""

    walks: int
    erased: bool


def frame_of_store(path: Path) -> str:
    """The frame that the alignments of a store lead to, of today's format or the earlier one."""
    return read_old_frame(path) if is_in_old_format(path) else WalkStore.open(path).frame


class WalkStore:
    """Walks by id. ``open`` a store that exists, ``create`` one that may not exist yet."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database
        self._frame = database.read_frame()
        self._entries: dict[str, WalkEntry] = {}
        self._numbers: dict[str, int] = {}
        self._problems: dict[str, StoreProblem] = {}
        warn_if_open_to_others(database.folder)
        self.refresh()

    @classmethod
    def open(cls, path: Path) -> "WalkStore":
        """A store that exists."""
        check_folder(Path(path))
        return cls(StoreDatabase(Path(path)))

    @classmethod
    def create(cls, path: Path, frame: str = "map") -> "WalkStore":
        """The store in that folder, made unless it exists; alignments lead to ``frame``."""
        path = Path(path)
        database = StoreDatabase(path)
        if not is_store(path) or database.is_unfinished():
            check_room(path)
            database.make(frame)
        store = cls.open(path)
        if store.frame != frame:
            raise DataError(f"expected a store of walks in frame {frame!r}, got {store.frame!r} in {path}")
        return store

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._database.folder

    @property
    def frame(self) -> str:
        """The frame that alignments lead to."""
        return self._frame

    @property
    def entries(self) -> tuple[WalkEntry, ...]:
        """Every walk's entry, in order of time."""
        return tuple(self._entries.values())

    @property
    def walk_ids(self) -> tuple[str, ...]:
        """Every walk's id, in order of time."""
        return tuple(self._entries)

    @property
    def residents(self) -> tuple[str, ...]:
        """Names of the residents whose walks are stored."""
        return tuple(sorted({entry.resident for entry in self.entries}))

    @property
    def problems(self) -> tuple[StoreProblem, ...]:
        """Walks that could not be read so far."""
        return tuple(self._problems.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, walk_id: str) -> bool:
        return walk_id in self._entries

    def refresh(self) -> None:
        """Read the list of walks again: other programs may have added or deleted some."""
        with self._database.reading() as db:
            rows = walk_rows.read_entries(db)
        sound = [row for row in rows if tuple(map(type, row)) == walk_rows.ENTRY_TYPES]
        self._entries = {row[1]: WalkEntry(*row[1:]) for row in sound}
        self._numbers = {row[1]: row[0] for row in sound}
        self._problems = {walk_id: p for walk_id, p in self._problems.items() if walk_id in self._entries}
        for row in rows:
            if tuple(map(type, row)) != walk_rows.ENTRY_TYPES:
                self._report(str(row[1]), f"walk {row[1]!r} is damaged: its entry cannot be read")

    def load(self, walk_id: str) -> Walk:
        """One walk as it was recorded."""
        return self._one(walk_id).walk()

    def walks(self, resident: str | None = None) -> Iterator[Walk]:
        """All walks that can be read, as recorded, in order of time; the others are reported and passed over."""
        for stored in self._all(resident):
            try:
                yield stored.walk()
            except DataError as error:
                self._report(stored.entry.walk_id, str(error))

    def aligned_walks(self, resident: str | None = None) -> Iterator[Walk]:
        """All walks with an accepted alignment, in the house's frame, in order of time."""
        for stored in self._all(resident):
            try:
                alignment = stored.read_alignment()
                if alignment is not None and alignment.accepted:
                    yield stored.walk().in_house(alignment.T_house_walk)
            except DataError as error:
                self._report(stored.entry.walk_id, str(error))

    def alignment(self, walk_id: str) -> Alignment | None:
        """The alignment of a walk; None until it was aligned."""
        return self._one(walk_id, with_track=False).read_alignment()

    def ids_by_alignment(self, accepted: bool | None) -> tuple[str, ...]:
        """Ids of the walks with an accepted or a refused alignment, or with None of those without any."""
        wanted = "a.number IS NULL" if accepted is None else f"a.accepted = {int(accepted)}"
        query = f"SELECT w.walk_id FROM walks w LEFT JOIN alignments a USING (number) WHERE {wanted}"
        with self._database.reading() as db:
            found = {row[0] for row in db.execute(query)}
        if not found <= self._entries.keys():
            self.refresh()
        return tuple(walk_id for walk_id in self._entries if walk_id in found)

    def add(self, walk: Walk) -> bool:
        """Store a walk; False when it is there already. When this returns, the walk is on the disk."""
        return self.add_all([walk]) == 1

    def add_all(self, walks: Sequence[Walk]) -> int:
        """Store walks in one transaction; returns how many are new.

        A walk with the resident, stamps and poses of a stored one is a duplicate and is passed over, whatever its id.
        Another walk under a known id is refused, and then none is stored.
        """
        for walk in walks:
            walk_rows.check_walk(walk)
        with self._database.writing() as db:
            new = {walk.walk_id: self._insert(db, walk) for walk in walks if not self._holds(db, walk)}
        self._numbers |= new
        self._entries |= {w.walk_id: walk_rows.entry_of(w) for w in walks if w.walk_id in new}
        self._entries = dict(sorted(self._entries.items(), key=lambda item: (item[1].start_ns, item[0])))
        self._problems = {walk_id: p for walk_id, p in self._problems.items() if walk_id not in new}
        return len(new)

    def set_alignment(self, alignment: Alignment) -> None:
        """Store the alignment of a walk; replaces the one before."""
        self.set_alignments([alignment])

    def set_alignments(self, alignments: Sequence[Alignment]) -> None:
        """Store the alignments of several walks in one transaction."""
        with self._database.writing() as db:
            for alignment in alignments:
                row = db.execute("SELECT number FROM walks WHERE walk_id = ?", (alignment.walk_id,)).fetchone()
                if row is None:
                    raise self._unknown(alignment.walk_id)
                values = (row[0], *walk_rows.alignment_row(alignment))
                db.execute("INSERT OR REPLACE INTO alignments VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def import_walks(self, walks: Sequence[Walk]) -> Added:
        """Store walks that are in the house's frame already."""
        new = self.add_all(walks)
        there = set(self.ids_by_alignment(None))
        reason = "imported in the house's frame"
        self.set_alignments([Alignment(w.walk_id, Pose2(), None, True, reason) for w in walks if w.walk_id in there])
        return Added(new, len(walks) - new)

    def import_store(self, path: Path) -> Added:
        """Store the walks and alignments of another store, of today's format or the earlier one."""
        problems: list[str] = []
        batch: list[tuple[Walk, Alignment | None]] = []
        new = total = 0
        for pair in _pairs_of(Path(path), problems):
            batch.append(pair)
            total += 1
            if len(batch) == _WRITE_AT_ONCE:
                new += self._add_pairs(batch)
                batch = []
        new += self._add_pairs(batch)
        return Added(new, total - new, tuple(problems))

    def export_csv(self, path: Path) -> Exported:
        """Write the aligned walks in the house's frame as CSV."""
        self.refresh()
        expected = len(self.ids_by_alignment(True))
        return Exported(write_walks_csv(self.aligned_walks(), path), expected)

    def delete_resident(self, resident: str) -> Deleted:
        """Remove all walks and alignments of a resident, and their bytes from the file."""
        with self._database.writing() as db:
            count = db.execute("DELETE FROM walks WHERE resident = ?", (resident,)).rowcount
        self.refresh()
        if not count:
            raise DataError(f"expected a resident among {', '.join(self.residents) or 'nobody'}, got {resident!r}")
        return Deleted(count, self._database.erase_deleted())

    def _add_pairs(self, pairs: list[tuple[Walk, Alignment | None]]) -> int:
        new = self.add_all([walk for walk, _ in pairs])
        without = set(self.ids_by_alignment(None))
        self.set_alignments([a for _, a in pairs if a is not None and a.walk_id in without])
        return new

    def _holds(self, db: Connection, walk: Walk) -> bool:
        """Whether this walk is stored. If its stored copy is damaged, that is removed and its alignment kept."""
        query = "SELECT number, walk_id, fingerprint FROM walks WHERE walk_id = ? OR fingerprint = ?"
        fingerprint = walk_rows.fingerprint_of(walk)
        for number, walk_id, kept in db.execute(query, (walk.walk_id, fingerprint)).fetchall():
            if self._is_sound(db, number):
                if kept != fingerprint:
                    raise DataError(f"{self.path} already holds another walk {walk_id!r}: expected a new id")
                return True
            if walk_id != walk.walk_id:
                db.execute("DELETE FROM walks WHERE number = ?", (number,))
        return False

    def _is_sound(self, db: Connection, number: int) -> bool:
        try:
            for stored in walk_rows.read_rows(db, [number]):
                stored.walk()
        except (DataError, DatabaseError):
            return False
        return True

    def _insert(self, db: Connection, walk: Walk) -> int:
        values = (*astuple(walk_rows.entry_of(walk)), walk_rows.fingerprint_of(walk))
        names = "walk_id, resident, start_ns, end_ns, poses, points, fingerprint"
        changes = ", ".join(f"{name} = excluded.{name}" for name in names.split(", ")[1:])
        query = f"INSERT INTO walks ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)"
        query += f" ON CONFLICT (walk_id) DO UPDATE SET {changes} RETURNING number"
        (number,) = db.execute(query, values).fetchone()
        track = walk_rows.track_of(walk)
        row = (number, track.schema, track.crc32, track.stamps_ns, track.poses, track.points, track.covariance)
        db.execute("INSERT OR REPLACE INTO tracks VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return int(number)

    def _one(self, walk_id: str, with_track: bool = True) -> walk_rows.StoredWalk:
        if walk_id not in self:
            self.refresh()
        if walk_id not in self:
            raise self._unknown(walk_id)
        with self._database.reading() as db:
            for stored in walk_rows.read_rows(db, [self._numbers[walk_id]], with_track):
                if stored.entry.walk_id == walk_id:
                    return stored
        raise self._unknown(walk_id)

    def _all(self, resident: str | None) -> Iterator[walk_rows.StoredWalk]:
        """The rows of all walks, some at a time; what was deleted meanwhile is passed over."""
        ids = [e.walk_id for e in self.entries if resident is None or e.resident == resident]
        for begin in range(0, len(ids), _READ_AT_ONCE):
            some = ids[begin : begin + _READ_AT_ONCE]
            try:
                yield from self._some(some)
            except DataError:  # a damaged page: find out which walks lie on it
                for walk_id in some:
                    try:
                        yield from self._some([walk_id])
                    except DataError as error:
                        self._report(walk_id, str(error))

    def _some(self, ids: list[str]) -> list[walk_rows.StoredWalk]:
        with self._database.reading() as db:
            found = {
                s.entry.walk_id: s
                for s in walk_rows.read_rows(db, [self._numbers[i] for i in ids if i in self._numbers])
            }
        return [found[walk_id] for walk_id in ids if walk_id in found]

    def _unknown(self, walk_id: str) -> DataError:
        return DataError(f"expected a walk of the store {self.path}, got {walk_id!r}")

    def _report(self, walk_id: str, reason: str) -> None:
        _log.warning("%s: %s", self.path, reason)
        self._problems[walk_id] = StoreProblem(walk_id, reason)


def _pairs_of(path: Path, problems: list[str]) -> Iterator[tuple[Walk, Alignment | None]]:
    """Walks and alignments of a store in either format; what cannot be read goes to ``problems``."""
    if is_in_old_format(path):
        for old in read_old_walks(path):
            if old.problem:
                problems.append(old.problem)
            if old.walk is not None:
                yield old.walk, old.alignment
        return
    store = WalkStore.open(path)
    for stored in store._all(None):
        try:
            yield stored.walk(), stored.read_alignment()
        except DataError as error:
            problems.append(str(error))
    problems += [problem.reason for problem in store.problems]
