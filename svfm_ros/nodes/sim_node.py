"""ROS node: a simulated resident with a worn LiDAR, on demand an IMU and odometry.

ros2 run svfm_ros sim_node [--ros-args -p house:=bungalow -p rate:=4.0]
"""

import queue
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Imu, LaserScan

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.node_config import SimNodeConfig
from svfm_ros.errors import UsageError
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.sim_clock import SimClock
from svfm_ros.pipeline.live.pacing import Pacer
from svfm_ros.pipeline.live.state_folder import make_private_folder
from svfm_ros.sim.house import House, load_house
from svfm_ros.types import ImuReading, Places, Pose2, Scan
from svfm_ros.walks.places import save_places

__all__ = ["SimNode", "main", "make"]

_MAX_TRUE_POSES = 10_000  # kept until SLAM has published its first pose
_MAX_AHEAD = 1000  # messages computed ahead of time: scans are computed in batches
_POLL_S = 0.2
_QOS = QoSProfile(depth=50)

_Due = tuple[int, Publisher, Any]  # stamp (ns), publisher, message


class SimNode(ConfiguredNode[SimNodeConfig]):
    """One thread simulates ahead, another publishes messages when they are due; ``done`` is set at the end."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("sim_node", SimNodeConfig, **node_options)

    def configure(self) -> None:
        """Read the house and make the publishers."""
        self._house = load_house(self.config.house)
        self._scan_publisher = self.create_publisher(LaserScan, "scan", _QOS)
        self._truth_publisher = self.create_publisher(PoseStamped, "ground_truth/pose", _QOS)
        self._imu_publisher = self.create_publisher(Imu, "imu", _QOS)
        self._odom_publisher = self.create_publisher(Odometry, "odom", _QOS)
        self._pacer = Pacer(0, self.config.rate)
        self._clock_source = SimClock(self, self._pacer, lambda: self.config.clock_hz, self.config.clock)
        self._ahead: queue.Queue[_Due | None] = queue.Queue(_MAX_AHEAD)
        self._threads = [
            threading.Thread(target=self._guarded, args=[t], daemon=True) for t in (self._simulate, self._publish)
        ]
        self._running = False
        self._true_poses: dict[int, Pose2] = {}  # by stamp (ns), frame of the house
        self._named = not self.config.places or Path(self.config.places).expanduser().exists()

    def activate(self) -> None:
        """Begin the simulation, or go on with it."""
        if not self._named:
            self.create_subscription(PoseWithCovarianceStamped, "pose", self._name_places, _QOS)
        self._pacer.pause(False)
        for thread in self._threads if not self._running else ():
            thread.start()
        self._running = True

    def deactivate(self) -> None:
        """Pause the simulation."""
        self._pacer.pause(True)

    def reconfigure(self, config: SimNodeConfig) -> None:
        """Change the speed."""
        self._pacer.set_rate(config.rate)

    def cleanup(self) -> None:
        """Stop the simulation."""
        self._pacer.stop()
        for thread in self._threads if self._running else ():
            thread.join(timeout=1.0)  # planning the walks takes seconds; daemon threads end with the process

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as error:
            if not self._pacer.stopped and self.context.ok():
                self.done.set_exception(error)

    # Names of the places

    def _name_places(self, message: PoseWithCovarianceStamped) -> None:
        """Write the places of the drawing in the frame of a pose; the true pose at its stamp says where that is."""
        T_house_base = self._true_poses.get(convert.stamp_ns(message.header.stamp))
        if self._named or T_house_base is None:
            return
        self._named = True
        T_map_house = convert.from_pose(message.pose.pose) @ T_house_base.inverse()
        named = [
            replace(place, x=float(x), y=float(y))
            for place in self._house.places
            for x, y in T_map_house.apply(place.xy[None])
        ]
        file = Path(self.config.places).expanduser()
        make_private_folder(file.parent)
        save_places(Places(tuple(named)), file)
        self._true_poses.clear()

    def _remember(self, stamp_ns: int, pose: Pose2) -> None:
        if not self._named and len(self._true_poses) < _MAX_TRUE_POSES:
            self._true_poses[stamp_ns] = pose

    # Thread that simulates

    def _simulate(self) -> None:
        for item in self._messages(self._house):
            if not self._put(item):
                return
        self._put(None)

    def _messages(self, house: House) -> Iterator[_Due]:
        """Messages in the order in which they are due: true poses at their stamp, scans after their last beam."""
        from svfm_ros.sim.resident import simulate_living
        from svfm_ros.sim.sim_recording import Recorder, TruePose

        config = self.config
        days = config.hours / 24.0
        walks = simulate_living(house, config.sim, config.seed, days, config.start_hour)
        if not walks:
            raise UsageError("expected time for at least one walk, got none: set more hours or less sim.habits.dwell_s")
        recorder = Recorder(house, config.sim)
        recording = recorder.all_in_one(walks, config.seed)
        self.get_logger().info(f"simulating {len(walks)} walks in {config.hours:g} hours in the house {config.house!r}")
        for due_ns, message in recorder.messages(recording):
            if isinstance(message, Scan):
                yield due_ns, self._scan_publisher, convert.to_laser_scan(message, config.laser_frame)
            elif isinstance(message, TruePose):
                pose = Pose2.from_array(message.pose)
                self._remember(message.stamp_ns, pose)
                stamped = convert.to_pose_stamped(pose, config.map_frame, message.stamp_ns)
                yield due_ns, self._truth_publisher, stamped
            elif isinstance(message, ImuReading):
                yield due_ns, self._imu_publisher, _to_imu(message, config.laser_frame)
            else:
                T_odom_base, frames = Pose2.from_array(message.T_odom_base), ("odom", config.laser_frame)
                odometry = convert.to_odometry(
                    T_odom_base, message.twist, message.covariance, *frames, message.stamp_ns
                )
                yield due_ns, self._odom_publisher, odometry

    def _put(self, item: _Due | None) -> bool:
        """Wait for space in the queue; False when stopped."""
        while not self._pacer.stopped:
            try:
                self._ahead.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        return False

    # Thread that publishes

    def _publish(self) -> None:
        started = False
        for due_ns, publisher, message in self._due():
            if not started:  # planning took a while
                self._clock_source.set_span(due_ns, due_ns + round(self.config.hours * 3600 * NS_PER_S))
                self._clock_source.restart(due_ns)
                started = True
            if not self._clock_source.wait_until(due_ns):
                return
            publisher.publish(message)
        if not self._pacer.stopped:
            self.get_logger().info(f"{self.config.hours:g} hours are over")
            self.done.set_result(None)

    def _due(self) -> Iterator[_Due]:
        while not self._pacer.stopped:
            try:
                item = self._ahead.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if item is None:
                return
            yield item


def _to_imu(reading: ImuReading, frame: str) -> Imu:
    """The reading as a message; -1 says that there is no orientation."""
    message = Imu(header=convert.header(frame, reading.stamp_ns))
    message.orientation_covariance[0] = -1.0
    message.angular_velocity.x, message.angular_velocity.y, message.angular_velocity.z = reading.gyro_radps.tolist()
    force = message.linear_acceleration
    force.x, force.y, force.z = reading.accel_mps2.tolist()
    return message


make = SimNode
main = partial(run_node, "sim_node", SimNode)

if __name__ == "__main__":
    sys.exit(main())
