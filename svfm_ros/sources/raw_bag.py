"""Serialised messages of a rosbag2, with type and durability of each topic.

Intact bags are read with ``rosbags``, one chunk at a time. Bags that it refuses (truncated, without metadata.yaml) are
read sequentially up to the first damage. ``warn`` is called with one sentence for everything that is left out.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svfm_ros.errors import DataError, UsageError
from svfm_ros.sources.damaged_bags import RawMessage, check_bag_files, mcap_messages

__all__ = ["RawBag", "RecordedTopic", "open_raw_bag"]

Warn = Callable[[str], None]

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
    topics: tuple[RecordedTopic, ...]
    start_ns: int
    end_ns: int
    read: Callable[[Collection[str], Warn], Iterator[RawMessage]]  # messages of these topics in time order

    @property
    def count(self) -> int:
        """Number of messages on all topics."""
        return sum(t.count for t in self.topics)


def open_raw_bag(path: Path, warn: Warn) -> RawBag:
    """Open a rosbag2 folder or one of its files; raises where it is no bag or has no messages."""
    try:
        return _open(path, warn)
    except OSError as error:
        raise DataError(f"cannot read {error.filename or path}: {error.strerror}") from error


def _open(path: Path, warn: Warn) -> RawBag:
    if not path.exists():
        raise UsageError(f"expected a bag, but {path} does not exist")
    if path.suffix == ".bag":
        raise DataError(f"{path} is a ROS 1 bag; `rosbags-convert --src {path} --dst OUT` makes a rosbag2 of it")
    check_bag_files(path)
    try:
        bag = _open_intact(path)
    # rosbags reports damage with its own errors, failed assertions and errors of sqlite, mcap and lz4.
    except Exception as error:
        bag = _open_damaged(path, _reason(error), warn)
    if not bag.count:
        raise DataError(f"{path} holds no messages")
    return bag


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or "its index is damaged"


def _open_intact(path: Path) -> RawBag:
    from rosbags.rosbag2 import Reader

    with Reader(path) as reader:
        topics = tuple(_described(c) for c in reader.connections)
        start_ns, end_ns = reader.start_time, reader.end_time - 1

    def read(names: Collection[str], warn: Warn) -> Iterator[RawMessage]:
        try:
            with Reader(path) as reader:
                wanted = [c for c in reader.connections if c.topic in names]
                for c, stamp_ns, data in reader.messages(wanted) if wanted else ():
                    yield RawMessage.read(c.topic, c.msgtype, stamp_ns, data)
        except Exception as error:
            warn(f"{path} could be read in part only: {_reason(error)}")

    return RawBag(path, topics, start_ns, end_ns, read)


def _described(connection: Any) -> RecordedTopic:
    profiles = connection.ext.offered_qos_profiles
    latched = (
        any(p.durability.name == "TRANSIENT_LOCAL" for p in profiles)
        if profiles
        else connection.topic in _LATCHED_BY_NAME
    )
    return RecordedTopic(connection.topic, connection.msgtype, connection.msgcount, latched, connection.digest)


def _open_damaged(path: Path, reason: str, warn: Warn) -> RawBag:
    parts = sorted(p for p in path.iterdir() if p.suffix in (".mcap", ".db3")) if path.is_dir() else [path]
    if not parts:
        raise DataError(f"{path} is not a bag: {reason}")
    warnings: list[str] = []
    messages = [m for part in parts for m in _salvage(part, reason, warnings.append)]
    messages.sort(key=lambda m: m.stamp_ns)
    detail = warnings[0] if warnings else reason
    warn(f"{path} is damaged ({detail}); {len(messages)} messages could be read")
    counts = Counter((m.topic, m.msgtype) for m in messages)
    topics = tuple(RecordedTopic(t, k, n, t in _LATCHED_BY_NAME) for (t, k), n in sorted(counts.items()))

    def read(names: Collection[str], _warn: Warn) -> Iterator[RawMessage]:
        return (m for m in messages if m.topic in names)

    first, last = (messages[0].stamp_ns, messages[-1].stamp_ns) if messages else (0, 0)
    return RawBag(path, topics, first, last, read)


def _salvage(path: Path, reason: str, warn: Warn) -> Iterator[RawMessage]:
    with path.open("rb") as file:
        magic = file.read(16)
    if magic.startswith(b"\x89MCAP0\r\n"):
        return mcap_messages(path, warn)
    if magic.startswith(b"SQLite format 3"):
        return _sqlite_messages(path, warn)
    if not magic:
        raise DataError(f"{path} is empty")
    raise DataError(f"{path} is not a bag: {reason}")


def _sqlite_messages(path: Path, warn: Warn) -> Iterator[RawMessage]:
    """Rows in the order of writing, up to the first missing page."""
    data = path.read_bytes()
    page = int.from_bytes(data[16:18], "big")
    page = 65536 if page == 1 else max(page, 512)
    with closing(sqlite3.connect(":memory:")) as database:
        # SQLite would pad half a page with zeros and return these as messages.
        database.deserialize(data[: len(data) // page * page])
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
