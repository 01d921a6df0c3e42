"""Mapping that outlives the program: save now and then, and go on later in the same map.

``slam.state()`` is quick and may be called between two scans; ``write_state`` takes longer and may run in a thread.
After ``restore`` the first scans are looked for in the whole map; mapping goes on from where they are found.
"""

from pathlib import Path

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.state_file import SlamState, read_state, write_state

__all__ = ["SlamState", "restore", "save_state", "write_state"]


def save_state(slam: Slam, path: Path) -> None:
    """Write the state of mapping to a file, which is replaced in one step; to be called between two scans."""
    write_state(slam.state(), path)


def restore(path: Path, config: SlamConfig | None = None, *, background: bool = False) -> Slam:
    """Mapping as it was when the file was written; a damaged or newer file is refused with a ``DataError``."""
    return Slam.resumed(read_state(path), config, background=background)
