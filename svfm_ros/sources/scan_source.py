"""What every reader of scans returns: the scans in the order of the file, and what could not be read.

Also reads files that may be packed with gzip, and may end too early.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from svfm_ros.atomic_files import check_regular
from svfm_ros.errors import DataError
from svfm_ros.types import ImuReading, OdometryReading, Scan

__all__ = ["MOST_NS", "Measured", "ScanSource", "Warn", "read_bytes", "read_head"]

MOST_NS = 2**62
"""Stamps are less than this from zero (it is the year 2116): their differences fit in 64 bits."""

Measured = Scan | ImuReading | OdometryReading
Warn = Callable[[str], None]


@dataclass(slots=True)
class ScanSource:
    """Scans from a file; may be read as often as wanted.

    ``count`` and ``duration_s`` come from the file's header or index, ``None`` where it has none. ``warnings`` grows
    while the scans are read: each is one sentence about something left out.
    """

    path: Path
    kind: str
    read: Callable[[Warn], Iterator[Scan]]
    count: int | None = None
    duration_s: float | None = None
    warnings: list[str] = field(default_factory=list)
    read_all: Callable[[Warn], Iterator[Measured]] | None = None  # scans with IMU and odometry, where there are any

    def messages(self) -> Iterator[Measured]:
        """Scans, and readings of an IMU and of odometry between them, in the order of their arrival."""
        return (self.read_all or self.read)(self.warn)

    def warn(self, sentence: str) -> None:
        """Note something that could not be read; each sentence is kept once."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def __iter__(self) -> Iterator[Scan]:
        return self.read(self.warn)

    def __len__(self) -> int:
        if self.count is None:
            raise TypeError(f"{self.path} does not say how many scans it holds")
        return self.count


_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20
_HEAD_BYTES = 4096
_MOST_BYTES = 1 << 30


def read_head(path: Path) -> bytes:
    """The first bytes of a file, unpacked where it is gzip; refuses a file that is missing or empty."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not head:
        raise DataError(f"{path} is empty: expected a recording of scans")
    return zlib.decompressobj(31).decompress(head, _HEAD_BYTES) if _is_sound_gzip(head) else head


def _is_sound_gzip(head: bytes) -> bool:
    if not head.startswith(_GZIP_MAGIC):
        return False
    try:
        zlib.decompressobj(31).decompress(head)
    except zlib.error:
        return False
    return True


def read_bytes(path: Path, warn: Warn) -> bytes:
    """The whole file, unpacked where it is gzip; of a damaged one, all that comes before the damage."""
    data = path.read_bytes()
    if not data.startswith(_GZIP_MAGIC):
        return data
    parts: list[bytes] = []
    size = 0
    try:
        with gzip.open(path) as file:
            while block := file.read1(_BLOCK):
                parts.append(block)
                size += len(block)
                if size > _MOST_BYTES:
                    raise DataError(f"{path}: expected at most {_MOST_BYTES} bytes when unpacked, got more")
    except (EOFError, OSError, zlib.error):
        warn(f"{path} is cut off or damaged: what comes before the damage was read")
    return b"".join(parts)
