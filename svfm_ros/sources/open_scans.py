"""Opens recordings of scans of every format, by their content rather than by their name.

An ``.npz`` of scans is a NumPy archive with ``stamps_ns (T,)``, ``ranges (T, N)`` and the numbers that all scans share.
"""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.sources.bag_scans import open_rosbag
from svfm_ros.sources.carmen import looks_like_carmen, open_carmen
from svfm_ros.sources.damaged_bags import BAG1_MAGIC, MCAP_MAGIC, SQLITE_MAGIC
from svfm_ros.sources.rawlog import looks_like_rawlog, open_rawlog
from svfm_ros.sources.scan_source import MOST_NS, ScanSource, Warn, read_head
from svfm_ros.types import Scan

__all__ = ["open_npz", "open_scans", "save_scans"]

_SHARED = ("angle_min", "angle_step", "range_min", "range_max", "scan_time_s", "time_increment_s")
_MOST_BYTES = 1 << 30
_REQUIRED = ("stamps_ns", "ranges", "angle_min", "angle_step", "range_min", "range_max")


def save_scans(scans: Iterable[Scan], path: Path) -> None:
    """Write scans of one sensor; all must have the same beams."""
    kept = list(scans)
    if not kept:
        raise DataError(f"expected at least one scan to write to {path}, got none")
    first = kept[0]
    shared = {name: getattr(first, name) for name in _SHARED}
    if any(len(s.ranges) != len(first.ranges) or s.angle_step != first.angle_step for s in kept):
        raise DataError("expected scans with the same beams, got some that differ: use a bag for those")
    np.savez_compressed(path, stamps_ns=[s.stamp_ns for s in kept], ranges=np.stack([s.ranges for s in kept]), **shared)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
        if size <= _MOST_BYTES:
            with np.load(path, allow_pickle=False) as archive:
                return {name: np.asarray(archive[name]) for name in archive.files}
    # zipfile and NumPy report damage by more errors than they document.
    except Exception as error:
        raise DataError(f"{path} is not a NumPy archive that can be read: {error}") from error
    raise DataError(f"{path}: expected at most {_MOST_BYTES} bytes when unpacked, got {size}")


def open_npz(path: Path) -> ScanSource:
    """Scans of an archive that ``save_scans`` wrote."""
    fields = _arrays(path)
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        got = ", ".join(sorted(fields)) or "nothing"
        raise DataError(f"{path}: expected scans with {', '.join(_REQUIRED)}; {missing[0]} is missing, got {got}")
    wrong = [name for name, array in fields.items() if array.dtype.kind not in "iuf"]
    wrong += [name for name in _SHARED if name in fields and fields[name].size != 1]
    if wrong:
        raise DataError(
            f"{path}: expected numbers in {wrong[0]}, got {fields[wrong[0]].dtype} {fields[wrong[0]].shape}"
        )
    with np.errstate(over="ignore"):  # 1e300 m is infinite: no echo
        stamps_ns, ranges = np.asarray(fields["stamps_ns"]), np.asarray(fields["ranges"], dtype=np.float32)
    if ranges.ndim != 2 or stamps_ns.shape != ranges.shape[:1] or not len(ranges):
        raise DataError(f"{path}: expected stamps (T,) and ranges (T, N), got {stamps_ns.shape} and {ranges.shape}")
    if not np.all(np.abs(stamps_ns.astype(float)) < MOST_NS):  # NaN fails as well
        raise DataError(f"{path}: expected stamps in nanoseconds since 1970, got some that are no times")
    shared: dict[str, Any] = {name: float(fields[name].item()) for name in _SHARED if name in fields}

    def read(_: Warn) -> Iterator[Scan]:
        for stamp_ns, row in zip(stamps_ns, ranges, strict=True):
            yield Scan(int(stamp_ns), row, **shared)

    return ScanSource(path, "npz", read, len(ranges), float(stamps_ns[-1] - stamps_ns[0]) / NS_PER_S)


_WANTED = "a rosbag2 folder, .mcap, .db3, a ROS 1 .bag, a CARMEN log, an MRPT rawlog or an .npz of scans"


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
    if head.startswith(SQLITE_MAGIC):
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
