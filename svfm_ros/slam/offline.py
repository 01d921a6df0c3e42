"""SLAM over a whole recording: the same ``Slam`` as live, with the time that each scan took."""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import RasterConfig, SlamConfig
from svfm_ros.slam.body.motion_sensors import MotionSensors
from svfm_ros.slam.localise import Localiser
from svfm_ros.slam.occupancy import MapRaster, echoes
from svfm_ros.slam.slam import Slam, odometry_only
from svfm_ros.slam.trajectory import Trajectory, twists
from svfm_ros.types import ImuReading, OccupancyGrid, OdometryReading, Pose2, Scan

__all__ = ["DrawnLoop", "SlamRun", "draw_grid", "run_slam", "seen_points"]

Array = NDArray[np.float64]
Message = Scan | ImuReading | OdometryReading


_SEEN_M = 30.0  # farther echoes are left out
_SPARSE_S, _FIRST_SCANS = 1.0, 8  # a median interval longer than this, of so many scans, is that of a thinned recording
_FIRST_PASS_SCANS = 150  # of a thinned recording, from which its steps are learned


@dataclass(frozen=True, slots=True)
class DrawnLoop:
    """A loop closure as drawn on the map, with its constraint."""

    from_xy: tuple[float, float]
    to_xy: tuple[float, float]
    accepted: bool
    from_ns: int
    to_ns: int
    T_from_to: Pose2


@dataclass(frozen=True, slots=True)
class SlamRun:
    """Result of SLAM over one recording."""

    trajectory: Trajectory  # optimised, every scan that has a pose
    live: Trajectory  # the pose that was known when each scan arrived
    loops: tuple[DrawnLoop, ...]
    counters: dict[str, int]
    scan_s: Array  # (N,), seconds spent on each scan
    finish_s: float  # spent after the last scan, and before the first on learning the steps
    reasons: dict[str, int] = field(default_factory=dict)  # why scans have no pose, and how many
    covariance: dict[int, Array] = field(default_factory=dict)  # (3, 3) of poses, by the stamp of the scan
    sensors: MotionSensors = field(default_factory=MotionSensors)

    def scans_used(self, messages: Iterable[Message]) -> Iterator[Scan]:
        """The scans as SLAM used them: tilt and rotation compensated, with the sensors' offset and bias at the end."""
        sensors = self.sensors.calibrated_copy()
        for message in messages:
            if isinstance(message, Scan):
                yield sensors.prepare(message)
            else:
                sensors.add(message)

    @property
    def why_no_path(self) -> str:
        """Why there is no trajectory of two poses or more; empty where there is one."""
        if len(self.trajectory) >= 2:
            return ""
        return ", ".join(f"{n} x {reason}" for reason, n in self.reasons.items()) or "there was one scan only"

    @property
    def wall_s(self) -> float:
        """Seconds spent on SLAM, reading the recording and drawing the map not counted."""
        return float(self.scan_s.sum()) + self.finish_s


def run_slam(
    messages: Iterable[Message],
    config: SlamConfig | None = None,
    on_scan: Callable[[Scan, float], None] | None = None,
    slam: Slam | Localiser | None = None,
) -> SlamRun:
    """SLAM over all scans; ``on_scan(scan, seconds so far)`` is called after each.

    Readings of an IMU and of odometry, in the order of their arrival, are used as hints. ``slam`` may be passed in,
    also a localiser; otherwise the steps of a thinned recording are learned from its beginning first.
    """
    begin = time.perf_counter()
    if slam is None:
        slam = Slam(config)
        messages = _with_known_steps(iter(messages), slam)
    first_pass_s = time.perf_counter() - begin
    sensors = MotionSensors(slam.config)
    seconds: list[float] = []
    live_ns: list[int] = []
    live: list[Array] = []
    reasons: dict[str, int] = {}
    covariance: dict[int, Array] = {}
    spent = 0.0
    for scan in messages:
        if not isinstance(scan, Scan):
            sensors.add(scan)
            continue
        begin = time.perf_counter()
        update = slam.add_scan(sensors.prepare(scan), sensors)
        sensors.check(update)
        seconds.append(time.perf_counter() - begin)
        spent += seconds[-1]
        if update.match is not None or not live:
            live_ns.append(update.stamp_ns)
            live.append(update.T_map_base.as_array())
            covariance[update.stamp_ns] = update.covariance
        elif update.reason:
            kind = update.reason.partition(":")[0]
            reasons[kind] = reasons.get(kind, 0) + 1
        if on_scan is not None:
            on_scan(scan, spent)
    begin = time.perf_counter()
    slam.finish()
    finish_s = time.perf_counter() - begin + first_pass_s
    live_trajectory = Trajectory(np.array(live_ns, dtype=np.int64), np.array(live).reshape(-1, 3))
    counters = {name: int(n) for name, n in slam.counters.items()}
    timing = (np.array(seconds), finish_s)
    return SlamRun(slam.trajectory(), live_trajectory, _loops(slam), counters, *timing, reasons, covariance, sensors)


def _with_known_steps(messages: Iterator[Message], slam: Slam) -> Iterator[Message]:
    """All messages again, after SLAM has learned the steps of a thinned recording from the first of them.

    At the start of such a recording any step is as likely, and along a corridor standing still matches best.
    """
    first = _until(messages, _FIRST_SCANS)
    stamps_ns = [m.stamp_ns for m in first if isinstance(m, Scan)]
    if len(stamps_ns) < _FIRST_SCANS or np.median(np.diff(stamps_ns)) <= _SPARSE_S * NS_PER_S:
        return chain(first, messages)
    first += _until(messages, _FIRST_PASS_SCANS - _FIRST_SCANS)
    first_pass = odometry_only(slam.config)
    for message in first:
        if isinstance(message, Scan):
            first_pass.add_scan(message)
    slam.motion.expect(first_pass.motion.steps)
    return chain(first, messages)


def _until(messages: Iterator[Message], scans: int) -> list[Message]:
    """The next messages up to so many scans."""
    taken: list[Message] = []
    while scans and (message := next(messages, None)) is not None:
        taken.append(message)
        scans -= isinstance(message, Scan)
    return taken


def draw_grid(scans: Iterable[Scan], trajectory: Trajectory, config: RasterConfig | None = None) -> OccupancyGrid:
    """The occupancy grid from all scans that have a pose; scans and poses are joined by their stamps."""
    raster = MapRaster(config)
    for scan, k, twist in _with_pose(scans, trajectory):
        raster.put(k, Pose2.from_array(trajectory.poses[k]), scan, twist)
    return raster.grid()


def seen_points(scans: Iterable[Scan], trajectory: Trajectory) -> dict[int, Array]:
    """Echoes ``(N, 2)`` in the sensor's frame of scans that have a pose, by stamp; motion in the sweep taken out."""
    return {scan.stamp_ns: echoes(scan, _SEEN_M, twist) for scan, _, twist in _with_pose(scans, trajectory)}


def _with_pose(scans: Iterable[Scan], trajectory: Trajectory) -> Iterator[tuple[Scan, int, Array]]:
    """Scans that have a pose, its row, and the motion during the sweep."""
    rows: defaultdict[int, deque[int]] = defaultdict(deque)  # a stamp may repeat: then scans are joined by their order
    for k, stamp in enumerate(trajectory.stamps_ns):
        rows[int(stamp)].append(k)
    motion = twists(trajectory.stamps_ns, trajectory.poses)
    for scan in scans:
        if rows[scan.stamp_ns]:
            k = rows[scan.stamp_ns].popleft()
            yield scan, k, motion[k]


def _loops(slam: Slam | Localiser) -> tuple[DrawnLoop, ...]:
    if not isinstance(slam, Slam) or not slam.loops:
        return ()
    views = {view.keyframe_id: view for view in slam.keyframes()}
    drawn = []
    for loop in slam.loops:
        a, b = views.get(loop.constraint.from_id), views.get(loop.constraint.to_id)
        if a is not None and b is not None:
            start, end = a.T_map_keyframe, b.T_map_keyframe
            measured = loop.constraint.T_from_to
            drawn.append(DrawnLoop((start.x, start.y), (end.x, end.y), loop.accepted, a.stamp_ns, b.stamp_ns, measured))
    return tuple(drawn)
