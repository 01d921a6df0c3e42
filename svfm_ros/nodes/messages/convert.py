"""Conversions between ROS messages and the types of ``svfm_ros.types``.

Stamps become integer nanoseconds, orientations yaw, unknown map cells (-1) NaN. Large arrays are passed as
``array.array``, which message classes take without a copy per element; long paths are serialised here, because an
object for each of thousands of poses would block other threads.
"""

import array
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose, PoseStamped, PoseWithCovarianceStamped, Transform, TransformStamped
from nav_msgs.msg import OccupancyGrid as GridMessage
from nav_msgs.msg import Odometry, Path
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Header

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.nodes.messages.serialised import CdrWriter
from svfm_ros.sources.bag_scans import to_scan
from svfm_ros.types import OccupancyGrid, Pose2, Scan, Walk
from svfm_ros.walks.walk_recorder import walk_id_of

__all__ = [
    "MAX_BEAMS",
    "MAX_CELLS",
    "from_grid_message",
    "from_laser_scan",
    "from_path",
    "from_pose",
    "from_pose_with_covariance",
    "header",
    "path_bytes",
    "path_bytes_are_right",
    "stamp",
    "stamp_ns",
    "thinned",
    "to_grid_message",
    "to_laser_scan",
    "to_odometry",
    "to_path",
    "to_path_wire",
    "to_pose",
    "to_pose_stamped",
    "to_pose_with_covariance",
    "to_transform",
]

MAX_BEAMS = 20_000
MAX_CELLS = 50_000_000
"""Larger messages are refused: whoever can publish must not be able to exhaust the memory of a node."""

Array = NDArray[np.float64]

# Rows of x, y and yaw in a ROS covariance of x, y, z, roll, pitch, yaw.
_X_Y_YAW = np.ix_([0, 1, 5], [0, 1, 5])
_UNKNOWN_CELL = -1
_FARTHEST_M = 1e6
_LARGEST_VARIANCE = 1e12


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
    """The scan; refuses what no LiDAR publishes."""
    if len(message.ranges) > MAX_BEAMS:
        raise DataError(f"expected a LaserScan of at most {MAX_BEAMS} beams, got {len(message.ranges)}")
    shape = (message.angle_min, message.angle_increment, message.range_min, message.range_max)
    if not len(message.ranges) or not all(map(math.isfinite, shape)) or message.angle_increment == 0.0:
        raise DataError(
            "expected a LaserScan with beams, finite angles and a step between them, got "
            f"{len(message.ranges)} beams, angle_increment {message.angle_increment}, range_max {message.range_max}"
        )
    return to_scan(message)


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
    """x, y and yaw of a pose; z, roll and pitch are left out. Refuses what is not finite or very far away."""
    q, x, y = message.orientation, message.position.x, message.position.y
    if q.x == q.y == q.z == q.w == 0.0:
        raise DataError("expected a pose with an orientation, got the quaternion 0, 0, 0, 0")
    yaw = math.atan2(2 * (q.w * q.z + q.x * q.y), q.w * q.w + q.x * q.x - q.y * q.y - q.z * q.z)
    turn = q.x + q.y + q.z + q.w + yaw
    if not (abs(x) <= _FARTHEST_M and abs(y) <= _FARTHEST_M and math.isfinite(turn)):  # NaN fails as well
        raise DataError(f"expected a finite pose at most {_FARTHEST_M:g} m from the origin")
    return Pose2(x, y, yaw)


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
    """The pose and the covariance ``(3, 3)`` of x, y, yaw, which must be one: finite, and no variance below zero."""
    full = np.asarray(message.pose.covariance, dtype=float).reshape(6, 6)
    covariance = full[_X_Y_YAW]
    largest = float(np.abs(covariance).max())
    if not largest <= _LARGEST_VARIANCE or np.linalg.eigvalsh(covariance)[0] < -1e-6 * largest:
        raise DataError("expected the covariance of a pose, got numbers that are none")
    return from_pose(message.pose.pose), covariance


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
    if len(message.data) > MAX_CELLS:
        raise DataError(f"expected a map of at most {MAX_CELLS} cells, got {len(message.data)}")
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
    if not (np.abs(poses) <= _FARTHEST_M).all():
        raise DataError(f"expected a walk whose poses are at most {_FARTHEST_M:g} m from the origin")
    return Walk(walk_id_of(resident, int(stamps_ns[0])), resident, stamps_ns, poses)


def to_path_wire(stamps_ns: NDArray[np.int64], poses: Array, frame: str, time_ns: int) -> bytes | Path:
    """Argument for ``publish`` of poses ``(T, 3)``: serialised where the layout is as expected, else the message."""
    if path_bytes_are_right():
        return path_bytes(stamps_ns, poses, frame, time_ns)
    return to_path(stamps_ns, poses, frame, time_ns)


def thinned(stamps_ns: NDArray[np.int64], poses: Array, most: int) -> tuple[NDArray[np.int64], Array]:
    """At most ``most`` poses, evenly chosen, with the first and the last."""
    if len(stamps_ns) <= most:
        return stamps_ns, poses
    rows = np.linspace(0, len(stamps_ns) - 1, most).round().astype(int)
    return stamps_ns[rows], poses[rows]


def path_bytes(stamps_ns: NDArray[np.int64], poses: Array, frame: str, time_ns: int) -> bytes:
    """The serialised Path."""
    cdr = CdrWriter()
    cdr.header(frame, time_ns)
    cdr.put("I", len(poses))
    if len(poses):
        values = np.zeros((len(poses), 7), dtype="<f8")  # position and quaternion
        values[:, :2] = poses[:, :2]
        values[:, 5], values[:, 6] = np.sin(poses[:, 2] / 2.0), np.cos(poses[:, 2] / 2.0)
        # Only the first pose may start at an offset that is no multiple of eight.
        cdr.header(frame, int(stamps_ns[0]))
        cdr.align(8)
        cdr.raw(values[0].tobytes())
        cdr.raw(_aligned_poses(stamps_ns[1:], values[1:], frame))
    return cdr.finish()


def _aligned_poses(stamps_ns: NDArray[np.int64], values: Array, frame: str) -> bytes:
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


@cache
def path_bytes_are_right() -> bool:
    """Whether ROS deserialises ``path_bytes`` of a short path to that path."""
    stamps_ns, poses = np.array([10**18, 10**18 + 5, 10**18 + 9]), np.arange(9.0).reshape(3, 3)
    try:
        read = deserialize_message(path_bytes(stamps_ns, poses, "map", 10**18), Path)
    except Exception:  # another layout fails in unforeseen ways
        return False
    return bool(read == to_path(stamps_ns, poses, "map", 10**18))
