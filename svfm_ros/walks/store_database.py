"""The folder and the SQLite file of a walk store: tables, connections, and error messages.

    store        one row: the frame that alignments lead to
    walks        one row per walk: id, resident, time, numbers of poses and points
    tracks       one row per walk: its arrays, little-endian, row by row, and a checksum of the whole walk
    alignments   one row per walk that was aligned: its pose in the house's frame

Every operation has a connection of its own, so threads and child processes may use one store. Between operations all
data is in the one file: SQLite's write-ahead log beside it is emptied when the last connection closes.
"""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from svfm_ros.atomic_files import make_folder, sync_folder
from svfm_ros.errors import DataError, StoreUnavailableError
from svfm_ros.walks.old_store import is_old_store

__all__ = ["STORE_SCHEMA", "StoreDatabase", "check_folder", "check_room", "is_in_old_format", "is_store"]
__all__ += ["warn_if_open_to_others"]

DATABASE = "walks.sqlite"
STORE_SCHEMA = 1
"""Version of the tables, kept as SQLite's ``user_version``."""

_APPLICATION_ID = 0x7376666D  # "svfm"
_LONGEST_FRAME = 255  # letters
_BUSY_TIMEOUT_S = 60.0  # how long one program waits for another that writes
_NEIGHBOURS = (
    "*.state",
    "*.session",
    "*.unusable",
    "*.pt",
    "*.tables",
    "*.key",
    "*.position",
    ".*",
)  # kept in the folder by nodes

_UNAVAILABLE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_IOERR,
    }
)

_log = logging.getLogger(__name__)
_warned: set[Path] = set()

_TABLES = """
CREATE TABLE store (frame TEXT NOT NULL) STRICT;
CREATE TABLE walks (
    number INTEGER PRIMARY KEY,
    walk_id TEXT NOT NULL UNIQUE,
    resident TEXT NOT NULL,
    start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    poses INTEGER NOT NULL,
    points INTEGER NOT NULL,
    fingerprint BLOB NOT NULL UNIQUE
) STRICT;
CREATE TABLE tracks (
    number INTEGER PRIMARY KEY REFERENCES walks ON DELETE CASCADE,
    schema INTEGER NOT NULL,
    crc32 INTEGER NOT NULL,
    stamps_ns BLOB NOT NULL,
    poses BLOB NOT NULL,
    points BLOB NOT NULL,
    covariance BLOB
) STRICT;
CREATE TABLE alignments (
    number INTEGER PRIMARY KEY REFERENCES walks ON DELETE CASCADE,
    crc32 INTEGER NOT NULL,
    x REAL NOT NULL,
    y REAL NOT NULL,
    theta REAL NOT NULL,
    accepted INTEGER NOT NULL,
    reason TEXT NOT NULL,
    match TEXT
) STRICT;
"""


@dataclass(frozen=True, slots=True)
class StoreDatabase:
    """The file in one store's folder."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / DATABASE

    def make(self, frame: str) -> None:
        """Make the tables unless another program has just done so; an interrupted call leaves an empty file."""
        with self._errors_explained(writes=True):
            make_folder(self.folder)
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._make_tables(frame)
            sync_folder(self.folder)
            sync_folder(self.folder.absolute().parent)

    def _make_tables(self, frame: str) -> None:
        with closing(self._connect("rw")) as db:
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in filter(str.strip, _TABLES.split(";")):
                    db.execute(statement)
                db.execute("INSERT INTO store VALUES (?)", (frame,))
                db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {STORE_SCHEMA}")
            db.execute("COMMIT")
            db.execute("PRAGMA journal_mode = WAL")

    def is_unfinished(self) -> bool:
        """Whether making the tables was interrupted: the file is empty once SQLite has undone what was begun."""
        with self._errors_explained():
            if not self.path.is_file():
                return False
        with self.reading() as db:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return self.path.stat().st_size == 0

    def read_frame(self) -> str:
        """The frame that alignments lead to; refuses a file that is no store, or one of another schema."""
        with self.reading() as db:
            if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                raise DataError(f"{self.path} is damaged: it holds no tables")
            if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
                raise DataError(f"{self.path}: expected a walk store, got another SQLite file")
            if db.execute("SELECT count(*) FROM sqlite_schema WHERE rootpage = 0").fetchone()[0]:  # they run code
                raise DataError(f"{self.path}: expected tables alone, got views, triggers or virtual tables")
            schema = db.execute("PRAGMA user_version").fetchone()[0]
            if schema != STORE_SCHEMA:
                raise DataError(f"{self.folder} is a walk store of schema {schema}: expected {STORE_SCHEMA}")
            row = db.execute("SELECT frame FROM store").fetchone()
            if row is None:
                raise sqlite3.DatabaseError("the row of table store is missing")
            if not isinstance(row[0], str) or len(row[0]) > _LONGEST_FRAME:
                raise sqlite3.DatabaseError("the row of table store holds no name of a frame")
            return str(row[0])

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read with; it does not wait for writers, nor they for it."""
        with self._errors_explained(), closing(self._readable()) as db:
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is on the disk when the block ends, nothing of it when the block raises.

        Writers of all programs take turns.
        """
        with self._errors_explained(writes=True), closing(self._connect("rw")) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.rollback()
                raise
            db.execute("COMMIT")

    def erase_deleted(self) -> bool:
        """Rewrite the file without what was deleted; False where another program's reading kept old pages in the log.

        Rows are overwritten with zeros when they are deleted. This removes what remains of them in the write-ahead
        log and in pages that were reorganised.
        """
        with self._errors_explained(writes=True), closing(self._connect("rw")) as db:
            db.execute("VACUUM")
            busy, *_ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    def _readable(self) -> sqlite3.Connection:
        try:
            db = self._connect("rw")
        except sqlite3.Error as error:
            if _code(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or self._log_has_content():
                raise
            db = self._connect("ro", "&immutable=1")  # on a medium that nobody can write to
        db.execute("PRAGMA query_only = ON")
        return db

    def _log_has_content(self) -> bool:
        log = self.folder / f"{DATABASE}-wal"
        return log.is_file() and log.stat().st_size > 0

    def _connect(self, mode: str, more: str = "") -> sqlite3.Connection:
        name = quote(str(self.path.absolute()), errors="surrogateescape")
        db = sqlite3.connect(f"file:{name}?mode={mode}{more}", uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            for setting in ("foreign_keys = ON", "synchronous = FULL", "secure_delete = ON"):
                db.execute(f"PRAGMA {setting}")  # the last one reads the file
        except BaseException:
            db.close()
            raise
        db.text_factory = _text
        return db

    @contextmanager
    def _errors_explained(self, writes: bool = False) -> Iterator[None]:
        """Turn errors of SQLite into a sentence about the file."""
        try:
            yield
        except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
            raise  # a mistake of ours
        except sqlite3.Error as error:
            kind = StoreUnavailableError if _code(error) in _UNAVAILABLE else DataError
            raise kind(self._sentence(error, "write in" if writes else "read")) from error
        except UnicodeDecodeError as error:  # SQLite's error message about a damaged table contains its bytes
            raise DataError(self._sentence(sqlite3.DatabaseError("its tables cannot be read"), "read")) from error
        except OSError as error:
            raise StoreUnavailableError(f"cannot open the store {self.folder}: {error.strerror}") from error

    def _sentence(self, error: sqlite3.Error, verb: str) -> str:
        code = _code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return f"cannot {verb} the store {self.folder}: another program has held it for {_BUSY_TIMEOUT_S:.0f} s"
        if code == sqlite3.SQLITE_FULL:
            return f"cannot {verb} the store {self.folder}: the disk is full"
        if code in _UNAVAILABLE:
            return f"cannot {verb} the store {self.folder}: {error}"
        return (
            f"{self.path} is damaged ({error}): "
            f"bring over what can still be read with: svfm store NEW --import {self.folder}"
        )


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _text(data: bytes) -> str:
    """Text of the file; damaged bytes are replaced, and the row's checksum fails later."""
    return data.decode(errors="replace")


def is_store(path: Path) -> bool:
    """Whether a folder holds a walk store, of today's format or the earlier one."""
    database = Path(path) / DATABASE
    try:
        return (database.is_file() and database.stat().st_size > 0) or is_old_store(Path(path))
    except OSError:
        return True  # opening it says what is wrong


def is_in_old_format(path: Path) -> bool:
    """Whether a folder holds a store of the earlier format and none of today's."""
    return is_old_store(path) and not (path / DATABASE).exists()


def check_folder(path: Path) -> None:
    """Refuse what is no store, in one sentence."""
    try:
        if not path.is_dir():
            raise DataError(f"expected a walk store, got no folder at {path}")
        if is_in_old_format(path):
            raise DataError(
                f"{path} is a walk store of the earlier format: "
                f"bring its walks into a new one with: svfm store NEW --import {path}"
            )
        if not (path / DATABASE).exists():
            raise DataError(f"expected a walk store, which has a file {DATABASE}, got the folder {path}")
        if not (path / DATABASE).is_file():
            raise DataError(f"expected a walk store, got {path / DATABASE} that is no file")
    except OSError as error:
        raise DataError(f"cannot read the store {path}: {error.strerror}") from error


def check_room(path: Path) -> None:
    """Refuse to make a store where other things are kept."""
    try:
        if path.exists() and not path.is_dir():
            raise DataError(f"expected a folder for the walk store, got a file at {path}")
        inside = list(path.iterdir()) if path.exists() else []
    except OSError as error:
        raise DataError(f"cannot make a walk store at {path}: {error.strerror}") from error
    own = (f"{DATABASE}*", *_NEIGHBOURS)
    others = [p.name for p in inside if not any(p.match(pattern) for pattern in own)]
    if others:
        raise DataError(f"expected a new or empty folder for the walk store, but {path} holds {min(others)!r}")


def warn_if_open_to_others(folder: Path) -> None:
    """Say once how to close a folder that other users of the machine can look into."""
    try:
        is_open = folder.stat().st_mode & 0o077 and (folder / DATABASE).stat().st_mode & 0o077
    except OSError:
        return
    if is_open and folder not in _warned:
        _warned.add(folder)
        _log.warning("others can read the walks in %s: close it with: chmod -R go= %s", folder, folder)
