"""Paths of launch files, configuration and maps: in the source tree, or under ``share/svfm_ros`` when installed."""

import os
import sys
from pathlib import Path

from svfm_ros.errors import UsageError

__all__ = ["share_file", "version"]


def _share_folders() -> list[Path]:
    """Candidates for the shared folder; the source tree comes first, for those who run from it."""
    prefixes = [p for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    installed = [Path(prefix) / "share" / "svfm_ros" for prefix in [*prefixes, sys.prefix]]
    return [Path(__file__).resolve().parent.parent, *installed]


def share_file(relative: str) -> Path:
    """Path of a file that comes with the package, such as ``maps/house.yaml``."""
    folders = [f for f in _share_folders() if (f / "package.xml").is_file()]
    for folder in folders:
        if (folder / relative).exists():
            return folder / relative
    looked = ", ".join(map(str, folders)) or "no installation of svfm_ros"
    raise UsageError(f"expected {relative} among the package's shared files, but it is not in {looked}")


def version() -> str:
    """The version as in package.xml; ``0+source`` where the package is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("svfm_ros")
    except PackageNotFoundError:
        return "0+source"
