"""Conversions between ROS messages and the types of ``svfm_ros.types``.

Stamps become integer nanoseconds, orientations yaw, unknown map cells (-1) NaN. Large arrays are passed as
``array.array``, which message classes take without a copy per element.
"""

import array
import math
from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose, PoseStamped, PoseWithCovarianceStamped, Transform, TransformStamped
from nav_msgs.msg import OccupancyGrid as GridMessage
from nav_msgs.msg import Odometry, Path
from numpy.typing import NDArray
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Header

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.types import OccupancyGrid, Pose2, Scan, Walk
from svfm_ros.walks.walk_recorder import walk_id_of

__all__ = [
    "from_grid_message",
    "from_laser_scan",
    "from_path",
    "from_pose",
    "from_pose_with_covariance",
    "header",
    "stamp",
    "stamp_ns",
    "to_grid_message",
    "to_laser_scan",
    "to_odometry",
    "to_path",
    "to_pose",
    "to_pose_stamped",
    "to_pose_with_covariance",
    "to_transform",
]

Array = NDArray[np.float64]

# Rows of x, y and yaw in a ROS covariance of x, y, z, roll, pitch, yaw.
_X_Y_YAW = np.ix_([0, 1, 5], [0, 1, 5])
_UNKNOWN_CELL = -1


def stamp(time_ns: int) -> Time:
    """Nanoseconds as a ROS time."""
    sec, nanosec = divmod(int(time_ns), NS_PER_S)
    return Time(sec=sec, nanosec=nanosec)


def stamp_ns(time: Time) -> int:
    """A ROS time as nanoseconds."""
    return int(time.sec) * NS_PER_S + int(time.nanosec)


def header(frame: str, time_ns: int) -> Header:
    """A header for that frame and time."""
    return Header(stamp=stamp(time_ns), frame_id=frame)


# Scans


def from_laser_scan(message: LaserScan) -> Scan:
    """The scan; beams without an echo keep their value (NaN, inf or out of range)."""
    ranges = np.array(message.ranges, dtype=np.float32)  # (N,)
    shape = (message.angle_min, message.angle_increment, message.range_min, message.range_max)
    if not len(ranges) or not all(map(math.isfinite, shape)) or message.angle_increment == 0.0:
        raise DataError(
            "expected a LaserScan with beams, finite angles and a step between them, got "
            f"{len(ranges)} beams, angle_increment {message.angle_increment}, range_max {message.range_max}"
        )
    return Scan(
        stamp_ns=stamp_ns(message.header.stamp),
        ranges=ranges,
        angle_min=message.angle_min,
        angle_step=message.angle_increment,
        range_min=message.range_min,
        range_max=message.range_max,
        scan_time_s=message.scan_time,
        time_increment_s=message.time_increment,
    )


def to_laser_scan(scan: Scan, frame: str) -> LaserScan:
    """The scan as a message."""
    return LaserScan(
        header=header(frame, scan.stamp_ns),
        angle_min=float(scan.angle_min),
        angle_max=float(scan.angle_min + scan.angle_step * (len(scan.ranges) - 1)),
        angle_increment=float(scan.angle_step),
        time_increment=float(scan.time_increment_s),
        scan_time=float(scan.scan_time_s),
        range_min=float(scan.range_min),
        range_max=float(scan.range_max),
        ranges=array.array("f", np.ascontiguousarray(scan.ranges, dtype=np.float32).tobytes()),
    )


# Poses


def to_pose(pose: Pose2) -> Pose:
    """The pose with z, roll and pitch 0."""
    message = Pose()
    message.position.x, message.position.y = float(pose.x), float(pose.y)
    message.orientation.z, message.orientation.w = math.sin(pose.theta / 2), math.cos(pose.theta / 2)
    return message


def from_pose(message: Pose) -> Pose2:
    """x, y and yaw of a pose; z, roll and pitch are left out."""
    q = message.orientation
    if q.x == q.y == q.z == q.w == 0.0:
        raise DataError("expected a pose with an orientation, got the quaternion 0, 0, 0, 0")
    yaw = math.atan2(2 * (q.w * q.z + q.x * q.y), q.w * q.w + q.x * q.x - q.y * q.y - q.z * q.z)
    return Pose2(message.position.x, message.position.y, yaw)


def to_pose_stamped(pose: Pose2, frame: str, time_ns: int) -> PoseStamped:
    """A pose with its frame and time."""
    return PoseStamped(header=header(frame, time_ns), pose=to_pose(pose))


def to_pose_with_covariance(pose: Pose2, covariance: Array, frame: str, time_ns: int) -> PoseWithCovarianceStamped:
    """A pose with the covariance ``(3, 3)`` of x, y, yaw; 0 for z, roll and pitch."""
    full = np.zeros((6, 6))
    full[_X_Y_YAW] = covariance
    message = PoseWithCovarianceStamped(header=header(frame, time_ns))
    message.pose.pose = to_pose(pose)
    message.pose.covariance = full.ravel()
    return message


def from_pose_with_covariance(message: PoseWithCovarianceStamped) -> tuple[Pose2, Array]:
    """The pose and the covariance ``(3, 3)`` of x, y, yaw."""
    full = np.asarray(message.pose.covariance, dtype=float).reshape(6, 6)
    return from_pose(message.pose.pose), full[_X_Y_YAW]


def to_odometry(
    T_odom_base: Pose2, twist: Array, covariance: Array, odom_frame: str, base_frame: str, time_ns: int
) -> Odometry:
    """Pose in the odometry frame with covariance ``(3, 3)``, and twist ``(3,)`` (m/s, m/s, rad/s) in the base frame."""
    message = Odometry(header=header(odom_frame, time_ns), child_frame_id=base_frame)
    message.pose = to_pose_with_covariance(T_odom_base, covariance, odom_frame, time_ns).pose
    message.twist.twist.linear.x, message.twist.twist.linear.y = float(twist[0]), float(twist[1])
    message.twist.twist.angular.z = float(twist[2])
    return message


def to_transform(T_parent_child: Pose2, parent: str, child: str, time_ns: int) -> TransformStamped:
    """The transform of a child frame in its parent frame."""
    pose = to_pose(T_parent_child)
    transform = Transform(rotation=pose.orientation)
    transform.translation.x, transform.translation.y = pose.position.x, pose.position.y
    return TransformStamped(header=header(parent, time_ns), child_frame_id=child, transform=transform)


# Maps


def to_grid_message(grid: OccupancyGrid, frame: str, time_ns: int) -> GridMessage:
    """Occupancy in percent, -1 where unknown."""
    known = np.isfinite(grid.prob)
    cells = np.full(grid.prob.shape, _UNKNOWN_CELL, dtype=np.int8)  # (H, W)
    cells[known] = np.rint(100 * np.clip(grid.prob[known], 0.0, 1.0)).astype(np.int8)
    message = GridMessage(header=header(frame, time_ns))
    message.info.map_load_time = stamp(time_ns)
    message.info.resolution = float(grid.resolution_m)
    message.info.height, message.info.width = grid.prob.shape
    message.info.origin = to_pose(grid.T_map_grid)
    message.data = array.array("b", cells.tobytes())
    return message


def from_grid_message(message: GridMessage) -> OccupancyGrid:
    """Occupancy in [0, 1]; cells below zero are NaN."""
    height, width = message.info.height, message.info.width
    cells = np.frombuffer(array.array("b", message.data), dtype=np.int8)
    if len(cells) != height * width or not message.info.resolution > 0:
        raise DataError(
            f"expected a map of {width} x {height} cells with a resolution above 0, "
            f"got {len(cells)} cells at {message.info.resolution} m"
        )
    prob = cells.reshape(height, width).astype(np.float32) / np.float32(100)
    prob[prob < 0] = np.nan
    return OccupancyGrid(prob, _shortest_decimal(message.info.resolution), from_pose(message.info.origin))


def _shortest_decimal(value: float) -> float:
    """The shortest decimal that is the same 32-bit float: 0.05 and not 0.05000000074505806."""
    return float(str(np.float32(value)))


# Walks


def to_path(stamps_ns: Sequence[int] | NDArray[np.int64], poses: Array, frame: str, time_ns: int) -> Path:
    """Poses ``(T, 3)`` with a stamp each."""
    stamped = [to_pose_stamped(Pose2.from_array(p), frame, int(t)) for t, p in zip(stamps_ns, poses, strict=True)]
    return Path(header=header(frame, time_ns), poses=stamped)


def from_path(message: Path, resident: str) -> Walk:
    """A walk from a path; stamps must increase."""
    stamps_ns = np.array([stamp_ns(p.header.stamp) for p in message.poses], dtype=np.int64)  # (T,)
    if len(stamps_ns) < 2 or np.any(np.diff(stamps_ns) <= 0):
        raise DataError(f"expected a walk of two or more poses with increasing stamps, got {len(stamps_ns)} poses")
    poses = np.array([from_pose(p.pose).as_array() for p in message.poses])  # (T, 3)
    return Walk(walk_id_of(resident, int(stamps_ns[0])), resident, stamps_ns, poses)
