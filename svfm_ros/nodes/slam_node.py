"""Scans in; map, pose, track, TF and finished walks out.

    ros2 run svfm_ros slam_node [--ros-args -p map:=house.yaml -p store:=walks -p resident:=mary]

Callbacks only hand messages over. One thread places scans, publishes poses and cuts walks (``tracking``); a second
keeps finished walks (``walk_keeper``); a third draws the map and the track (``pictures``).
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geometry_msgs.msg import PoseWithCovarianceStamped
from rclpy.clock import Clock, ClockType
from rclpy.task import Future
from sensor_msgs.msg import LaserScan, PointCloud2

from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.errors import DataError, SvfmError
from svfm_ros.mapio import save_map
from svfm_ros.nodes.map_publisher import Pictures
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.point_cloud import from_point_cloud
from svfm_ros.nodes.messages.transforms import Transforms
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.deferred_services import Command, offer
from svfm_ros.nodes.runtime.diagnostics import ERROR, WARN, Diagnostics, Health, Latencies, RateMeter, worst
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.subscriptions import Hearing
from svfm_ros.nodes.walk_publisher import WalkKeeper
from svfm_ros.pipeline.saved_map import KeptMap, MapMemory, state_path
from svfm_ros.pipeline.slam_engine import Engines, given_map, warm_up
from svfm_ros.pipeline.tracking import Tracked, Tracking
from svfm_ros.pipeline.worker import Worker
from svfm_ros.types import Pose2, Scan

__all__ = ["SlamNode", "main", "make"]

_SILENT_S = 3.0
_JUST_NOW_S = 60.0  # a map as young as that was left by one who was killed: its compiled code is kept on disk
_FRAME_OF_ITS_OWN = "this map has a frame of its own: walks are brought into the house, forecasts do not fit the map"
_LOOK_S = 0.05
_STEADY = Clock(clock_type=ClockType.STEADY_TIME)
_TYPES = {"scan": "sensor_msgs/msg/LaserScan", "points": "sensor_msgs/msg/PointCloud2"}


@dataclass(frozen=True, slots=True)
class _Arrived:
    message: LaserScan | PointCloud2
    at_s: float


class SlamNode(ConfiguredNode[SlamNodeConfig]):
    """Mapping, or localisation where a map is given."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("slam_node", SlamNodeConfig, **node_options)
        config = self.config
        self._given_map = given_map(config)
        self._memory = MapMemory(
            state_path(config.state, config.store, config.map, self.get_namespace()),
            config.state_period_s,
            self._say_error,
        )
        self._meter, self._latencies = RateMeter(), Latencies()
        self._inlier_ratio, self._reason, self._sensor_frame = 1.0, "", ""
        self._wrong_types: set[str] = set()
        self._pose_publisher = self.create_publisher(PoseWithCovarianceStamped, "pose", config.inbox)
        frames = (config.map_frame, config.odom_frame, config.base_frame)
        self._transforms = Transforms(self, *frames) if config.publish_tf else None
        kept = self._kept_map()
        self._has_map = kept is not None
        self._is_back = kept is not None and kept.age_s < _JUST_NOW_S
        self._keeper = WalkKeeper(
            self,
            config.store,
            config.map_frame,
            placed=self._given_map is not None,
            resumed=kept is not None and kept.in_house_frame,
        )
        engines = Engines(
            config.slam,
            self._given_map,
            kept=kept.state if kept is not None else None,
            keeps_map=self._memory.is_kept,
            background=True,
        )
        self._tracking = Tracking(config, engines)
        self._pictures = Pictures(self, lambda: self.config, self._given_map, self._say_error)
        self._worker: Worker[_Arrived | Command] = Worker(
            "slam", self._handle, capacity=config.inbox, on_error=self._say_error, on_drop=self._say_drop
        )
        self._warm = Future()
        self._worker.put(Command(self._warm_up, self._warm))
        if self._is_back:
            self._listen()  # scans wait their turn: who was just killed must be back soon
        else:
            self._waiting = self.create_timer(_LOOK_S, self._begin_when_warm, clock=_STEADY)
        self.create_timer(1.0, self._look_at_types, clock=_STEADY)
        for name, work in (("save_map", self._save_map), ("finish_walk", self._finish_walk), ("reset", self._reset)):
            offer(self, name, work, self._worker.put)
        Diagnostics(self, "slam", self._health)

    def _kept_map(self) -> KeptMap | None:
        try:
            kept = self._memory.read()
        except DataError as error:
            self.get_logger().error(str(error))
            return None
        if kept is not None:
            self.get_logger().info(f"going on with the map of before, {len(kept.state)} keyframes")
        return kept

    def _begin_when_warm(self) -> None:
        """Listen only when scans can be placed at once: a player waits for that."""
        if not self._warm.done():
            return
        self._waiting.cancel()
        self._listen()

    def _listen(self) -> None:
        Hearing(self, LaserScan, "scan", self._receive, self.config.inbox)
        Hearing(self, PointCloud2, "points", self._receive, self.config.inbox)

    def close(self) -> None:
        """Keep the open walk, stop the threads and leave the graph."""
        self._worker.stop(timeout_s=2.0)  # it may be compiling
        for walk in self._tracking.close():
            self._keeper.keep(walk)
        self._memory.close(self._tracking.engine, self._keeper.in_house_frame)
        self._keeper.close()
        self._pictures.close()
        super().close()

    # Callbacks: they only hand over

    def _receive(self, message: LaserScan | PointCloud2) -> None:
        self._meter.tick()
        self._worker.put(_Arrived(message, time.monotonic()))

    def _look_at_types(self) -> None:
        """Scans of another type never arrive; whoever waits for them should know why."""
        for topic, expected in _TYPES.items():
            for info in self.get_publishers_info_by_topic(self.resolve_topic_name(topic)):
                line = f"{info.node_name} publishes {topic} as {info.topic_type}, expected {expected}"
                if info.topic_type != expected and line not in self._wrong_types:
                    self._wrong_types.add(line)
                    self.get_logger().error(line)

    def _say_error(self, error: Exception) -> None:
        text = str(error) if isinstance(error, SvfmError) else f"{type(error).__name__}: {error}"
        self._reason = text
        if self.context.ok():
            self.get_logger().error(text, throttle_duration_sec=2.0)

    def _say_drop(self, item: _Arrived | Command, count: int) -> None:
        if isinstance(item, Command):
            item.refuse("too much to do: try again")
        self.get_logger().warning(f"{count} scans were dropped: they come too fast", throttle_duration_sec=5.0)

    # The thread that places scans

    def _handle(self, item: _Arrived | Command) -> None:
        if isinstance(item, Command):
            item.obey()
            return
        tracked = self._tracking.add(self._scan_of(item.message))
        if tracked.started_over:
            self._pictures.start_over()
            self.get_logger().warning(tracked.started_over)
        self._publish_pose(tracked)
        self._latencies.add(time.monotonic() - item.at_s)
        self._note(tracked)
        for walk in tracked.walks:
            self._keeper.keep(walk)
        if not tracked.map_kept:  # the walks that came with it still belong to the map before
            self._keeper.start_over()
        self._memory.keep(self._tracking.engine, self._keeper.in_house_frame)
        self._pictures.order(self._tracking, tracked.update.stamp_ns, tracked.update.map_changed)

    def _scan_of(self, message: LaserScan | PointCloud2) -> Scan:
        if isinstance(message, LaserScan):
            scan = convert.from_laser_scan(message)
        else:
            c = self.config.cloud
            scan = from_point_cloud(message, c.beams, c.range_min_m, c.range_max_m, c.z_min_m, c.z_max_m)
        if message.header.frame_id != self._sensor_frame:
            self._sensor_frame = message.header.frame_id
            if self._transforms is not None:
                self._transforms.mount(Pose2.from_array(self.config.mount), self._sensor_frame, scan.stamp_ns)
        return scan

    def _publish_pose(self, tracked: Tracked) -> None:
        update, config = tracked.update, self.config
        if update.match is None and update.reason:
            return  # the scan could not be placed; an old pose under a new stamp would be a lie
        self._pose_publisher.publish(
            convert.to_pose_with_covariance(tracked.T_map_base, update.covariance, config.map_frame, update.stamp_ns)
        )
        if self._transforms is not None:
            self._transforms.move(tracked.T_map_odom, tracked.T_odom_base, update.stamp_ns)

    def _note(self, tracked: Tracked) -> None:
        update = tracked.update
        self._reason = update.reason
        self._inlier_ratio = update.match.inlier_ratio if update.match is not None else 0.0 if update.reason else 1.0

    # What services ask for

    def _warm_up(self) -> str:
        """Compile before the first scan is due, unless a moment ago this was done; show the map of before."""
        if not self._is_back:
            warm_up(self.config)
        if self._has_map:
            self._pictures.order(self._tracking, self.get_clock().now().nanoseconds, map_changed=True)
        return "warm"

    def _save_map(self) -> str:
        if self._pictures.grid is None:
            raise DataError("there is no map yet: no scan has been placed")
        path = Path(self.config.save_map_to).expanduser().absolute()
        save_map(self._pictures.grid, path)
        return f"saved the map as {path}"

    def _finish_walk(self) -> str:
        walks = self._tracking.finish_walk()
        for walk in walks:
            self._keeper.keep(walk)
        return f"finished the walk {walks[0].walk_id}" if walks else "nobody was walking"

    def _reset(self) -> str:
        for walk in self._tracking.reset():
            self._keeper.keep(walk)
        self._keeper.start_over()
        self._pictures.start_over()
        return "started over with an empty map" if self._given_map is None else "looking for the wearer on the map"

    # Diagnostics

    def _health(self) -> Health:
        counts, engine = self._worker.counts(), self._tracking.engine
        silent_s, p99_ms = self._meter.silent_s, self._latencies.quantile_ms(0.99)
        level, reason = worst(
            (bool(self._wrong_types), ERROR, next(iter(self._wrong_types), "")),
            (silent_s > _SILENT_S, WARN, f"no scan for {silent_s:.0f} s"),
            (bool(self._keeper.problem), ERROR, self._keeper.problem),
            (bool(self._reason), WARN, self._reason),
            (not self._keeper.in_house_frame, WARN, _FRAME_OF_ITS_OWN),
            (counts.waiting > self.config.inbox // 2, WARN, f"{counts.waiting} scans are waiting"),
        )
        return Health(
            level,
            reason,
            {
                "mode": "mapping" if self._given_map is None else "localisation",
                "scan_rate_hz": self._meter.hz,
                "scan_to_pose_median_ms": self._latencies.quantile_ms(0.5),
                "scan_to_pose_p99_ms": p99_ms,
                "scans_placed": counts.done,
                "scans_dropped": counts.dropped,
                "scans_waiting": counts.waiting,
                "inlier_ratio": self._inlier_ratio,
                "walks_stored": self._keeper.kept,
                "walks_without_a_place_in_the_house": self._keeper.refused,
                **{name: int(n) for name, n in sorted(engine.counters.items())},
            },
        )


make = SlamNode


def main(args: Sequence[str] | None = None) -> int:
    """Run SLAM in this process."""
    return run_node("slam_node", SlamNode, args)


if __name__ == "__main__":
    sys.exit(main())
