"""Files that are either whole or not there, also when the power fails while they are written.

The bytes go to a hidden file beside the target and are pushed to the disk; only then does the file get its name, and
the folder is pushed to the disk in turn. A name therefore never stands for half a file, and what is written stays.
"""

import os
import uuid
from pathlib import Path

__all__ = ["PART_SUFFIX", "publish", "remove", "stage", "sync_folder", "write_whole"]

PART_SUFFIX = ".part"
"""Ends the name of a file that is still being written; one that is found after a crash can go."""


def write_whole(path: Path, data: bytes) -> None:
    """Write or replace a file; when this returns the file is on the disk."""
    publish(stage(path, data), path)
    sync_folder(path.parent)


def stage(path: Path, data: bytes) -> Path:
    """Put the bytes on the disk beside ``path`` under a passing name; returns that name."""
    part = path.parent / f".{uuid.uuid4().hex}{PART_SUFFIX}"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except BaseException:
        os.close(handle)
        os.unlink(part)
        raise
    os.close(handle)
    return part


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
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
