"""Where launch files, configuration and maps are: beside the sources, or under ``share/svfm_ros`` once installed."""

import os
import sys
from pathlib import Path

from svfm_ros.errors import UsageError

__all__ = ["share_file"]


def _share_folders() -> list[Path]:
    """The source tree first: whoever runs from it wants the files that belong to it."""
    prefixes = [p for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    installed = [Path(prefix) / "share" / "svfm_ros" for prefix in [*prefixes, sys.prefix]]
    return [Path(__file__).resolve().parent.parent, *installed]


def share_file(relative: str) -> Path:
    """A file such as ``maps/house.yaml`` that came with the package."""
    folders = [f for f in _share_folders() if (f / "package.xml").is_file()]
    for folder in folders:
        if (folder / relative).exists():
            return folder / relative
    looked = ", ".join(map(str, folders)) or "no installation of svfm_ros"
    raise UsageError(f"expected {relative} among the package's shared files, but it is not in {looked}")
