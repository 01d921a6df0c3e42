"""Files that may be packed with gzip, and may end too early."""

import gzip
import zlib
from pathlib import Path

from svfm_ros.errors import DataError
from svfm_ros.sources.scan_source import Warn

__all__ = ["read_bytes", "read_head"]

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20


def read_head(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a file, unpacked where it is gzip; refuses a file that is missing or empty."""
    try:
        with path.open("rb") as file:
            head = file.read(size)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    if not head:
        raise DataError(f"{path} is empty: expected a recording of scans")
    return zlib.decompressobj(31).decompress(head, size) if _is_sound_gzip(head) else head


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
    try:
        with gzip.open(path) as file:
            while block := file.read1(_BLOCK):
                parts.append(block)
    except (EOFError, OSError, zlib.error):
        warn(f"{path} is cut off or damaged: what comes before the damage was read")
    return b"".join(parts)
