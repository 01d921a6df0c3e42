"""Scans as one NumPy archive: ``stamps_ns (T,)``, ``ranges (T, N)`` and the numbers that all scans share."""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.sources.scan_source import ScanSource, Warn
from svfm_ros.types import Scan

__all__ = ["open_npz", "save_scans"]

_SHARED = ("angle_min", "angle_step", "range_min", "range_max", "scan_time_s", "time_increment_s")
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


def open_npz(path: Path) -> ScanSource:
    """Scans of an archive that ``save_scans`` wrote."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            fields = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path} is not a NumPy archive that can be read: {error}") from error
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        got = ", ".join(sorted(fields)) or "nothing"
        raise DataError(f"{path}: expected scans with {', '.join(_REQUIRED)}; {missing[0]} is missing, got {got}")
    stamps_ns, ranges = np.asarray(fields["stamps_ns"]), np.asarray(fields["ranges"], dtype=np.float32)
    if ranges.ndim != 2 or stamps_ns.shape != ranges.shape[:1] or not len(ranges):
        raise DataError(f"{path}: expected stamps (T,) and ranges (T, N), got {stamps_ns.shape} and {ranges.shape}")
    shared = {name: float(fields[name]) for name in _SHARED if name in fields}

    def read(_: Warn) -> Iterator[Scan]:
        for stamp_ns, row in zip(stamps_ns, ranges, strict=True):
            yield Scan(int(stamp_ns), row, **shared)

    return ScanSource(path, "npz", read, len(ranges), float(stamps_ns[-1] - stamps_ns[0]) / NS_PER_S)
