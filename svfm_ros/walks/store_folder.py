"""The folder of a walk store: what may be in it, and one sentence for each folder that will not do."""

import logging
from pathlib import Path

from svfm_ros.errors import DataError
from svfm_ros.walks.old_store import is_old_store
from svfm_ros.walks.store_database import DATABASE

__all__ = ["check_folder", "check_room", "is_in_old_format", "is_store", "warn_if_open_to_others"]

_NEIGHBOURS = ("*.state", "*.session", "*.unusable", "*.pt", "*.tables", "*.key", ".*")  # kept in the folder by nodes

_log = logging.getLogger(__name__)
_warned: set[Path] = set()


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
    strangers = [p.name for p in inside if not any(p.match(pattern) for pattern in own)]
    if strangers:
        raise DataError(f"expected a new or empty folder for the walk store, but {path} holds {min(strangers)!r}")


def warn_if_open_to_others(folder: Path) -> None:
    """Say once how to close a folder that other users of the machine can look into."""
    try:
        is_open = folder.stat().st_mode & 0o077 and (folder / DATABASE).stat().st_mode & 0o077
    except OSError:
        return
    if is_open and folder not in _warned:
        _warned.add(folder)
        _log.warning("others can read the walks in %s: close it with: chmod -R go= %s", folder, folder)
