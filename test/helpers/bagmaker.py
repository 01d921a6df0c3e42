"""Small bags for tests, written with rosbags itself."""

from pathlib import Path

import numpy as np
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_JAZZY)
START_NS = 1_700_000_000_000_000_000
LASER_SCAN = "sensor_msgs/msg/LaserScan"
STRING = "std_msgs/msg/String"


def qos(durability=QosDurability.VOLATILE):
    forever = QosTime(9223372036, 854775807)
    return [
        Qos(
            QosHistory.KEEP_LAST,
            10,
            QosReliability.RELIABLE,
            durability,
            forever,
            forever,
            QosLiveliness.AUTOMATIC,
            forever,
            False,
        )
    ]


def scan_bytes(stamp_ns, beams=60):
    """A LaserScan whose ranges tell its number."""
    kinds = STORE.types
    sec, nanosec = divmod(stamp_ns, 10**9)
    head = kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](sec, nanosec), "laser")
    ranges = np.linspace(1.0, 2.0 + (stamp_ns % 10**9) / 1e9, beams).astype(np.float32)
    step = 2 * np.pi / beams
    scan = kinds[LASER_SCAN](head, -np.pi, np.pi - step, step, 0.0, 0.1, 0.1, 12.0, ranges, np.zeros(0, np.float32))
    return bytes(STORE.serialize_cdr(scan, LASER_SCAN))


def text_bytes(text):
    return bytes(STORE.serialize_cdr(STORE.types[STRING](text), STRING))


def write_bag(path: Path, messages, latched=(), plugin=StoragePlugin.MCAP):
    """Messages are (topic, type, stamp_ns, bytes) in the order of time."""
    with Writer(path, version=9, storage_plugin=plugin) as writer:
        connections = {}
        for topic, kind, stamp_ns, data in messages:
            if topic not in connections:
                durability = QosDurability.TRANSIENT_LOCAL if topic in latched else QosDurability.VOLATILE
                connections[topic] = writer.add_connection(
                    topic, kind, typestore=STORE, offered_qos_profiles=qos(durability)
                )
            writer.write(connections[topic], stamp_ns, data)
    return path


def scans(count, period_ns=100_000_000, topic="/scan"):
    stamps = [START_NS + i * period_ns for i in range(count)]
    return [(topic, LASER_SCAN, t, scan_bytes(t)) for t in stamps]
