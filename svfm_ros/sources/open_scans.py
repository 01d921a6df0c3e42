"""The one door for recordings of scans: looks at what a file is, not only at its name."""

from pathlib import Path

from svfm_ros.errors import DataError
from svfm_ros.sources.bag_scans import open_rosbag
from svfm_ros.sources.carmen import looks_like_carmen, open_carmen
from svfm_ros.sources.damaged_bags import BAG1_MAGIC, MCAP_MAGIC
from svfm_ros.sources.npz_scans import open_npz
from svfm_ros.sources.rawlog import looks_like_rawlog, open_rawlog
from svfm_ros.sources.scan_source import ScanSource
from svfm_ros.sources.text_file import read_head

__all__ = ["open_scans"]

_WANTED = "a rosbag2 folder, .mcap, .db3, a ROS 1 .bag, a CARMEN log, an MRPT rawlog or an .npz of scans"
_SQLITE_MAGIC = b"SQLite format 3\0"


def open_scans(path: Path | str, topic: str | None = None) -> ScanSource:
    """Scans of a recording, whatever its format; ``topic`` chooses in a bag with several LiDARs.

    Raises ``DataError`` with one sentence where the file holds no scans. Of a damaged file, what can be read is
    yielded, and ``warnings`` says what was lost.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"cannot read {path}: there is no such file or folder")
    source = open_rosbag(path, topic) if path.is_dir() else _open_file(path, topic)
    if source.count == 0:
        raise DataError(f"{path} holds no scans")
    return source


def _open_file(path: Path, topic: str | None) -> ScanSource:
    head = read_head(path)
    if head.startswith(BAG1_MAGIC):
        _need_suffix(path, ".bag")
        return open_rosbag(path, topic)
    if head.startswith(MCAP_MAGIC):
        _need_suffix(path, ".mcap")
        return open_rosbag(path, topic)
    if head.startswith(_SQLITE_MAGIC):
        _need_suffix(path, ".db3")
        return open_rosbag(path, topic)
    if head.startswith(b"PK\x03\x04") or path.suffix == ".npz":
        return open_npz(path)
    if looks_like_rawlog(head):
        return open_rawlog(path)
    if looks_like_carmen(head):
        return open_carmen(path)
    raise DataError(f"{path}: expected {_WANTED}, got a file that is none of these")


def _need_suffix(path: Path, suffix: str) -> None:
    if path.suffix != suffix:
        raise DataError(f"{path} looks like a bag: name it *{suffix} to have it read")
