"""Messages out of damaged bags, read from front to back without their index.

A recorder that was killed leaves a bag without an index; full disks and old converters damage other parts. The messages
are in chunks, which can be read one after another. What cannot be read is skipped and reported.
"""

import bz2
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svfm_ros.atomic_files import check_regular
from svfm_ros.errors import DataError
from svfm_ros.sources.scan_source import Warn

__all__ = ["RawMessage", "check_bag_files", "mcap_messages", "rosbag1_messages"]

BAG1_MAGIC = b"#ROSBAG V2.0\n"
SQLITE_MAGIC = b"SQLite format 3\0"
MCAP_MAGIC = b"\x89MCAP0\r\n"

_OP_MESSAGE, _OP_CHUNK, _OP_CONNECTION = 2, 5, 7
_CHUNK_MARK = b"\x04\x00\x00\x00op=\x05"
_LONGEST_HEADER = 100_000
_MOST_UNPACKED = 1 << 28  # bytes of one chunk; recorders begin a new one after a few megabytes

_MCAP_SCHEMA, _MCAP_CHANNEL, _MCAP_MESSAGE, _MCAP_CHUNK, _MCAP_DATA_END = 3, 4, 5, 6, 15


@dataclass(frozen=True, slots=True)
class RawMessage:
    """One message as stored."""

    topic: str
    msgtype: str  # as ROS 2 writes it: sensor_msgs/msg/LaserScan
    stamp_ns: int  # when it was recorded
    data: bytes

    @classmethod
    def read(cls, topic: str, msgtype: str, stamp_ns: object, data: Any) -> "RawMessage":
        """From the columns of a database, which may be of any type; raises where they are of another."""
        if not isinstance(stamp_ns, int):
            raise TypeError(f"expected a stamp, got {type(stamp_ns).__name__}")
        return cls(topic, msgtype, stamp_ns, bytes(memoryview(data)))  # bytes(10**12) would be a terabyte


@dataclass(frozen=True, slots=True)
class _Record:
    header: dict[str, bytes]
    data: bytes
    end: int
    cut: bool = False

    @property
    def op(self) -> int:
        return self.header.get("op", b"\0")[0]


def check_bag_files(path: Path) -> None:
    """Refuse a bag (folder or file) with a pipe, a device or an SQL view in it: reading it might never end."""
    for part in path.iterdir() if path.is_dir() else [path]:
        if not part.is_dir():
            check_regular(part)
            _refuse_views(part)


def _refuse_views(path: Path) -> None:
    """Refuse views, triggers and virtual tables, which run code; other files than databases are not checked here."""
    with path.open("rb") as file:
        if file.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
            return
    # UnicodeError: SQLite quotes damaged names in its messages
    with (
        suppress(sqlite3.Error, UnicodeError),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as db,
    ):
        if db.execute("SELECT count(*) FROM sqlite_schema WHERE rootpage = 0").fetchone()[0]:
            raise DataError(f"{path}: expected tables alone, got views, triggers or virtual tables")


def rosbag1_messages(path: Path, warn: Warn) -> Iterator[RawMessage]:
    """Messages of a ROS 1 bag, chunk by chunk; index records are not looked at."""
    data = path.read_bytes()
    connections: dict[int, tuple[str, str]] = {}
    at, lost = len(BAG1_MAGIC), False
    read_to = at  # chunks before this offset were read; an index record of wrong length may reach past the next one
    while at < len(data):
        record = _bag1_record(data, at) or _cut_chunk(data, at)
        lost = lost or record is None or record.cut
        if record is None:
            at = read_to = _next_chunk(data, read_to)
            continue
        yield from _bag1_messages(record, connections, path, warn)
        at = record.end
        read_to = at if record.op == _OP_CHUNK else read_to
    if lost:
        warn(f"{path}: the bag is cut off or its index is damaged; its chunks were read one by one")


def _bag1_messages(
    record: _Record, connections: dict[int, tuple[str, str]], path: Path, warn: Warn
) -> Iterator[RawMessage]:
    if record.op == _OP_CHUNK:
        try:
            yield from _bag1_stream(_unpack(record.data, record.header["compression"].decode()), connections)
        except (OSError, ValueError, RuntimeError, KeyError, EOFError) as error:
            warn(f"{path}: a chunk could not be unpacked and was left out ({error})")
    elif record.op == _OP_CONNECTION:
        _note_connection(record, connections)
    elif record.op == _OP_MESSAGE:
        yield from _bag1_message(record, connections)


def _bag1_stream(data: bytes, connections: dict[int, tuple[str, str]]) -> Iterator[RawMessage]:
    at = 0
    while (record := _bag1_record(data, at)) is not None:
        if record.op == _OP_CONNECTION:
            _note_connection(record, connections)
        elif record.op == _OP_MESSAGE:
            yield from _bag1_message(record, connections)
        at = record.end


def _bag1_message(record: _Record, connections: dict[int, tuple[str, str]]) -> Iterator[RawMessage]:
    known = connections.get(_conn(record))
    if known is not None and len(record.header.get("time", b"")) == 8:
        seconds, nanoseconds = struct.unpack("<II", record.header["time"])
        yield RawMessage(*known, seconds * 1_000_000_000 + nanoseconds, record.data)


def _note_connection(record: _Record, connections: dict[int, tuple[str, str]]) -> None:
    inner = _bag1_fields(record.data) or {}
    package, _, name = inner.get("type", b"").decode("utf-8", "replace").partition("/")
    connections[_conn(record)] = (record.header.get("topic", b"").decode("utf-8", "replace"), f"{package}/msg/{name}")


def _conn(record: _Record) -> int:
    return int.from_bytes(record.header.get("conn", b"\xff\xff\xff\xff"), "little")


def _bag1_record(data: bytes, at: int, may_be_cut: bool = False) -> _Record | None:
    """The record that starts here; ``None`` where there is none."""
    if at + 8 > len(data):
        return None
    (header_size,) = struct.unpack_from("<I", data, at)
    body = at + 4 + header_size
    if header_size > _LONGEST_HEADER or body + 4 > len(data):
        return None
    header = _bag1_fields(data[at + 4 : body])
    (data_size,) = struct.unpack_from("<I", data, body)
    end = body + 4 + data_size
    if header is None or len(header.get("op", b"")) != 1 or (end > len(data) and not may_be_cut):
        return None
    return _Record(header, data[body + 4 : end], min(end, len(data)), end > len(data))


def _cut_chunk(data: bytes, at: int) -> _Record | None:
    """The last chunk of a bag that ends within it."""
    record = _bag1_record(data, at, may_be_cut=True)
    return record if record is not None and record.op == _OP_CHUNK and "compression" in record.header else None


def _bag1_fields(header: bytes) -> dict[str, bytes] | None:
    fields: dict[str, bytes] = {}
    at = 0
    while at < len(header):
        if at + 4 > len(header):
            return None
        (size,) = struct.unpack_from("<I", header, at)
        name, equals, value = header[at + 4 : at + 4 + size].partition(b"=")
        if not equals or at + 4 + size > len(header):
            return None
        fields[name.decode("ascii", "replace")] = value
        at += 4 + size
    return fields


def _next_chunk(data: bytes, at: int) -> int:
    """Where the next chunk's record starts, or the end of the data."""
    while (mark := data.find(_CHUNK_MARK, at)) >= 0:
        for start in range(mark - 4, max(mark - 100, at - 1), -1):
            if _cut_chunk(data, start) is not None:
                return start
        at = mark + 1
    return len(data)


def _unpack(data: bytes, compression: str) -> bytes:
    """The chunk's content; of a chunk that was cut off, what comes before the cut."""
    if compression in ("", "none"):
        return data
    if compression == "bz2":
        unpacked = bz2.BZ2Decompressor().decompress(data, _MOST_UNPACKED)
    elif compression == "lz4":
        from lz4.frame import LZ4FrameDecompressor  # type: ignore[import-untyped]

        unpacked = bytes(LZ4FrameDecompressor().decompress(data, _MOST_UNPACKED))
    elif compression == "zstd":
        from backports import zstd  # type: ignore[import-not-found,import-untyped,unused-ignore]

        unpacked = bytes(zstd.ZstdDecompressor().decompress(data, _MOST_UNPACKED))
    else:
        raise ValueError(f"unknown compression {compression!r}")
    if len(unpacked) == _MOST_UNPACKED:
        raise ValueError(f"expected at most {_MOST_UNPACKED} bytes when unpacked, got more")
    return unpacked


def mcap_messages(path: Path, warn: Warn) -> Iterator[RawMessage]:
    """Messages of an MCAP file, record by record, up to where it was cut off."""
    data = path.read_bytes()
    if not data.startswith(MCAP_MAGIC):
        raise DataError(f"{path}: expected an MCAP file, got {data[:8]!r}")
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, int]] = {}
    at = len(MCAP_MAGIC)
    while at + 9 <= len(data):
        op, size = struct.unpack_from("<BQ", data, at)
        body = data[at + 9 : at + 9 + size]
        if op == _MCAP_DATA_END:
            return
        if len(body) == size or op == _MCAP_CHUNK:
            yield from _mcap_record(op, body, schemas, channels, path, warn)
        at += 9 + size
    warn(f"{path} is cut off: what comes before the cut was read")


def _mcap_record(
    op: int, body: bytes, schemas: dict[int, str], channels: dict[int, tuple[str, int]], path: Path, warn: Warn
) -> Iterator[RawMessage]:
    try:
        if op == _MCAP_CHUNK:
            yield from _mcap_chunk(body, schemas, channels, path, warn)
        elif op == _MCAP_SCHEMA:
            schemas[struct.unpack_from("<H", body)[0]] = _text(body, 2)[0]
        elif op == _MCAP_CHANNEL:
            number, schema = struct.unpack_from("<HH", body)
            channels[number] = (_text(body, 4)[0], schema)
        elif op == _MCAP_MESSAGE:
            number, _, stamp_ns, _ = struct.unpack_from("<HIQQ", body)
            topic, schema = channels[number]
            yield RawMessage(topic, schemas.get(schema, ""), stamp_ns, body[22:])
    except (struct.error, KeyError, ValueError, OSError, RuntimeError, EOFError):
        warn(f"{path}: a damaged part was left out")


def _mcap_chunk(
    body: bytes, schemas: dict[int, str], channels: dict[int, tuple[str, int]], path: Path, warn: Warn
) -> Iterator[RawMessage]:
    compression, at = _text(body, 28)
    inner = _unpack(body[at + 8 :], compression)
    at = 0
    while at + 9 <= len(inner):
        op, size = struct.unpack_from("<BQ", inner, at)
        if at + 9 + size > len(inner):
            return
        yield from _mcap_record(op, inner[at + 9 : at + 9 + size], schemas, channels, path, warn)
        at += 9 + size


def _text(body: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<I", body, at)
    return body[at + 4 : at + 4 + size].decode("utf-8"), at + 4 + size
