"""Files that are either whole or not there, also when the power fails while they are written.

The bytes go to a hidden file beside the target and are pushed to the disk; only then does the file get its name, and
the folder is pushed to the disk in turn. A name therefore never stands for half a file, and what is written stays.
"""

import ctypes
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PART_SUFFIX", "publish", "remove", "stage", "sync_folder", "write_whole"]

PART_SUFFIX = ".part"
"""Ends the name of a file that is still being written; one that is found after a crash can go."""

_MANY = 16  # from so many files on, pushing the whole file system to the disk is quicker than file by file


def write_whole(path: Path, *pieces: bytes | memoryview) -> None:
    """Write or replace a file, piece after piece; when this returns the file is on the disk."""
    (part,) = _stage(path.parent, [pieces])
    publish(part, path)
    sync_folder(path.parent)


def stage(folder: Path, contents: Sequence[bytes]) -> list[Path]:
    """Put files on the disk under passing names; returns the names. ``publish`` gives them their own."""
    return _stage(folder, [(data,) for data in contents])


def _stage(folder: Path, contents: Sequence[Sequence[bytes | memoryview]]) -> list[Path]:
    parts: list[Path] = []
    try:
        for pieces in contents:
            parts.append(folder / f".{uuid.uuid4().hex}{PART_SUFFIX}")
            _write(parts[-1], pieces)
        if len(parts) < _MANY or not _sync_file_system(folder):
            for part in parts:
                _sync(part, os.O_WRONLY)
    except BaseException:
        for part in parts:
            remove(part)
        raise
    return parts


def _write(path: Path, pieces: Sequence[bytes | memoryview]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[os.write(handle, view) :]
    finally:
        os.close(handle)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file_system(folder: Path) -> bool:
    """Push everything in the folder's file system to the disk; False where the platform cannot."""
    syncfs = getattr(ctypes.CDLL(None), "syncfs", None)
    if syncfs is None:
        return False
    handle = os.open(folder, os.O_RDONLY)
    try:
        return int(syncfs(handle)) == 0
    finally:
        os.close(handle)


def publish(part: Path, path: Path) -> None:
    """Give a staged file its name, in one step; ``sync_folder`` makes the name last."""
    os.replace(part, path)


def remove(path: Path) -> bool:
    """Take a file away; False when it was not there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)
