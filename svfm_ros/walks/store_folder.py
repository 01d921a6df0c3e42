"""The folder of a walk store: what is called how, what makes it a store, and who may write in it.

STORE/store.json          which format and schema this is, and the frame that alignments lead to
STORE/walks/*.walk        one file per walk (see ``walkfile``); never changed once it has its name
STORE/alignments/*.json   where each walk belongs in the house; replaced when a walk is aligned anew
STORE/catalogue           a copy of all heads, for a quick start (see ``catalogue``)
STORE/aside               damaged files whose walk came in again
STORE/parts               files while they are written
STORE/lock                held by whoever writes
"""

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from svfm_ros import atomic_files
from svfm_ros.errors import DataError
from svfm_ros.walks.catalogue import WALK_SUFFIX

__all__ = ["STORE_SCHEMA", "StoreFolder", "is_store"]

STORE_SCHEMA = 1
_FORMAT = "svfm_ros walk store"
_SHEET = "store.json"
_FOLDERS = ("walks", "alignments", "aside", "parts")
_OWN_NAMES = {_SHEET, "catalogue", "lock", *_FOLDERS}
_LONGEST_STEM = 180  # file systems end at 255 bytes


def is_store(path: Path) -> bool:
    """Whether a folder is meant to be a walk store."""
    return (Path(path) / _SHEET).is_file()


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """Paths of one store."""

    path: Path
    frame: str

    @classmethod
    def open(cls, path: Path) -> "StoreFolder":
        """The folder of a store that exists."""
        if not path.is_dir():
            raise DataError(f"expected a walk store, got no folder at {path}")
        sheet = _read_sheet(path / _SHEET)
        missing = [name for name in ("walks", "alignments") if not (path / name).is_dir()]
        if missing:
            raise DataError(f"{path}: expected a walk store with a folder {missing[0]}, which is not there")
        return cls(path, sheet["frame"])

    @classmethod
    def make(cls, path: Path, frame: str) -> "StoreFolder":
        """Turn a new or empty folder into a store; the sheet comes last, so half a store is none."""
        if path.exists() and not path.is_dir():
            raise DataError(f"expected a folder for the walk store, got a file at {path}")
        strangers = [p.name for p in path.iterdir() if not _is_own(p.name)] if path.exists() else []
        if strangers:
            raise DataError(f"expected a new or empty folder for the walk store, but {path} holds {min(strangers)!r}")
        try:
            for name in _FOLDERS:
                (path / name).mkdir(parents=True, exist_ok=True)
            atomic_files.sync_folder(path.absolute().parent)
            sheet = {"format": _FORMAT, "schema": STORE_SCHEMA, "frame": frame}
            atomic_files.write_whole(path / _SHEET, json.dumps(sheet).encode())
        except OSError as error:
            raise DataError(f"cannot make a walk store at {path}: {error.strerror}") from error
        return cls(path, frame)

    @property
    def walks(self) -> Path:
        """Where the walks are."""
        return self.path / "walks"

    @property
    def alignments(self) -> Path:
        """Where the alignments are."""
        return self.path / "alignments"

    @property
    def aside(self) -> Path:
        """Where damaged files went whose walk came in again."""
        return self.path / "aside"

    @property
    def catalogue(self) -> Path:
        """The copy of all heads."""
        return self.path / "catalogue"

    def walk_path(self, walk_id: str) -> Path:
        """The file a new walk of that id gets."""
        return self.walks / (_stem(walk_id) + WALK_SUFFIX)

    def alignment_path(self, walk_file: str) -> Path:
        """The alignment that belongs to a walk's file."""
        return self.alignments / (walk_file.removesuffix(WALK_SUFFIX) + ".json")

    def write(self, targets: Sequence[Path], contents: Sequence[bytes]) -> None:
        """Write files that go to one folder; when this returns they are on the disk. Hold the lock."""
        if not targets:
            return
        parts = atomic_files.stage(self.path / "parts", contents)
        for part, target in zip(parts, targets, strict=True):
            atomic_files.publish(part, target)
        atomic_files.sync_folder(targets[0].parent)

    def put_aside(self, path: Path) -> None:
        """Move a damaged walk out of the way of a good one."""
        self.aside.mkdir(exist_ok=True)
        os.replace(path, self.aside / f"{path.stem}-{uuid.uuid4().hex[:8]}{WALK_SUFFIX}")
        atomic_files.sync_folder(self.aside)
        atomic_files.sync_folder(path.parent)

    @contextmanager
    def writing(self, wait: bool = True) -> Iterator[None]:
        """Hold the lock, which the system opens when its holder dies; what a dead writer left behind is cleared away.

        With ``wait`` False a lock that someone holds is refused, as is a folder that cannot be written in.
        """
        handle = -1
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._clear_parts()
            yield
        except OSError as error:
            raise DataError(f"cannot write in the store {self.path}: {error.strerror}") from error
        finally:
            if handle >= 0:
                os.close(handle)

    def _clear_parts(self) -> None:
        (self.path / "parts").mkdir(exist_ok=True)
        for folder in (self.path / "parts", self.path):
            for part in folder.glob(f".*{atomic_files.PART_SUFFIX}"):
                atomic_files.remove(part)


def _is_own(name: str) -> bool:
    return name in _OWN_NAMES or (name.startswith(".") and name.endswith(atomic_files.PART_SUFFIX))


def _read_sheet(path: Path) -> dict[str, Any]:
    try:
        sheet = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise DataError(f"expected a walk store, which has a file {_SHEET}, got the folder {path.parent}") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged: expected the description of a walk store") from error
    if not isinstance(sheet, dict) or sheet.get("format") != _FORMAT or not isinstance(sheet.get("frame"), str):
        raise DataError(f"{path}: expected the description of a walk store, got something else")
    if sheet.get("schema") != STORE_SCHEMA:
        raise DataError(f"{path.parent} is a walk store of schema {sheet.get('schema')}: expected {STORE_SCHEMA}")
    return sheet


def _stem(walk_id: str) -> str:
    """A file name for any id; the id itself is in the file."""
    stem = quote(walk_id, safe=" @+,=()", errors="surrogatepass")
    stem = "%2E" + stem[1:] if stem.startswith(".") else stem
    if len(stem) > _LONGEST_STEM:
        stem = f"{stem[: _LONGEST_STEM - 40]}~{hashlib.sha256(stem.encode()).hexdigest()[:32]}"
    return stem
