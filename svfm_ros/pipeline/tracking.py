"""From scans to poses and walks: SLAM and the walk recorder, side by side. No ROS in here.

A walk is cut from the *optimised* trajectory when it has ended. After a break SLAM may not know yet where on the map
the wearer is; walks of that time wait until their piece of the trajectory is joined to the map. When time goes back,
the open walk is closed. Where the scan still matches at the last pose, only the clock was set, and tracking goes on.
Otherwise a recording has begun again, and tracking starts over, on the current map if that is kept.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.errors import DataError
from svfm_ros.slam.body.motion_sensors import MotionReport, MotionSensors
from svfm_ros.slam.localise import Localiser
from svfm_ros.slam.occupancy import echoes
from svfm_ros.slam.slam import Slam
from svfm_ros.types import ImuReading, OdometryReading, Pose2, Scan, SlamUpdate, Walk
from svfm_ros.walks.segmentation import WalkCut
from svfm_ros.walks.walk_recorder import WalkRecorder, take_walk

if TYPE_CHECKING:
    from svfm_ros.pipeline.slam_engine import Engines

__all__ = ["Engine", "Tracked", "Tracking"]

Array = NDArray[np.float64]

_BACK_NS = 1 * NS_PER_S  # stamps that go back by more than this: a clock that was set, or a recording that begins again
_POINTS_EVERY_NS = NS_PER_S // 4  # what the LiDAR saw is kept for a walk so often
_MOST_WAITING = 50  # walks that wait for their piece to be joined to the map; the oldest are given up


Engine = Slam | Localiser
"""What estimates the pose of each scan: SLAM, or localisation in a given map."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """What one scan gave. Poses are those of the base, the wearer."""

    update: SlamUpdate
    T_map_base: Pose2
    T_odom_base: Pose2
    walks: tuple[Walk, ...] = ()
    started_over: str = ""  # why tracking started over with this scan; empty otherwise
    map_kept: bool = True  # whether the map is still in the frame of before

    @property
    def T_map_odom(self) -> Pose2:
        """How far the odometry is off; it changes when loops are closed."""
        return self.T_map_base @ self.T_odom_base.inverse()


@dataclass(frozen=True, slots=True)
class _EndedWalk:
    """The interval of a walk, and what was seen and measured in it."""

    cut: WalkCut
    points: dict[int, Array]  # stamp to points in the base frame
    covariance: dict[int, Array]  # stamp to that of the sensor's pose (3, 3)


class Tracking:
    """One engine and one recorder; not for use by two threads at a time."""

    def __init__(self, config: SlamNodeConfig, engines: "Engines") -> None:
        self._config = config
        self._engines = engines
        self._T_base_sensor = Pose2.from_array(config.mount)
        self._T_sensor_base = self._T_base_sensor.inverse()
        self._sensors = MotionSensors(config.slam, self._T_base_sensor)
        self._begin(engines.first())

    def _begin(self, engine: Engine) -> None:
        self.engine = engine
        self._recorder = WalkRecorder(self._config.recorder)
        self._seen: OrderedDict[int, Array] = OrderedDict()  # stamp to points in the base frame
        self._covariance: OrderedDict[int, Array] = OrderedDict()  # stamp to that of the sensor's pose (3, 3)
        self._waiting: list[_EndedWalk] = []  # walks in a piece that is not joined to the map
        self._origin: int | None = None  # of the frame of the walks that were handed out
        self._last_ns = int(engine.trajectory().stamps_ns[-1:].max(initial=0))  # of the map of before
        self._last_stamp_ns = 0
        self._last: Pose2 | None = None
        self._T_odom_base = Pose2()

    def add_motion(self, reading: ImuReading | OdometryReading) -> None:
        """Keep a reading of the IMU or of the odometry for the next scan; from any thread."""
        self._sensors.add(reading)

    def motion(self) -> MotionReport:
        """What is known about IMU and odometry."""
        return self._sensors.report()

    def add(self, scan: Scan) -> Tracked:
        """Estimate the pose of a scan; returns it with the walks that have ended."""
        walks: list[Walk] = []
        started_over, map_kept = "", True
        back_ns = self._last_ns - scan.stamp_ns
        scan = self._sensors.prepare(scan)
        if back_ns > _BACK_NS:
            walks += self.finish_walk()
            update, map_kept, what = self._step_back(scan)
            started_over = f"time went back by {back_ns / NS_PER_S:.1f} s: {what}"
        else:
            update = self.engine.add_scan(scan, self._sensors)
        self._sensors.check(update)
        self._last_ns = max(self._last_ns, scan.stamp_ns)
        T_map_base = update.T_map_base @ self._T_sensor_base
        self._advance(update, T_map_base)
        if update.match is not None:
            walks += self._record(scan, update, T_map_base)
        return Tracked(update, T_map_base, self._T_odom_base, tuple(walks), started_over, map_kept)

    def _step_back(self, scan: Scan) -> tuple[SlamUpdate, bool, str]:
        """Handle the first scan after stamps went back: its update, whether the map is kept, and why."""
        make_again, map_kept = self._engines.again(self.engine)  # without what this scan may add to the map
        update = self.engine.add_scan(scan)
        if update.match is not None:
            self.engine.forget_trajectory()
            last, T_odom_base = self._last, self._T_odom_base
            self._begin(self.engine)
            self._last, self._T_odom_base = last, T_odom_base
            return update, True, "the clock was set, the wearer is where they were"
        self.engine.finish()
        self._begin(make_again())
        what = "looking for the wearer on the map" if map_kept else "starting over"
        return self.engine.add_scan(scan), map_kept, what

    def trajectory(self) -> tuple[NDArray[np.int64], Array]:
        """Stamps ``(T,)`` and poses ``(T, 3)`` of the base, at their current estimate."""
        track = self.engine.trajectory()
        return track.stamps_ns, geometry.compose(track.poses, self._T_sensor_base.as_array())

    def finish_walk(self) -> list[Walk]:
        """End the open walk now."""
        return self._take(self._recorder.finish())

    def reset(self) -> list[Walk]:
        """Forget map and track and start over; the open walk is closed and handed out."""
        walks = self.close()
        self._begin(self._engines.empty())
        return walks

    @property
    def is_resting(self) -> bool:
        """Whether no walk is under way."""
        return self._recorder.walk_so_far_ns is None

    def move_map(self, T_new_old: Pose2) -> list[Walk]:
        """Go on with the same map in another frame; the open walk is closed and handed out in the old one."""
        walks = self.close()
        last, T_odom_base = self._last, self._T_odom_base
        self._begin(self._engines.moved(self.engine, T_new_old))
        if last is not None:  # the odometry does not jump
            self._last, self._T_odom_base = T_new_old @ last, T_odom_base
        return walks

    def start_near(self, T_map_base: Pose2) -> list[Walk]:
        """Localise from this pose on, which someone gave; the open walk is closed and handed out."""
        walks = self.finish_walk()
        if isinstance(self.engine, Localiser):
            self.engine.start_near(T_map_base @ self._T_base_sensor)
        return walks

    def close(self) -> list[Walk]:
        """End the open walk and stop the background threads."""
        walks = self.finish_walk()
        self.engine.finish()
        return walks + self._joined_walks()

    def _advance(self, update: SlamUpdate, T_map_base: Pose2) -> None:
        """Odometry goes on smoothly: the step just made, without what a closed loop did to the past."""
        before = self._last
        if before is not None and update.loops:
            before = self._corrected(before)
        if before is not None:
            self._T_odom_base = self._T_odom_base @ (before.inverse() @ T_map_base)
        else:
            self._T_odom_base = T_map_base
        self._last = T_map_base
        self._last_stamp_ns = update.stamp_ns

    def _corrected(self, before: Pose2) -> Pose2:
        """The last pose as the engine sees it after a correction."""
        stamps_ns, poses = self.trajectory()
        row = int(np.searchsorted(stamps_ns, self._last_stamp_ns))
        found = row < len(stamps_ns) and stamps_ns[row] == self._last_stamp_ns
        return Pose2.from_array(poses[row]) if found else before

    def _record(self, scan: Scan, update: SlamUpdate, T_map_base: Pose2) -> list[Walk]:
        walks = []
        if update.loops:
            self._recorder.rewrite(*self.trajectory())
            walks = self._joined_walks()
        self._remember(scan)
        self._covariance[scan.stamp_ns] = update.covariance
        self._forget_older(scan.stamp_ns)
        try:
            return walks + self._take(self._recorder.push(scan.stamp_ns, T_map_base))
        except DataError:  # a stamp that went back a little; the engine takes such scans in the end, a walk does not
            return walks

    def _take(self, cuts: list[WalkCut]) -> list[Walk]:
        if not cuts:
            return []
        self._waiting += [_EndedWalk(c, _within(c, self._seen), _within(c, self._covariance)) for c in cuts]
        return self._joined_walks()

    def _joined_walks(self) -> list[Walk]:
        """The walks that have ended and are in the map now; the others go on waiting.

        A piece that is apart may outgrow the map: walks in its frame would be elsewhere in the home.
        """
        if not self._waiting:
            return []
        origin, (stamps_ns, poses) = self.engine.trajectory().origin, self.trajectory()
        is_same_frame = self._origin in (None, origin)
        walks, waiting = [], []
        resident, recorder = self._config.resident, self._config.recorder
        for w in self._waiting:
            try:
                if not is_same_frame:
                    raise DataError("expected the walk on the map, got it in a frame of its own")
                walks.append(take_walk(w.cut, resident, stamps_ns, poses, w.points.get, recorder, w.covariance.get))
                self._origin = origin
            except DataError:
                waiting.append(w)
        self._waiting = waiting[-_MOST_WAITING:]
        self.engine.counters["walks_given_up"] += len(waiting) - len(self._waiting)
        self.engine.counters["walks_waiting"] = len(self._waiting)
        return walks

    def _remember(self, scan: Scan) -> None:
        newest = next(reversed(self._seen), None)
        if newest is not None and scan.stamp_ns - newest < _POINTS_EVERY_NS:
            return
        self._seen[scan.stamp_ns] = self._T_base_sensor.apply(echoes(scan, scan.range_max)).astype(np.float32)

    def _forget_older(self, stamp_ns: int) -> None:
        """Drop points and covariances that no walk still open at that stamp can reach back to."""
        keep_ns = round((self._config.recorder.longest_s + self._config.recorder.dwell_time_s + 5.0) * NS_PER_S)
        for kept in (self._seen, self._covariance):
            while stamp_ns - next(iter(kept)) > keep_ns:
                kept.popitem(last=False)


def _within(cut: WalkCut, by_stamp: OrderedDict[int, Array]) -> dict[int, Array]:
    return {stamp_ns: x for stamp_ns, x in by_stamp.items() if cut.start_ns <= stamp_ns <= cut.end_ns}
