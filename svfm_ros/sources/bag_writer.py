"""Writer of rosbag2 recordings (MCAP or sqlite3): scans, true poses, IMU, odometry.

A bag gets its final name only when it is complete; an interrupted one is removed.
"""

import os
import shutil
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import UsageError
from svfm_ros.types import Scan

__all__ = [
    "IMU_TOPIC",
    "LASER_FRAME",
    "MAP_FRAME",
    "ODOM_FRAME",
    "ODOM_TOPIC",
    "SCAN_TOPIC",
    "TRUTH_TOPIC",
    "BagWriter",
    "Storage",
]

Storage = Literal["mcap", "sqlite3"]

SCAN_TOPIC = "/scan"
TRUTH_TOPIC = "/ground_truth/pose"
IMU_TOPIC = "/imu"
ODOM_TOPIC = "/odom"
LASER_FRAME = "laser"
ODOM_FRAME = "odom"
MAP_FRAME = "map"

_SCAN_TYPE = "sensor_msgs/msg/LaserScan"
_POSE_TYPE = "geometry_msgs/msg/PoseStamped"
_IMU_TYPE = "sensor_msgs/msg/Imu"
_ODOM_TYPE = "nav_msgs/msg/Odometry"
_VECTOR_TYPE = "geometry_msgs/msg/Vector3"


@cache
def _message_types() -> Any:
    """ROS 2 Jazzy's message types, read once."""
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.ROS2_JAZZY)


class BagWriter:
    """Writes one bag; use it in a ``with`` statement. Messages are expected in order of the time they were received."""

    def __init__(self, path: Path | str, storage: Storage = "mcap", overwrite: bool = False) -> None:
        """``path`` is the folder of the bag; an older bag is replaced only with ``overwrite``, other files never."""
        self.path = Path(path)
        if self.path.exists() and not (overwrite and (self.path / "metadata.yaml").is_file()):
            hint = "; ask for overwriting to replace an older bag" if not overwrite else ", which is not a bag"
            raise UsageError(f"expected a new folder for the bag, got {self.path}, which exists{hint}")
        self._storage = storage
        self._part = self.path.parent / f".{self.path.name}.{os.getpid()}.part"
        self._connections: dict[tuple[str, str], Any] = {}
        self._writer: Any = None
        self._types: Any = _message_types()

    def __enter__(self) -> "BagWriter":
        from rosbags.rosbag2 import StoragePlugin, Writer

        plugin = StoragePlugin.MCAP if self._storage == "mcap" else StoragePlugin.SQLITE3
        # The files inside are named after the folder, so it has its final name at once, inside a temporary folder.
        self._part.mkdir(parents=True)
        self._writer = Writer(self._part / self.path.name, version=9, storage_plugin=plugin)
        self._writer.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
            if kind is None:
                self._publish()
        finally:
            shutil.rmtree(self._part, ignore_errors=True)

    def _publish(self) -> None:
        if self.path.exists():
            self.path.rename(self._part / "old")
        (self._part / self.path.name).rename(self.path)

    def write_scan(self, scan: Scan) -> None:
        """A LaserScan, stamped with its first beam, received when its last beam was taken."""
        t = self._types.types
        message = t[_SCAN_TYPE](
            header=self._header(scan.stamp_ns, LASER_FRAME),
            angle_min=scan.angle_min,
            angle_max=scan.angle_min + scan.angle_step * (len(scan.ranges) - 1),
            angle_increment=scan.angle_step,
            time_increment=scan.time_increment_s,
            scan_time=scan.scan_time_s,
            range_min=scan.range_min,
            range_max=scan.range_max,
            ranges=scan.ranges.astype(np.float32, copy=False),
            intensities=np.empty(0, dtype=np.float32),
        )
        self._write(SCAN_TOPIC, _SCAN_TYPE, message, scan.stamp_ns + round(scan.scan_time_s * NS_PER_S))

    def write_pose(self, stamp_ns: int, pose: ArrayLike) -> None:
        """A PoseStamped from ``(3,)``: x, y, theta."""
        message = self._types.types[_POSE_TYPE](header=self._header(stamp_ns, MAP_FRAME), pose=self._pose(pose))
        self._write(TRUTH_TOPIC, _POSE_TYPE, message, stamp_ns)

    def write_imu(self, stamp_ns: int, gyro: ArrayLike, accel: ArrayLike) -> None:
        """An Imu without orientation: angular rate (rad/s) and specific force (m/s^2), both ``(3,)``."""
        t = self._types.types
        message = t[_IMU_TYPE](
            header=self._header(stamp_ns, LASER_FRAME),
            orientation=t["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0),
            orientation_covariance=np.array([-1.0, *8 * (0.0,)]),  # "no orientation", as the message's comment has it
            angular_velocity=self._vector(gyro),
            angular_velocity_covariance=np.zeros(9),
            linear_acceleration=self._vector(accel),
            linear_acceleration_covariance=np.zeros(9),
        )
        self._write(IMU_TOPIC, _IMU_TYPE, message, stamp_ns)

    def write_odometry(
        self, stamp_ns: int, pose: ArrayLike, twist: ArrayLike, covariance: ArrayLike, topic: str = ODOM_TOPIC
    ) -> None:
        """An Odometry from a pose, a twist in the axes of the laser (both ``(3,)``) and the pose's ``(3, 3)``."""
        t = self._types.types
        vx, vy, turning = np.asarray(twist, dtype=float)
        message = t[_ODOM_TYPE](
            header=self._header(stamp_ns, ODOM_FRAME),
            child_frame_id=LASER_FRAME,
            pose=t["geometry_msgs/msg/PoseWithCovariance"](
                pose=self._pose(pose), covariance=_covariance_6d(covariance)
            ),
            twist=t["geometry_msgs/msg/TwistWithCovariance"](
                twist=t["geometry_msgs/msg/Twist"](
                    linear=self._vector((vx, vy, 0.0)), angular=self._vector((0.0, 0.0, turning))
                ),
                covariance=np.zeros(36),
            ),
        )
        self._write(topic, _ODOM_TYPE, message, stamp_ns)

    def _pose(self, pose: ArrayLike) -> Any:
        x, y, theta = (float(v) for v in np.asarray(pose, dtype=float))
        t = self._types.types
        return t["geometry_msgs/msg/Pose"](
            position=t["geometry_msgs/msg/Point"](x=x, y=y, z=0.0),
            orientation=t["geometry_msgs/msg/Quaternion"](
                x=0.0, y=0.0, z=float(np.sin(theta / 2.0)), w=float(np.cos(theta / 2.0))
            ),
        )

    def _vector(self, xyz: ArrayLike) -> Any:
        x, y, z = (float(v) for v in np.asarray(xyz, dtype=float))
        return self._types.types[_VECTOR_TYPE](x=x, y=y, z=z)

    def _header(self, stamp_ns: int, frame_id: str) -> Any:
        t = self._types.types
        sec, nanosec = divmod(int(stamp_ns), NS_PER_S)
        return t["std_msgs/msg/Header"](
            stamp=t["builtin_interfaces/msg/Time"](sec=sec, nanosec=nanosec), frame_id=frame_id
        )

    def _write(self, topic: str, kind: str, message: Any, received_ns: int) -> None:
        key = (topic, kind)
        if key not in self._connections:
            self._connections[key] = self._writer.add_connection(topic, kind, typestore=self._types)
        self._writer.write(self._connections[key], received_ns, self._types.serialize_cdr(message, kind))


def _covariance_6d(covariance: ArrayLike) -> NDArray[np.float64]:
    """The covariance ``(36,)`` of x, y, z, roll, pitch, yaw with that of x, y, yaw ``(3, 3)`` in it."""
    whole = np.zeros((6, 6))
    whole[np.ix_((0, 1, 5), (0, 1, 5))] = np.asarray(covariance)
    return whole.ravel()
