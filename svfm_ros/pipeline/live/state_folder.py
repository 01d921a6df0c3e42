"""The folder in which stores, maps and models are kept by default: readable by its owner alone."""

import os
import stat
from pathlib import Path

from svfm_ros.atomic_files import make_folder
from svfm_ros.errors import UsageError

__all__ = ["default_store", "make_private_folder"]


def default_store(name: str) -> Path:
    """``~/.local/state/svfm_ros/NAME``, or below ``$XDG_STATE_HOME``; it need not exist."""
    base = os.environ.get("XDG_STATE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".local" / "state"
    except RuntimeError as error:  # HOME is not set, and the user is not known to the system
        raise UsageError("cannot find your home folder: set HOME or XDG_STATE_HOME") from error
    return folder / "svfm_ros" / name


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
