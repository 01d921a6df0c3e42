"""The folder in which stores, maps and models are kept by default: readable by its owner alone."""

import os
import stat
from pathlib import Path

from svfm_ros.atomic_files import make_folder
from svfm_ros.errors import UsageError

__all__ = ["default_store", "make_private_folder"]


def default_store(name: str) -> Path:
    """``~/.local/state/svfm_ros/NAME``, or below ``$XDG_STATE_HOME``; it need not exist."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "svfm_ros" / name


def make_private_folder(path: Path) -> None:
    """Make a folder (mode 0700) with its parents; raises where it is no folder or belongs to another user."""
    try:
        make_folder(path)
        status = path.stat()
    except OSError as error:
        raise UsageError(f"cannot make the folder {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"expected a folder, got a file at {path}")
    if status.st_uid != os.getuid():
        raise UsageError(f"expected a folder of your own, but {path} belongs to another user")
