"""Private files that are either whole or not there, also when the power fails while they are written.

The bytes go to a hidden file beside the target and are pushed to the disk; only then does the file get its name, and
the folder is pushed to the disk in turn. A name therefore never stands for half a file, and what is written stays.
Hidden files belong to their writer: nobody else removes one, unless it was left behind a day ago or earlier.

Files are readable by their owner alone (0600), folders made here as well (0700): they tell where a person walks.
"""

import os
import stat
import time
import uuid
from contextlib import suppress
from pathlib import Path

from svfm_ros.errors import DataError

__all__ = ["make_folder", "read_regular", "remove", "sync_folder", "write_whole"]

_PART_SUFFIX = ".part"
_LEFT_BEHIND_S = 86400.0
_LONGEST_NAME = 100  # of the target, within the hidden name; file systems end at 255 bytes


def write_whole(path: Path, *pieces: bytes | memoryview) -> None:
    """Write or replace a file, piece after piece; when this returns the file is on the disk.

    Refuses to replace what is no regular file, such as a device.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError(f"cannot write {path}: expected a file, got {_kind(path.stat().st_mode)}")
    part = path.parent / f"{_part_prefix(path)}{uuid.uuid4().hex}{_PART_SUFFIX}"
    try:
        _write(part, pieces)
        os.replace(part, path)
    except BaseException:
        remove(part)
        raise
    sync_folder(path.parent)
    _remove_left_behind(path)


def _part_prefix(path: Path) -> str:
    return f".{path.name[:_LONGEST_NAME]}."


def _write(path: Path, pieces: tuple[bytes | memoryview, ...]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_left_behind(path: Path) -> None:
    """Remove hidden files of the same target whose writer ended long ago without finishing."""
    with suppress(OSError):
        for part in path.parent.iterdir():
            is_ours = part.name.startswith(_part_prefix(path)) and part.name.endswith(_PART_SUFFIX)
            if is_ours and time.time() - part.stat().st_mtime > _LEFT_BEHIND_S:
                remove(part)


def read_regular(path: Path, most_bytes: int) -> bytes:
    """All bytes of a regular file; a device, a pipe or a file above the limit is refused in one sentence."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer would block
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"cannot read {path}: expected a file, got {_kind(status.st_mode)}")
        if status.st_size > most_bytes:
            raise DataError(f"cannot read {path}: expected at most {most_bytes} bytes, got {status.st_size}")
        with open(handle, "rb", closefd=False) as file:
            return file.read(most_bytes)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    finally:
        os.close(handle)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, open to their owner alone; leaves one that exists as it is."""
    path = Path(path)
    for folder in [*reversed(path.parents), path]:
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


def remove(path: Path) -> bool:
    """Remove a file; False when it was not there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Push the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
