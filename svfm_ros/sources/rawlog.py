"""MRPT rawlogs, packed with gzip or not: the ``CObservation2DRangeScan`` objects in them.

A rawlog is a stream of objects of many classes. Only the range scans are decoded; they are found by their class name,
so unknown classes do no harm. Older rawlogs were converted from other logs and carry the time of the conversion
instead of that of the measurement; such stamps are replaced by even ones.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.sources.scan_source import ScanSource, Warn, read_bytes
from svfm_ros.types import Scan

__all__ = ["SYNTHETIC_PERIOD_S", "looks_like_rawlog", "open_rawlog"]

SYNTHETIC_PERIOD_S = 1.0
"""Seconds between scans where the log has no usable stamps; converted logs were thinned to about this."""

_CLASS = re.compile(rb"[\x97\xa2](?:mrpt::obs::)?CObservation2DRangeScan")
_OBJECT = re.compile(rb"[\x80-\xff](?:mrpt::(?:obs|poses|math)::)?C[A-Z]")
_EPOCH_1601_S = 11_644_473_600  # MRPT counts 100 ns since 1601
_RANGE_MIN_M = 0.02
_MOST_BEAMS = 100_000
_MOST_TICKS = 2**57  # the year 2057; a larger stamp is damaged, and would not fit in nanoseconds
# Stamps of a real recording seldom repeat; those of a conversion come in bunches of the clock's ticks.
_MOST_REPEATED = 0.05


class _Cursor:
    """Reads little-endian values one after another; ``struct.error`` when the data end."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, code: str) -> tuple[float, ...]:
        layout = "<" + code
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def number(self, code: str) -> int:
        return int(self.take(code)[0])

    def skip(self, size: int) -> None:
        self.at += size

    def object_header(self) -> tuple[str, int]:
        """Class name and version of the object that starts here."""
        length = self.number("B") & 0x7F
        name = self.data[self.at : self.at + length].decode("ascii", "replace")
        self.at += length
        return name.rpartition("::")[2], self.number("B")


@dataclass(frozen=True, slots=True)
class _Observation:
    scan: Scan
    ticks: int  # as stored: 100 ns since 1601


def looks_like_rawlog(head: bytes) -> bool:
    """Whether the first bytes are those of an MRPT stream of objects."""
    return _OBJECT.match(head) is not None


def open_rawlog(path: Path) -> ScanSource:
    """Scans of a rawlog."""
    source = ScanSource(path, "rawlog", iter)  # type: ignore[arg-type]
    data = read_bytes(path, source.warn)
    starts = [m.end() for m in _CLASS.finditer(data)]
    if not starts:
        raise DataError(f"{path}: expected an MRPT rawlog with CObservation2DRangeScan objects, got none")
    stamps_ns = _stamps(path, data, starts, source.warn)
    source.read = lambda warn: _scans(path, data, starts, stamps_ns, warn)
    source.count, source.duration_s = len(starts), (stamps_ns[-1] - stamps_ns[0]) / NS_PER_S
    return source


def _scans(path: Path, data: bytes, starts: list[int], stamps_ns: list[int], warn: Warn) -> Iterator[Scan]:
    broken = 0
    for start, stamp_ns in zip(starts, stamps_ns, strict=True):
        seen = _parse(data, start)
        if seen is None:
            broken += 1
        else:
            yield replace(seen.scan, stamp_ns=stamp_ns)
    if broken:
        warn(f"{path}: {broken} of {len(starts)} scans could not be read and were left out")


def _stamps(path: Path, data: bytes, starts: list[int], warn: Warn) -> list[int]:
    """The log's own stamps, or even ones where those cannot be times of measurements."""
    seen = [_parse(data, start) for start in starts]
    ticks = np.array([-1 if s is None else s.ticks for s in seen], dtype=np.int64)
    good = ticks[ticks >= 0]
    if not good.size:
        raise DataError(f"{path}: none of its {len(starts)} scans could be read")
    repeated = float(np.mean(np.diff(good) <= 0)) if good.size > 1 else 0.0
    if repeated <= _MOST_REPEATED and np.all(good >= _EPOCH_1601_S * 10_000_000):
        return [int(t) * 100 - _EPOCH_1601_S * NS_PER_S for t in ticks]
    warn(f"{path} has no usable stamps: scans are taken to be {SYNTHETIC_PERIOD_S:g} s apart")
    return [round(i * SYNTHETIC_PERIOD_S * NS_PER_S) for i in range(len(starts))]


def _parse(data: bytes, start: int) -> _Observation | None:
    """The scan whose class name ends at ``start``; ``None`` where it is cut off or of an unknown version."""
    try:
        return _parse_scan(_Cursor(data, start))
    except (struct.error, ValueError, OverflowError):
        return None


def _parse_scan(cursor: _Cursor) -> _Observation | None:
    version = cursor.number("B")
    if not 4 <= version <= 8:
        return None
    aperture_rad, counter_clockwise, longest_m = cursor.take("fBf")
    _skip_pose3d(cursor)
    n = cursor.number("I")
    if not 0 < n <= _MOST_BEAMS:
        return None
    ranges = np.array(cursor.take(f"{n}f"), dtype=np.float32)  # (N,)
    valid = np.array(cursor.take(f"{n}B"), dtype=bool)
    cursor.skip(4)  # standard deviation of a range
    ticks = min(cursor.number("Q"), _MOST_TICKS)
    ranges[~valid] = np.inf
    step = aperture_rad / max(n - 1, 1)
    ordered = ranges if counter_clockwise else ranges[::-1].copy()
    return _Observation(Scan(0, ordered, -aperture_rad / 2, step, _RANGE_MIN_M, longest_m), ticks)


def _skip_pose3d(cursor: _Cursor) -> None:
    """Skip the pose of the sensor on the robot, stored in one of four ways; it is not needed without odometry."""
    name, version = cursor.object_header()
    if name != "CPose3D":
        raise ValueError(name)
    if version <= 1:  # a matrix, 4 x 4: of floats at first, then of doubles
        cursor.object_header()
        rows, columns = cursor.take("II")
        cursor.skip(int(rows * columns) * (4 if version == 0 else 8) + 1)
    else:  # a quaternion, then a rotation matrix
        cursor.skip((7 if version == 2 else 12) * 8)
    cursor.skip(1)  # end of object
