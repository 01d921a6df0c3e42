"""Private files that are either whole or not there, also when the power fails while they are written.

The bytes go to a hidden file beside the target and are pushed to the disk; only then does the file get its name, and
the folder is pushed to the disk in turn. So a file is never seen half written, and what was written is not lost.
Hidden files belong to their writer: nobody else removes one, unless it was left behind a day ago or earlier.

Files are readable by their owner alone (0600), folders made here as well (0700): they show where a person walks.
"""

import os
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from svfm_ros.errors import DataError, UsageError

__all__ = ["check_output", "check_output_folder", "check_regular", "make_folder", "read_regular", "read_yaml"]
__all__ += ["previous_of", "remove", "sync_folder", "write_whole", "writing"]

_PART_SUFFIX = ".part"
_LEFT_BEHIND_S = 86400.0
_LONGEST_NAME = 100  # of the target, within the hidden name; file systems end at 255 bytes
_LEAST_ROOM = 1 << 20  # bytes that must be free before work begins
_MOST_YAML_BYTES = 1 << 20
_SQLITE = b"SQLite format 3\0"


def write_whole(path: Path, *pieces: bytes | memoryview, keeps_previous: bool = False) -> None:
    """Write or replace a file, piece after piece; when this returns the file is on the disk.

    With ``keeps_previous`` the file that is replaced stays under another name: should the new one be damaged, that one
    can be read. Refuses to replace what is no regular file, such as a device.
    """
    path = Path(path)
    _check_replaceable(path)
    part = path.parent / f"{_part_prefix(path)}{uuid.uuid4().hex}{_PART_SUFFIX}"
    try:
        _write(part, pieces)
        if keeps_previous:
            _keep_previous(path)
        os.replace(part, path)
    except BaseException:
        remove(part)
        raise
    sync_folder(path.parent)
    _remove_left_behind(path)


def previous_of(path: Path) -> Path:
    """Where ``write_whole`` keeps the file before this one: ``map.before.state`` beside ``map.state``."""
    return path.with_suffix(f".before{path.suffix}")


def _keep_previous(path: Path) -> None:
    """Give a file a second name; only when the new one is on the disk, or both names would be those of one file."""
    if path.is_file():
        link = path.parent / f"{_part_prefix(path)}{uuid.uuid4().hex}{_PART_SUFFIX}"
        os.link(path, link)
        os.replace(link, previous_of(path))
        remove(link)  # where both are one file already, replacing does nothing


def _check_replaceable(path: Path) -> None:
    """Refuse to replace what is no regular file, such as a device, and what is a database, such as a walk store."""
    if path.exists() and not path.is_file():
        raise DataError(f"cannot write {path}: expected a file, got {_kind(path.stat().st_mode)}")
    if path.is_symlink():  # /dev/stdout is one; the link would be replaced, not the file
        raise DataError(f"cannot write {path}: expected a file, got a symbolic link")
    if path.is_file() and _begins_with(path, _SQLITE):
        raise DataError(f"cannot write {path}: it is a database, such as a walk store")


def _begins_with(path: Path, start: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def check_output(path: Path, room: int = _LEAST_ROOM, read: Iterable[Path] = ()) -> None:
    """Refuse, before the work, a file that could not be written after it; ``room`` is in bytes. Writes nothing.

    ``read`` are the files that the work reads: none of them is replaced.
    """
    _check_replaceable(Path(path))
    if Path(path).exists() and any(other.exists() and other.samefile(path) for other in read):
        raise UsageError(f"cannot write {path}: it is what is read, and would be lost")
    _check_room(Path(path), Path(path).absolute().parent, room)


def check_output_folder(path: Path, room: int = _LEAST_ROOM) -> None:
    """Refuse, before the work, a folder that could not be made or written to; ``room`` is in bytes. Makes nothing."""
    _check_room(Path(path), Path(path).absolute(), room)


def _check_room(path: Path, folder: Path, room: int) -> None:
    """Allocate the room in a hidden file in the folder, or in the nearest one above it that exists."""
    try:
        if "\0" in str(path):
            raise ValueError("expected a name without null characters")
        while not os.path.lexists(folder):
            folder = folder.parent
        part = folder / f".{uuid.uuid4().hex}{_PART_SUFFIX}"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.unlink(part)
            os.posix_fallocate(handle, 0, room)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:  # ValueError: null characters
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


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


def check_regular(path: Path) -> None:
    """Refuse what is no regular file, such as a pipe, which would block its reader."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise DataError(f"cannot read {path}: expected a file, got {_kind(mode)}")


def read_regular(path: Path, most_bytes: int, *, follow_link: bool = True) -> bytes:
    """All bytes of a regular file; a device, a pipe or a file above the limit is refused in one sentence.

    What was opened is what is checked and read, whatever gets this name meanwhile. Without ``follow_link`` a symbolic
    link is refused: for paths that were checked to be inside a folder.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK  # a pipe without a writer would block
    try:
        handle = os.open(path, flags if follow_link else flags | os.O_NOFOLLOW)
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


def read_yaml(path: Path, what: str) -> Any:
    """The plain data of a YAML file; ``what`` names the file in error messages, such as "a map"."""
    import yaml

    data = read_regular(Path(path), _MOST_YAML_BYTES)
    try:
        return yaml.safe_load(data.decode())
    except RecursionError as error:
        raise DataError(f"{path} is not {what} in YAML: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, or a date such as 2026-13-45
        raise DataError(f"{path} is not {what} in YAML: {' '.join(str(error).split())[:200]}") from error


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of an output; within the block, an error of the disk becomes a sentence with its path."""
    try:
        make_folder(Path(path).absolute().parent)
        yield
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


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
