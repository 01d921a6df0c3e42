"""A bag as a stream of raw messages, with what a player must know about each topic.

Sound bags are read with ``rosbags``, one chunk at a time. What it refuses (cut off, without its description) is read
from front to back as far as it goes. Each thing left out is one sentence to ``warn``.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svfm_ros.errors import DataError, UsageError
from svfm_ros.sources.damaged_bags import RawMessage, mcap_messages

__all__ = ["RecordedTopic", "Recording", "open_recording"]

Warn = Callable[[str], None]

# Latched by custom, for bags that do not say how their topics were offered.
_LATCHED_BY_NAME = frozenset({"/tf_static", "/map", "/robot_description"})


@dataclass(frozen=True, slots=True)
class RecordedTopic:
    """One topic of a bag."""

    name: str
    msgtype: str  # sensor_msgs/msg/LaserScan
    count: int
    latched: bool  # late subscribers got the last messages when it was recorded
    digest: str = ""  # hash of the type's definition; empty where the bag does not say


@dataclass(frozen=True, slots=True)
class Recording:
    """A bag that can be read, as often as wanted."""

    path: Path
    topics: tuple[RecordedTopic, ...]
    start_ns: int
    end_ns: int
    read: Callable[[Collection[str], Warn], Iterator[RawMessage]]  # of these topics, in the order of time

    @property
    def count(self) -> int:
        """Messages of all topics."""
        return sum(t.count for t in self.topics)


def open_recording(path: Path, warn: Warn) -> Recording:
    """Open a rosbag2 folder or one of its files; refuses what is no bag and what holds no messages."""
    if not path.exists():
        raise UsageError(f"expected a bag, but {path} does not exist")
    if path.suffix == ".bag":
        raise DataError(f"{path} is a ROS 1 bag; `rosbags-convert --src {path} --dst OUT` makes a rosbag2 of it")
    try:
        recording = _open_sound(path)
    # rosbags reports damage by its own errors, by failed assertions and by those of the libraries below it.
    except Exception as error:
        recording = _open_damaged(path, _reason(error), warn)
    if not recording.count:
        raise DataError(f"{path} holds no messages")
    return recording


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or "its index is damaged"


def _open_sound(path: Path) -> Recording:
    from rosbags.rosbag2 import Reader

    with Reader(path) as reader:
        topics = tuple(_described(c) for c in reader.connections)
        start_ns, end_ns = reader.start_time, reader.end_time - 1

    def read(names: Collection[str], warn: Warn) -> Iterator[RawMessage]:
        try:
            with Reader(path) as reader:
                wanted = [c for c in reader.connections if c.topic in names]
                for c, stamp_ns, data in reader.messages(wanted) if wanted else ():
                    yield RawMessage(c.topic, c.msgtype, stamp_ns, bytes(data))
        except Exception as error:
            warn(f"{path} could be read in part only: {_reason(error)}")

    return Recording(path, topics, start_ns, end_ns, read)


def _described(connection: Any) -> RecordedTopic:
    profiles = connection.ext.offered_qos_profiles
    latched = (
        any(p.durability.name == "TRANSIENT_LOCAL" for p in profiles)
        if profiles
        else connection.topic in _LATCHED_BY_NAME
    )
    return RecordedTopic(connection.topic, connection.msgtype, connection.msgcount, latched, connection.digest)


def _open_damaged(path: Path, reason: str, warn: Warn) -> Recording:
    parts = sorted(p for p in path.iterdir() if p.suffix in (".mcap", ".db3")) if path.is_dir() else [path]
    if not parts:
        raise DataError(f"{path} is not a bag: {reason}")
    said: list[str] = []
    messages = [m for part in parts for m in _salvage(part, reason, said.append)]
    messages.sort(key=lambda m: m.stamp_ns)
    detail = said[0] if said else reason
    warn(f"{path} is damaged ({detail}); {len(messages)} messages could be read")
    counts = Counter((m.topic, m.msgtype) for m in messages)
    topics = tuple(RecordedTopic(t, k, n, t in _LATCHED_BY_NAME) for (t, k), n in sorted(counts.items()))

    def read(names: Collection[str], _warn: Warn) -> Iterator[RawMessage]:
        return (m for m in messages if m.topic in names)

    first, last = (messages[0].stamp_ns, messages[-1].stamp_ns) if messages else (0, 0)
    return Recording(path, topics, first, last, read)


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
    """Rows in the order they were written, up to the first page that is missing."""
    data = path.read_bytes()
    page = int.from_bytes(data[16:18], "big")
    page = 65536 if page == 1 else max(page, 512)
    with closing(sqlite3.connect(":memory:")) as database:
        # Half a page would be filled up with zeros and read as messages.
        database.deserialize(data[: len(data) // page * page])
        database.execute("PRAGMA writable_schema=ON")  # or SQLite refuses a file shorter than its header says
        try:
            topics = {n: (t, k) for n, t, k in database.execute("SELECT id, name, type FROM topics")}
            for number, stamp_ns, blob in database.execute(
                "SELECT topic_id, timestamp, data FROM messages ORDER BY id"
            ):
                if number in topics:
                    yield RawMessage(*topics[number], stamp_ns, bytes(blob))
        except sqlite3.DatabaseError as error:
            warn(f"{path.name}: {error}")
