"""Scans, IMU and odometry from bags: rosbag2 folders, single MCAP and SQLite files, ROS 1 bags.

The library ``rosbags`` reads intact bags; damaged ones are read by ``damaged_bags``.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError, UsageError
from svfm_ros.sources.damaged_bags import RawMessage, check_bag_files, mcap_messages, rosbag1_messages
from svfm_ros.sources.scan_source import MOST_NS, Measured, ScanSource, Warn
from svfm_ros.types import ImuReading, OdometryReading, Scan

__all__ = ["open_rosbag", "to_imu", "to_odometry", "to_scan"]

LASER_SCAN = "sensor_msgs/msg/LaserScan"
IMU = "sensor_msgs/msg/Imu"
ODOMETRY = "nav_msgs/msg/Odometry"
_OWN_ODOMETRY = "odometry"  # what slam_node publishes: it was made from these scans

Topic = tuple[str, str]  # name and type
Messages = Callable[[Warn], Iterator[RawMessage]]


@dataclass(frozen=True, slots=True)
class _Bag:
    kind: str
    counts: dict[Topic, int]
    messages: Callable[[Collection[Topic], Warn], Iterator[RawMessage]]  # of some topics, in order of arrival
    duration_s: float | None


def open_rosbag(path: Path, topic: str | None = None) -> ScanSource:
    """Scans of a bag; ``topic`` chooses among several, else the one with most scans is taken."""
    check_bag_files(path)
    source = ScanSource(path, "", iter)  # type: ignore[arg-type]
    bag = _open(path, source.warn)
    chosen = _choose_topic(path, bag.counts, topic, source.warn), LASER_SCAN
    motion = [t for t in (_imu_topic(bag.counts), _odometry_topic(bag.counts)) if t is not None]
    decode = _decoder(bag.kind == "rosbag1")
    source.kind, source.count, source.duration_s = bag.kind, bag.counts[chosen], bag.duration_s
    source.read = lambda warn: _scans(path, bag.messages([chosen], warn), decode, warn)
    if motion:
        source.read_all = lambda warn: _measured(path, bag.messages([chosen, *motion], warn), decode, warn)
    return source


def _open(path: Path, warn: Warn) -> _Bag:
    try:
        return _open_sound(path)
    except DataError:
        raise
    # rosbags reports damage by its own errors, by failed assertions and by those of the libraries below it.
    except Exception as error:
        reason = str(error).rstrip(".") or "its index is damaged"
        return _open_damaged(path, reason, warn)


def _open_sound(path: Path) -> _Bag:
    from rosbags.rosbag1 import Reader as Reader1
    from rosbags.rosbag2 import Reader as Reader2

    is_ros1 = path.suffix == ".bag"
    with Reader1(path) if is_ros1 else Reader2(path) as reader:
        counts: Counter[tuple[str, str]] = Counter()
        for c in reader.connections:
            counts[c.topic, c.msgtype] += c.msgcount
        duration_s = reader.duration / NS_PER_S if reader.message_count else 0.0

    def messages(topics: Collection[Topic], warn: Warn) -> Iterator[RawMessage]:
        try:
            with Reader1(path) if is_ros1 else Reader2(path) as reader:
                wanted = [c for c in reader.connections if (c.topic, c.msgtype) in topics]
                for c, stamp_ns, raw in reader.messages(connections=wanted):
                    yield RawMessage.read(c.topic, c.msgtype, stamp_ns, raw)
        except Exception as error:
            warn(f"{path} could be read in part only: {error or type(error).__name__}")

    return _Bag("rosbag1" if is_ros1 else "rosbag2", dict(counts), messages, duration_s)


def _open_damaged(path: Path, reason: str, warn: Warn) -> _Bag:
    if path.is_dir():
        return _open_parts(path, reason, warn)
    if path.suffix == ".bag":
        return _recovered("rosbag1", lambda w: rosbag1_messages(path, w), warn)
    if path.suffix == ".mcap":
        return _recovered("rosbag2", lambda w: mcap_messages(path, w), warn)
    raise DataError(f"{path} is not a bag that can be read: {reason}")


def _open_parts(path: Path, reason: str, warn: Warn) -> _Bag:
    """The files of a bag's folder one by one, for a bag without a usable metadata.yaml."""
    parts = sorted(p for p in path.iterdir() if p.suffix in (".mcap", ".db3"))
    if not parts:
        raise DataError(f"{path} is not a rosbag2 folder: {reason}")
    warn(f"{path}: the bag's own description cannot be used ({reason}); its files were read one by one")
    bags = [_open(p, warn) for p in parts]
    counts: Counter[tuple[str, str]] = Counter()
    for bag in bags:
        counts.update(bag.counts)

    def messages(topics: Collection[Topic], warn: Warn) -> Iterator[RawMessage]:
        for bag in bags:
            if any(t in bag.counts for t in topics):
                yield from bag.messages(topics, warn)

    durations = [b.duration_s for b in bags if b.duration_s is not None]
    return _Bag("rosbag2", dict(counts), messages, sum(durations) if len(durations) == len(bags) else None)


def _recovered(kind: str, read: Messages, warn: Warn) -> _Bag:
    counts: Counter[tuple[str, str]] = Counter()
    stamps_ns: list[int] = []
    for message in read(warn):
        counts[message.topic, message.msgtype] += 1
        stamps_ns.append(message.stamp_ns)
    duration_s = (max(stamps_ns) - min(stamps_ns)) / NS_PER_S if stamps_ns else None

    def messages(topics: Collection[Topic], warn: Warn) -> Iterator[RawMessage]:
        return (m for m in read(warn) if (m.topic, m.msgtype) in topics)

    return _Bag(kind, dict(counts), messages, duration_s)


def _choose_topic(path: Path, counts: dict[tuple[str, str], int], topic: str | None, warn: Warn) -> str:
    scans = {name: n for (name, kind), n in counts.items() if kind == LASER_SCAN and n > 0}
    if not scans:
        seen = ", ".join(f"{name} ({kind})" for (name, kind), n in sorted(counts.items()) if n) or "no messages at all"
        raise DataError(f"{path}: expected {LASER_SCAN} messages, got {seen}")
    if topic is not None:
        if topic not in scans:
            raise UsageError(f"{path} has no scans on {topic}; it has them on {', '.join(sorted(scans))}")
        return topic
    chosen = max(sorted(scans), key=lambda name: scans[name])
    if len(scans) > 1:
        others = ", ".join(sorted(set(scans) - {chosen}))
        warn(f"{path}: scans of {chosen} were read, those of {others} were not")
    return chosen


def _imu_topic(counts: dict[Topic, int]) -> Topic | None:
    """The topic with most readings of an IMU."""
    found = {t: n for t, n in counts.items() if t[1] == IMU and n}
    return max(sorted(found), key=lambda t: found[t]) if found else None


def _odometry_topic(counts: dict[Topic, int]) -> Topic | None:
    """The topic ``odom``, else the one with most messages; never what ``slam_node`` itself published."""
    found = {t: n for t, n in counts.items() if t[1] == ODOMETRY and n and _last_part(t) != _OWN_ODOMETRY}
    return max(sorted(found), key=lambda t: (_last_part(t) == "odom", found[t])) if found else None


def _last_part(topic: Topic) -> str:
    return topic[0].rpartition("/")[2]


def _decoder(is_ros1: bool) -> Callable[[RawMessage], Any]:
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if is_ros1 else Stores.ROS2_JAZZY)
    if is_ros1:
        return lambda m: store.deserialize_ros1(m.data, m.msgtype)
    return lambda m: store.deserialize_cdr(m.data, m.msgtype)


def _measured(
    path: Path, messages: Iterator[RawMessage], decode: Callable[[RawMessage], Any], warn: Warn
) -> Iterator[Measured]:
    """Everything that can be decoded; readings marked by their publisher as not measured are left out."""
    broken: Counter[str] = Counter()
    for message in messages:
        try:
            measured = _CONVERSIONS[message.msgtype](decode(message), message.stamp_ns)
        except Exception:  # a garbled message fails in as many ways as there are fields
            broken[message.msgtype.rpartition("/")[2]] += 1
            continue
        if measured is not None:
            yield measured
    for kind, count in sorted(broken.items()):
        warn(f"{path}: {count} {kind} messages could not be read and were left out")


def _scans(
    path: Path, messages: Iterator[RawMessage], decode: Callable[[RawMessage], Any], warn: Warn
) -> Iterator[Scan]:
    return (m for m in _measured(path, messages, decode, warn) if isinstance(m, Scan))


def to_imu(m: Any, recorded_ns: int = 0) -> ImuReading | None:
    """A sensor_msgs/Imu, of rosbags or of rclpy; ``recorded_ns`` where it has no stamp.

    None where there is no angular rate; forces that are not measured (covariance -1) are zero.
    """
    rate, force = m.angular_velocity, m.linear_acceleration
    if m.angular_velocity_covariance[0] == -1.0:
        return None
    is_measured = m.linear_acceleration_covariance[0] != -1.0
    accel = np.array([force.x, force.y, force.z]) if is_measured else np.zeros(3)
    return ImuReading(_stamp_ns(m, recorded_ns), np.array([rate.x, rate.y, rate.z]), accel)


def to_odometry(m: Any, recorded_ns: int = 0) -> OdometryReading:
    """A nav_msgs/Odometry, of rosbags or of rclpy, in the plane; ``recorded_ns`` where it has no stamp."""
    position, q, twist = m.pose.pose.position, m.pose.pose.orientation, m.twist.twist
    heading = np.arctan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
    covariance = np.asarray(m.pose.covariance, dtype=float).reshape(6, 6)[np.ix_((0, 1, 5), (0, 1, 5))]
    pose = np.array([position.x, position.y, heading])
    moving = np.array([twist.linear.x, twist.linear.y, twist.angular.z])
    return OdometryReading(_stamp_ns(m, recorded_ns), pose, moving, covariance)


def _stamp_ns(m: Any, recorded_ns: int) -> int:
    """The stamp of a message, or when it was recorded: drivers that leave the stamp empty are common."""
    stamp_ns = int(m.header.stamp.sec) * NS_PER_S + int(m.header.stamp.nanosec) or recorded_ns
    if abs(stamp_ns) >= MOST_NS:
        raise DataError(f"expected a time, got {stamp_ns} ns")
    return stamp_ns


def to_scan(m: Any, recorded_ns: int = 0) -> Scan:
    """A sensor_msgs/LaserScan, of rosbags or of rclpy; beams without an echo keep their value (NaN, inf, too far)."""
    return Scan(
        _stamp_ns(m, recorded_ns),
        np.asarray(m.ranges, dtype=np.float32).copy(),
        float(m.angle_min),
        float(m.angle_increment),
        float(m.range_min),
        float(m.range_max),
        float(m.scan_time),
        float(m.time_increment),
    )


_CONVERSIONS: dict[str, Callable[[Any, int], Measured | None]] = {
    LASER_SCAN: to_scan,
    IMU: to_imu,
    ODOMETRY: to_odometry,
}
