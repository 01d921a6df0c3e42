"""ROS node: subscribes to scans, IMU and odometry; publishes map, pose, track, TF and finished walks.

    ros2 run svfm_ros slam_node [--ros-args -p map:=house.yaml -p store:=walks -p resident:=mary]

Callbacks only queue messages. One thread localises scans, publishes poses and segments walks (``pipeline.tracking``);
a second stores finished walks (``pipeline.live.walk_saver``); a third draws map and track (``slam_publishers``).
"""

import math
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from nav_msgs.msg import Path as PathMessage
from rclpy.task import Future
from sensor_msgs.msg import Imu, LaserScan, PointCloud2
from std_msgs.msg import Bool

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.errors import DataError, printable, reason_of
from svfm_ros.mapio import save_map
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.point_cloud import from_point_cloud
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode, Request
from svfm_ros.nodes.runtime.diagnostics import ERROR, WARN, Diagnostics, DurationStatistics, Health, RateMeter, worst
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.subscriptions import LATCHED, LATCHED_WALKS, STEADY, AdaptiveSubscription
from svfm_ros.nodes.slam_publishers import MapPublisher, TransformPublisher
from svfm_ros.pipeline.live.stamp_gate import StampGate
from svfm_ros.pipeline.live.walk_saver import WalkSaver
from svfm_ros.pipeline.live.worker import Worker
from svfm_ros.pipeline.saved_map import KeptMap, MapMemory, map_file, state_path
from svfm_ros.pipeline.slam_engine import Engines, given_map, warm_up
from svfm_ros.pipeline.tracking import Tracked, Tracking
from svfm_ros.sources.bag_scans import to_imu, to_odometry
from svfm_ros.types import Pose2, Scan, Walk

__all__ = ["SlamNode", "main", "make"]

_SILENT_S, _LATE_S, _CHECK_S, _FINISH_S = 3.0, 2.0, 0.05, 2.0
_RESTART_S = 60.0  # with a saved map younger than this the node is a restart: its compiled code is cached on disk
_OWN_FRAME = "this map has a frame of its own: walks are aligned with the house, forecasts are unknown"
_TYPES = {
    "scan": "sensor_msgs/msg/LaserScan",
    "points": "sensor_msgs/msg/PointCloud2",
    "imu": "sensor_msgs/msg/Imu",
    "odom": "nav_msgs/msg/Odometry",
}


@dataclass(frozen=True, slots=True)
class _ReceivedScan:
    message: LaserScan | PointCloud2
    arrival_s: float  # monotonic


class SlamNode(ConfiguredNode[SlamNodeConfig]):
    """Mapping, or localisation on a given map."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("slam_node", SlamNodeConfig, **node_options)

    def configure(self) -> None:
        """Read the given or the saved map and start the threads; compiling begins."""
        config = self.config
        self._given_map = given_map(config)
        self._memory = MapMemory(
            state_path(config.state, config.store, config.map, self.get_namespace()),
            config.state_period_s,
            self._report,
        )
        self._map_path = map_file(config.store, config.save_map_to)
        self._rate_meter, self._durations = RateMeter(), DurationStatistics()
        self._gate: StampGate[Scan] = StampGate(lambda scan: scan.stamp_ns)
        self._inlier_ratio, self._reason, self._sensor_frame = 1.0, "", ""
        self._wrong_types: set[str] = set()
        self._pose_publisher = self.create_publisher(PoseWithCovarianceStamped, "pose", config.inbox)
        self._odometry_publisher = self.create_publisher(Odometry, "odometry", config.inbox)
        self._last_odometry: tuple[int, Pose2] | None = None
        frames = (config.map_frame, config.odom_frame, config.base_frame)
        self._transforms = TransformPublisher(self, *frames) if config.publish_tf else None
        kept = self._saved_map()
        self._has_map = kept is not None
        self._is_restart = kept is not None and kept.age_s < _RESTART_S
        self._walk_publisher = self.create_publisher(PathMessage, "walk", LATCHED_WALKS)
        self._frame_publisher = self.create_publisher(Bool, "map_in_house_frame", LATCHED)
        self._walk_saver = WalkSaver(
            config.store,
            config.map_frame,
            on_given_map=self._given_map is not None,
            resumed=kept is not None and kept.in_house_frame,
            on_saved=self._publish_walk,
            log=lambda line: self.get_logger().info(line),
            on_error=self._report,
        )
        engines = Engines(
            config.slam,
            self._given_map,
            kept=kept.state if kept is not None else None,
            keeps_map=self._memory.is_kept,
            background=True,
        )
        self._tracking = Tracking(config, engines)
        self._map_publisher = MapPublisher(self, lambda: self.config, self._given_map, self._report)
        self._worker: Worker[_ReceivedScan | Request] = Worker(
            "slam", self._handle, capacity=config.inbox, on_error=self._report, on_drop=self._report_drop
        )
        self._compiled = Future()
        self._worker.put(Request(self._warm_up, self._compiled))

    def activate(self) -> None:
        """Publish the map there is, and subscribe as soon as everything is compiled."""
        self._publish_frame_state()
        self._map_publisher.publish_given()
        self._worker.put(Request(self._publish_saved_map, Future()))
        if self._is_restart:
            self._subscribe()
        else:
            self._waiting = self.create_timer(_CHECK_S, self._subscribe_when_compiled, clock=STEADY)
        self.create_timer(1.0, self._check_input, clock=STEADY)
        for name, work in (("save_map", self._save_map), ("finish_walk", self._finish_walk), ("reset", self._reset)):
            self.create_deferred_service(name, work, self._worker.put)
        Diagnostics(self, "slam", self._health)

    def _saved_map(self) -> KeptMap | None:
        try:
            kept = self._memory.read()
        except DataError as error:
            self.get_logger().error(str(error))
            return None
        if kept is not None and kept.problem:
            self.get_logger().error(kept.problem)
        if kept is not None:
            self.get_logger().info(f"mapping goes on with the saved map of {len(kept.state)} keyframes")
        return kept

    def _subscribe_when_compiled(self) -> None:
        """Subscribe when scans can be handled without delay: the player waits for the subscription."""
        if self._compiled.done():
            self._waiting.cancel()
            self._subscribe()

    def _subscribe(self) -> None:
        AdaptiveSubscription(self, LaserScan, "scan", self._receive, self.config.inbox)
        AdaptiveSubscription(self, PointCloud2, "points", self._receive, self.config.inbox)
        self.create_subscription(PoseWithCovarianceStamped, "initialpose", self._receive_initial_pose, 1)
        AdaptiveSubscription(self, Imu, "imu", self._receive_motion, self.config.inbox)
        AdaptiveSubscription(self, Odometry, "odom", self._receive_motion, self.config.inbox)

    def deactivate(self) -> None:
        """Handle the scans that wait and save the open walk."""
        if self._compiled.done():
            self._worker.put(Request(self._finish_walk, Future()))
            self._worker.wait_idle(_FINISH_S)

    def cleanup(self) -> None:
        """Save the open walk and the map and stop the threads."""
        self._worker.stop(timeout_s=2.0 if self._compiled.done() else 0.0)  # there is nothing to save before
        for walk in self._tracking.close():
            self._walk_saver.save(walk)
        self._memory.close(self._tracking.engine, self._walk_saver.in_house_frame)
        self._walk_saver.close()
        self._map_publisher.close()

    # Callbacks

    def _receive(self, message: LaserScan | PointCloud2) -> None:
        self._rate_meter.tick()
        self._worker.put(_ReceivedScan(message, time.monotonic()))

    def _receive_initial_pose(self, message: PoseWithCovarianceStamped) -> None:
        frame = message.header.frame_id
        if self._given_map is None or frame != self.config.map_frame:
            wanted = f"a pose in the frame {self.config.map_frame!r} and a given map"
            self.get_logger().warning(f"initialpose is ignored: expected {wanted}", throttle_duration_sec=2.0)
            return
        self._worker.put(Request(lambda: self._start_near(convert.from_pose(message.pose.pose)), Future()))

    def _receive_motion(self, message: Imu | Odometry) -> None:
        reading = to_imu(message) if isinstance(message, Imu) else to_odometry(message)
        if reading is not None:
            self._tracking.add_motion(reading)

    def _check_input(self) -> None:
        """Follow stamps that have moved, and report publishers of another type: their messages never arrive."""
        if self._gate.holds:
            self._worker.put(Request(self._track_held, Future()))
        for topic, expected in _TYPES.items():
            for info in self.get_publishers_info_by_topic(self.resolve_topic_name(topic)):
                line = printable(f"{info.node_name} publishes {topic} as {info.topic_type}, expected {expected}")
                if info.topic_type != expected and line not in self._wrong_types:
                    self._wrong_types.add(line)
                    self.get_logger().error(line)

    def _report(self, error: Exception) -> None:
        self._reason = reason_of(error)
        if self.context.ok():
            self.get_logger().error(self._reason, throttle_duration_sec=2.0)

    def _report_drop(self, item: _ReceivedScan | Request, count: int) -> None:
        if isinstance(item, Request):
            item.refuse("too many scans are waiting: try again")
        self.get_logger().warning(
            f"{count} scans were dropped: they arrive faster than they can be handled", throttle_duration_sec=5.0
        )

    # Thread that localises scans

    def _handle(self, item: _ReceivedScan | Request) -> None:
        if isinstance(item, Request):
            item.run()
            return
        for scan in self._gate.admit(self._scan_of(item.message), item.arrival_s):
            self._track(scan, item.arrival_s)

    def _track_held(self) -> str:
        now_s = time.monotonic()
        for scan in self._gate.release(now_s):
            self._track(scan, now_s)
        return "tracked"

    def _track(self, scan: Scan, arrival_s: float) -> None:
        tracked = self._tracking.add(scan)
        if tracked.started_over:
            self._map_publisher.reset()
            self.get_logger().warning(tracked.started_over)
        self._publish_pose(tracked)
        self._durations.add(time.monotonic() - arrival_s)
        self._take_note(tracked)
        for walk in tracked.walks:
            self._walk_saver.save(walk)
        if not tracked.map_kept:  # the walks above still belong to the map before
            self._walk_saver.new_map()
            self._publish_frame_state()
        if self._walk_saver.T_house_map is not None and self._tracking.is_resting:
            self._move_map(self._walk_saver.T_house_map)
        self._memory.keep(self._tracking.engine, self._walk_saver.in_house_frame)
        self._map_publisher.update(self._tracking, tracked.update.stamp_ns, tracked.update.map_changed)

    def _move_map(self, T_house_map: Pose2) -> None:
        """Bring a map that has a frame of its own into that of the house: the model can be used again."""
        for walk in self._tracking.move_map(T_house_map):
            self._walk_saver.save(walk)
        self._walk_saver.map_was_moved()
        self._map_publisher.reset()
        self._publish_frame_state()
        self._map_publisher.update(self._tracking, self.get_clock().now().nanoseconds, map_changed=True)
        self.get_logger().info("two walks agree where the map is in the house: it is moved into the house's frame")

    def _scan_of(self, message: LaserScan | PointCloud2) -> Scan:
        if isinstance(message, LaserScan):
            scan = convert.from_laser_scan(message)
        else:
            c = self.config.cloud
            scan = from_point_cloud(message, c.beams, c.range_min_m, c.range_max_m, c.z_min_m, c.z_max_m)
        if message.header.frame_id != self._sensor_frame:
            self._sensor_frame = message.header.frame_id
            if self._transforms is not None:
                self._transforms.publish_mount(Pose2.from_array(self.config.mount), self._sensor_frame, scan.stamp_ns)
        return scan

    def _publish_pose(self, tracked: Tracked) -> None:
        update, config = tracked.update, self.config
        if (update.match is None and update.reason) or not update.is_on_map:
            return  # the scan could not be localised: no pose for this stamp
        self._pose_publisher.publish(
            convert.to_pose_with_covariance(tracked.T_map_base, update.covariance, config.map_frame, update.stamp_ns)
        )
        self._publish_odometry(tracked)
        if self._transforms is not None:
            self._transforms.publish(tracked.T_map_odom, tracked.T_odom_base, update.stamp_ns)

    def _publish_odometry(self, tracked: Tracked) -> None:
        """Pose in the odometry frame, which has no jumps, and the mean velocity since the scan before."""
        stamp_ns, config = tracked.update.stamp_ns, self.config
        before_ns, before = self._last_odometry or (stamp_ns, tracked.T_odom_base)
        step_s = (stamp_ns - before_ns) / NS_PER_S
        moved = (before.inverse() @ tracked.T_odom_base).twist()
        twist = moved / step_s if step_s > 0.0 and not tracked.started_over else np.zeros(3)
        self._last_odometry = stamp_ns, tracked.T_odom_base
        self._odometry_publisher.publish(
            convert.to_odometry(
                tracked.T_odom_base, twist, tracked.update.covariance, config.odom_frame, config.base_frame, stamp_ns
            )
        )

    def _take_note(self, tracked: Tracked) -> None:
        update = tracked.update
        self._reason = update.reason
        self._inlier_ratio = update.match.inlier_ratio if update.match is not None else 0.0 if update.reason else 1.0

    def _publish_walk(self, walk: Walk) -> None:
        if self.context.ok():
            frame, last_ns = self.config.map_frame, int(walk.stamps_ns[-1])
            self._walk_publisher.publish(convert.to_path_wire(walk.stamps_ns, walk.poses, frame, last_ns))

    def _publish_frame_state(self) -> None:
        self._frame_publisher.publish(Bool(data=self._walk_saver.in_house_frame))

    # Services

    def _warm_up(self) -> str:
        """Compile before the first scan, unless this is a restart and the code is cached."""
        if not self._is_restart:
            warm_up(self.config)
        return "compiled"

    def _publish_saved_map(self) -> str:
        if self._has_map:
            self._map_publisher.update(self._tracking, self.get_clock().now().nanoseconds, map_changed=True)
        return "published"

    def _save_map(self) -> str:
        if self._map_publisher.grid is None:
            raise DataError("there is no map yet: no scan has been localised")
        if self._map_path is None:
            raise DataError("expected the parameter save_map_to or store, to know where to save the map")
        save_map(self._map_publisher.grid, self._map_path)
        return f"saved the map as {self._map_path}"

    def _start_near(self, T_map_base: Pose2) -> str:
        for walk in self._tracking.start_near(T_map_base):
            self._walk_saver.save(walk)
        return "the wearer is looked for at the given pose first"

    def _finish_walk(self) -> str:
        walks = self._tracking.finish_walk()
        for walk in walks:
            self._walk_saver.save(walk)
        return f"finished the walk {walks[0].walk_id}" if walks else "there was no walk"

    def _reset(self) -> str:
        for walk in self._tracking.reset():
            self._walk_saver.save(walk)
        self._walk_saver.new_map()
        self._publish_frame_state()
        self._map_publisher.reset()
        return "started with an empty map" if self._given_map is None else "searching for the wearer on the map"

    # Diagnostics

    def _health(self) -> Health:
        counts, engine, motion = self._worker.counts(), self._tracking.engine, self._tracking.motion()
        silent_s, late_s = self._rate_meter.silent_s, 1e-3 * self._durations.quantile_ms(0.5)
        level, reason = worst(
            (bool(self._wrong_types), ERROR, next(iter(self._wrong_types), "")),
            (not self._compiled.done(), WARN, "getting ready: it is compiled once, for about a minute"),
            (silent_s > _SILENT_S, WARN, f"no scan for {silent_s:.0f} s"),
            (bool(self._walk_saver.problem), ERROR, self._walk_saver.problem),
            (bool(self._reason), WARN, self._reason),
            (self._gate.holds > 0, WARN, "the stamps of the latest scans do not continue those before"),
            (bool(motion.problem), WARN, motion.problem),
            (not self._walk_saver.in_house_frame, WARN, _OWN_FRAME),
            (late_s > _LATE_S, WARN, f"poses are {late_s:.0f} s late: this machine is too slow"),
            (counts.waiting > self.config.inbox // 2, WARN, f"{counts.waiting} scans are waiting"),
        )
        return Health(
            level,
            reason,
            {
                "mode": "mapping" if self._given_map is None else "localisation",
                "scan_rate_hz": self._rate_meter.hz,
                "scan_to_pose_median_ms": self._durations.quantile_ms(0.5),
                "scan_to_pose_p99_ms": self._durations.quantile_ms(0.99),
                "scans_placed": counts.done,
                "scans_dropped": counts.dropped,
                "scans_waiting": counts.waiting,
                "scans_with_wrong_stamps": self._gate.refused,
                "inlier_ratio": self._inlier_ratio,
                "imu_used": motion.imu_used,
                "odometry_used": motion.odometry_used,
                "motion_stamps_late_ms": 1e3 * motion.offset_s,
                "gyro_bias_deg_s": math.degrees(motion.bias_radps),
                "walks_stored": self._walk_saver.saved,
                "walks_stored_before": self._walk_saver.duplicates,
                "walks_not_aligned": self._walk_saver.unaligned,
                **{name: int(n) for name, n in sorted(engine.counters.items())},
            },
        )


make = SlamNode
main = partial(run_node, "slam_node", SlamNode)

if __name__ == "__main__":
    sys.exit(main())
