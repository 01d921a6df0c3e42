"""Scans, IMU and odometry from bags: rosbag2 folders, single MCAP and SQLite files, ROS 1 bags (``raw_bag``)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError, UsageError
from svfm_ros.sources.damaged_bags import RawMessage
from svfm_ros.sources.raw_bag import RawBag, open_bag
from svfm_ros.sources.scan_source import MOST_NS, Measured, ScanSource, Warn
from svfm_ros.types import ImuReading, OdometryReading, Scan

__all__ = ["open_rosbag", "to_imu", "to_odometry", "to_scan"]

LASER_SCAN = "sensor_msgs/msg/LaserScan"
IMU = "sensor_msgs/msg/Imu"
ODOMETRY = "nav_msgs/msg/Odometry"
_OWN_ODOMETRY = "odometry"  # what slam_node publishes: it was made from these scans

Topic = tuple[str, str]  # name and type


def open_rosbag(path: Path, topic: str | None = None) -> ScanSource:
    """Scans of a bag; ``topic`` chooses among several, else the one with most scans is taken."""
    source = ScanSource(path, "", iter)  # type: ignore[arg-type]
    bag = open_bag(path, source.warn)
    counts: Counter[Topic] = Counter()
    for t in bag.topics:
        counts[t.name, t.msgtype] += t.count
    scans = _choose_topic(path, counts, topic, source.warn), LASER_SCAN
    motion = [t for t in (_imu_topic(counts), _odometry_topic(counts)) if t is not None]
    source.kind, source.count, source.duration_s = bag.kind, counts[scans], (bag.end_ns - bag.start_ns) / NS_PER_S
    source.read = lambda warn: (m for m in _measured(bag, [scans], warn) if isinstance(m, Scan))
    if motion:
        source.read_all = lambda warn: _measured(bag, [scans, *motion], warn)
    return source


def _choose_topic(path: Path, counts: dict[Topic, int], topic: str | None, warn: Warn) -> str:
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


def _measured(bag: RawBag, topics: Collection[Topic], warn: Warn) -> Iterator[Measured]:
    """Everything that can be decoded; readings marked by their publisher as not measured are left out."""
    decode = _decoder(bag.kind == "rosbag1")
    broken: Counter[str] = Counter()
    for message in bag.read({name for name, _ in topics}, warn):
        if (message.topic, message.msgtype) not in topics:
            continue
        try:
            measured = _CONVERSIONS[message.msgtype](decode(message), message.stamp_ns)
        except Exception:  # a garbled message fails in as many ways as there are fields
            broken[message.msgtype.rpartition("/")[2]] += 1
            continue
        if measured is not None:
            yield measured
    for kind, count in sorted(broken.items()):
        warn(f"{bag.path}: {count} {kind} messages could not be read and were left out")


def _decoder(is_ros1: bool) -> Callable[[RawMessage], Any]:
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if is_ros1 else Stores.ROS2_JAZZY)
    if is_ros1:
        return lambda m: store.deserialize_ros1(m.data, m.msgtype)
    return lambda m: store.deserialize_cdr(m.data, m.msgtype)


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
