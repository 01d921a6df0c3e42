"""Long tracks as serialised ``nav_msgs/Path``: an object for each of thousands of poses would block other threads."""

from functools import cache

import numpy as np
from nav_msgs.msg import Path
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message

from svfm_ros.clock import NS_PER_S
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.serialised import CdrWriter

__all__ = ["path_bytes", "path_bytes_are_right", "thinned", "to_wire"]

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]


def to_wire(stamps_ns: Stamps, poses: Array, frame: str, time_ns: int) -> bytes | Path:
    """Argument for ``publish`` of poses ``(T, 3)``: serialised where the layout is as expected, else the message."""
    if path_bytes_are_right():
        return path_bytes(stamps_ns, poses, frame, time_ns)
    return convert.to_path(stamps_ns, poses, frame, time_ns)


def thinned(stamps_ns: Stamps, poses: Array, most: int) -> tuple[Stamps, Array]:
    """At most ``most`` poses, evenly chosen, with the first and the last."""
    if len(stamps_ns) <= most:
        return stamps_ns, poses
    rows = np.linspace(0, len(stamps_ns) - 1, most).round().astype(int)
    return stamps_ns[rows], poses[rows]


def path_bytes(stamps_ns: Stamps, poses: Array, frame: str, time_ns: int) -> bytes:
    """The serialised Path."""
    cdr = CdrWriter()
    _header(cdr, time_ns, frame)
    cdr.put("I", len(poses))
    if len(poses):
        values = np.zeros((len(poses), 7), dtype="<f8")  # position and quaternion
        values[:, :2] = poses[:, :2]
        values[:, 5], values[:, 6] = np.sin(poses[:, 2] / 2.0), np.cos(poses[:, 2] / 2.0)
        # Only the first pose may start at an offset that is no multiple of eight.
        _header(cdr, int(stamps_ns[0]), frame)
        cdr.align(8)
        cdr.raw(values[0].tobytes())
        cdr.raw(_aligned_poses(stamps_ns[1:], values[1:], frame))
    return cdr.finish()


def _aligned_poses(stamps_ns: Stamps, values: Array, frame: str) -> bytes:
    """Poses that all start at a multiple of eight bytes."""
    name = frame.encode() + b"\0"
    head = 12 + len(name)
    record = np.dtype(
        {
            "names": ["sec", "nanosec", "length", "name", "values"],
            "formats": ["<i4", "<u4", "<u4", f"({len(name)},)u1", "(7,)<f8"],
            "offsets": [0, 4, 8, 12, head + (-head % 8)],
            "itemsize": head + (-head % 8) + 56,
        }
    )
    records = np.zeros(len(values), dtype=record)
    records["sec"], records["nanosec"] = stamps_ns // NS_PER_S, stamps_ns % NS_PER_S
    records["length"], records["name"], records["values"] = len(name), np.frombuffer(name, dtype=np.uint8), values
    return records.tobytes()


def _header(cdr: CdrWriter, time_ns: int, frame: str) -> None:
    cdr.put("iI", *divmod(int(time_ns), NS_PER_S))
    cdr.text(frame)


@cache
def path_bytes_are_right() -> bool:
    """Whether ROS deserialises ``path_bytes`` of a short path to that path."""
    stamps_ns, poses = np.array([10**18, 10**18 + 5, 10**18 + 9]), np.arange(9.0).reshape(3, 3)
    try:
        read = deserialize_message(path_bytes(stamps_ns, poses, "map", 10**18), Path)
    except Exception:  # another layout fails in unforeseen ways
        return False
    return bool(read == convert.to_path(stamps_ns, poses, "map", 10**18))
