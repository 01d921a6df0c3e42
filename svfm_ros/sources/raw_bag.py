"""Serialised messages of a bag (rosbag2 or ROS 1), with type and durability of each topic.

Intact bags are read with ``rosbags``, one chunk at a time. Files that it refuses (truncated, without an index) are read
from front to back; a folder without a usable metadata.yaml is read file by file. ``warn`` is called with one sentence
for everything that is left out.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from typing import Any, Literal

from svfm_ros.errors import DataError, UsageError
from svfm_ros.sources.damaged_bags import (
    BAG1_MAGIC,
    MCAP_MAGIC,
    SQLITE_MAGIC,
    RawMessage,
    check_bag_files,
    mcap_messages,
    rosbag1_messages,
)
from svfm_ros.sources.scan_source import Warn

__all__ = ["RawBag", "RecordedTopic", "open_bag", "open_raw_bag"]

# Transient local by convention, for bags without QoS profiles.
_LATCHED_BY_NAME = frozenset({"/tf_static", "/map", "/robot_description"})


@dataclass(frozen=True, slots=True)
class RecordedTopic:
    """One topic of a bag."""

    name: str
    msgtype: str  # sensor_msgs/msg/LaserScan
    count: int
    latched: bool  # transient local when it was recorded
    digest: str = ""  # hash of the type's definition; empty where the bag has none


@dataclass(frozen=True, slots=True)
class RawBag:
    """An open bag; ``read`` can be called repeatedly."""

    path: Path
    kind: Literal["rosbag1", "rosbag2"]
    topics: tuple[RecordedTopic, ...]  # several publishers of one topic are several entries
    start_ns: int
    end_ns: int
    read: Callable[[Collection[str], Warn], Iterator[RawMessage]]  # messages of these topics in time order

    @property
    def count(self) -> int:
        """Number of messages on all topics."""
        return sum(t.count for t in self.topics)


def open_raw_bag(path: Path, warn: Warn) -> RawBag:
    """Open a rosbag2 folder or one of its files to replay it; raises where it is no bag or has no messages."""
    if path.suffix == ".bag":
        raise DataError(f"{path} is a ROS 1 bag; `rosbags-convert --src {path} --dst OUT` makes a rosbag2 of it")
    bag = open_bag(path, warn)
    if not bag.count:
        raise DataError(f"{path} holds no messages")
    return bag


def open_bag(path: Path, warn: Warn) -> RawBag:
    """Open a rosbag2 folder, one of its files or a ROS 1 bag; raises where it is no bag."""
    try:
        if not path.exists():
            raise UsageError(f"expected a bag, but {path} does not exist")
        check_bag_files(path)
        try:
            return _open_intact(path)
        # rosbags reports damage with its own errors, failed assertions and errors of sqlite, mcap and lz4.
        except Exception as error:
            return (_open_files if path.is_dir() else _open_file)(path, _reason(error), warn)
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or "its index is damaged"


def _open_intact(path: Path) -> RawBag:
    from rosbags.rosbag1 import Reader as Reader1
    from rosbags.rosbag2 import Reader as Reader2

    is_ros1 = path.suffix == ".bag"
    Reader: Any = Reader1 if is_ros1 else Reader2
    with Reader(path) as reader:
        topics = tuple(_described(c) for c in reader.connections)
        start_ns, end_ns = (reader.start_time, reader.end_time - 1) if reader.message_count else (0, 0)

    def read(names: Collection[str], warn: Warn) -> Iterator[RawMessage]:
        try:
            with Reader(path) as reader:
                wanted = [c for c in reader.connections if c.topic in names]
                for c, stamp_ns, data in reader.messages(wanted) if wanted else ():
                    yield RawMessage.read(c.topic, c.msgtype, stamp_ns, data)
        except Exception as error:
            warn(f"{path} could be read in part only: {_reason(error)}")

    return RawBag(path, "rosbag1" if is_ros1 else "rosbag2", topics, start_ns, end_ns, read)


def _described(connection: Any) -> RecordedTopic:
    profiles = getattr(connection.ext, "offered_qos_profiles", ())  # ROS 1 has none
    latched = (
        any(p.durability.name == "TRANSIENT_LOCAL" for p in profiles)
        if profiles
        else connection.topic in _LATCHED_BY_NAME
    )
    return RecordedTopic(connection.topic, connection.msgtype, connection.msgcount, latched, connection.digest)


def _open_files(folder: Path, reason: str, warn: Warn) -> RawBag:
    """All files of a bag's folder as one bag."""
    parts = sorted(p for p in folder.iterdir() if p.suffix in (".mcap", ".db3"))
    if not parts:
        raise DataError(f"{folder} is not a rosbag2 folder: {reason}")
    warn(f"{folder} cannot be read as a whole ({reason}); its files were read one by one")
    bags = [open_bag(part, warn) for part in parts]

    def read(names: Collection[str], warn: Warn) -> Iterator[RawMessage]:
        return merge(*(bag.read(names, warn) for bag in bags), key=lambda m: m.stamp_ns)

    start_ns, end_ns = min(bag.start_ns for bag in bags), max(bag.end_ns for bag in bags)
    return RawBag(folder, "rosbag2", tuple(t for bag in bags for t in bag.topics), start_ns, end_ns, read)


def _open_file(path: Path, reason: str, warn: Warn) -> RawBag:
    """What is left of a damaged file."""
    read_all = _reader_of(path, reason)
    problems: list[str] = []
    counts: Counter[tuple[str, str]] = Counter()
    stamps_ns: list[int] = []
    for message in read_all(path, problems.append):
        counts[message.topic, message.msgtype] += 1
        stamps_ns.append(message.stamp_ns)
    detail = problems[0] if problems else reason
    if not stamps_ns:
        raise DataError(f"{path} is not a bag that can be read: {detail}")
    warn(f"{path} is damaged ({detail}); {len(stamps_ns)} messages could be read")
    topics = tuple(RecordedTopic(t, k, n, t in _LATCHED_BY_NAME) for (t, k), n in sorted(counts.items()))

    def read(names: Collection[str], _warn: Warn) -> Iterator[RawMessage]:
        found = [m for m in read_all(path, lambda _: None) if m.topic in names]
        return iter(sorted(found, key=lambda m: m.stamp_ns))

    kind: Literal["rosbag1", "rosbag2"] = "rosbag1" if read_all is rosbag1_messages else "rosbag2"
    return RawBag(path, kind, topics, min(stamps_ns), max(stamps_ns), read)


def _reader_of(path: Path, reason: str) -> Callable[[Path, Warn], Iterator[RawMessage]]:
    """What reads such a file from front to back."""
    with path.open("rb") as file:
        magic = file.read(16)
    for start, reader in (
        (MCAP_MAGIC, mcap_messages),
        (SQLITE_MAGIC, _sqlite_messages),
        (BAG1_MAGIC, rosbag1_messages),
    ):
        if magic.startswith(start):
            return reader
    raise DataError(f"{path} is not a bag: {reason}" if magic else f"{path} is empty")


def _sqlite_messages(path: Path, warn: Warn) -> Iterator[RawMessage]:
    """Rows in the order of writing, up to the first missing page."""
    data = path.read_bytes()
    page = int.from_bytes(data[16:18], "big")
    page = 65536 if page == 1 else max(page, 512)
    whole = data[: len(data) // page * page]  # SQLite would pad half a page with zeros and return these as messages
    if not whole:
        warn(f"{path.name}: it ends within the first page")
        return
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(whole)
        database.execute("PRAGMA writable_schema=ON")  # without it SQLite refuses a file shorter than its header says
        try:
            topics = {n: (t, k) for n, t, k in database.execute("SELECT id, name, type FROM topics")}
            for number, stamp_ns, blob in database.execute(
                "SELECT topic_id, timestamp, data FROM messages ORDER BY id"
            ):
                if number in topics:
                    yield RawMessage.read(*topics[number], stamp_ns, blob)
        except (sqlite3.DatabaseError, TypeError) as error:
            warn(f"{path.name}: {error}")
