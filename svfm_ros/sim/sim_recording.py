"""From walks to files: bags of what the worn sensors measure, and the truth as CSV and YAML."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros import atomic_files
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import SimConfig
from svfm_ros.sim.house import House
from svfm_ros.sim.household import arrange, bystanders, glazing
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.sensors.inertial import imu_readings, odometry_readings
from svfm_ros.sim.sensors.lidar import Lidar
from svfm_ros.sim.trips import LabelledWalk
from svfm_ros.sim.walker import route_book
from svfm_ros.sim.wearer_motion import BodySway, Motion, motion_of
from svfm_ros.sources.bag_writer import BagWriter, Storage
from svfm_ros.types import ImuReading, OdometryReading, Scan, Walk

__all__ = [
    "Recorder",
    "Recording",
    "TruePose",
    "write_labels_csv",
]


@dataclass(frozen=True, slots=True)
class Recording:
    """Content of one bag: the wearer's motion, the walks in it, the seed of the sensors."""

    name: str
    motion: Motion
    walks: tuple[LabelledWalk, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class TruePose:
    """Where the sensors really are, frame ``map``."""

    stamp_ns: int
    pose: NDArray[np.float64]  # (3,): x, y, theta


Message = Scan | TruePose | ImuReading | OdometryReading


class Recorder:
    """Plans recordings of walks in one house, simulates the sensors and writes bags."""

    def __init__(self, house: House, config: SimConfig | None = None) -> None:
        self.config = config or SimConfig()
        self.house = house
        self._panes = glazing(house, self.config.household)
        self.lidar = Lidar(house, self.config.lidar, self.config.walker.step_hz, self._panes)
        self._book: RouteBook | None = None

    def one_per_walk(self, walks: Sequence[LabelledWalk], seed: int) -> list[Recording]:
        """Each walk a recording of its own, as in the paper."""
        return [self._recording(w.walk.walk_id, (w,), seed * 1_000_003 + i) for i, w in enumerate(walks)]

    def all_in_one(
        self,
        walks: Sequence[LabelledWalk],
        seed: int,
        span_ns: tuple[int, int] | None = None,
    ) -> Recording:
        """Walks that follow each other as one recording; each must begin where the last one ended.

        ``span_ns`` says when the recording begins and ends; without it, shortly before and after the walks.
        """
        return self._recording("recording", tuple(walks), seed, span_ns)

    def _recording(
        self, name: str, walks: tuple[LabelledWalk, ...], seed: int, span_ns: tuple[int, int] | None = None
    ) -> Recording:
        before_s, after_s = self.config.recording.before_s, self.config.recording.after_s
        if span_ns is not None and walks:
            before_s = max(0.0, (int(walks[0].walk.stamps_ns[0]) - span_ns[0]) / NS_PER_S)
            after_s = max(0.0, (span_ns[1] - int(walks[-1].walk.stamps_ns[-1])) / NS_PER_S)
        turn = self.config.recording.turn_radps
        motion = motion_of([w.walk for w in walks], before_s, after_s, seed, turn)
        return Recording(name, motion, walks, seed)

    def count(self, recording: Recording) -> int:
        """Scans in a recording."""
        return self.lidar.count(recording.motion)

    def scans(self, recording: Recording) -> Iterator[Scan]:
        """Scans of a recording in order of time."""
        return self._lidar_of(recording).sweeps(recording.motion, recording.seed)

    def _lidar_of(self, recording: Recording) -> Lidar:
        """The LiDAR in the house as it is on the day of a recording, with whoever walks by."""
        home, motion = self.config.household, recording.motion
        rearranged = home.doors or home.furniture_m > 0.0 or home.clutter > 0
        if not (rearranged or home.people or home.pets):
            return self.lidar
        day = motion.start_ns // (86400 * NS_PER_S)
        house = arrange(self.house, home, day, motion.poses[:, :2]) if rearranged else self.house
        bodies = []
        if home.people or home.pets:
            self._book = self._book or route_book(self.house, self.config.walker)
            bodies = bystanders(self._book, home, motion, recording.seed)
        return Lidar(house, self.config.lidar, self.config.walker.step_hz, self._panes, bodies)

    def messages(self, recording: Recording) -> Iterator[tuple[int, Message]]:
        """Everything that is recorded, in order of the time (ns) at which it is known: scans when complete."""
        motion, seed = recording.motion, recording.seed
        truth = self.truth(recording)
        streams: list[Iterator[tuple[int, Message]]] = [
            (((t, TruePose(t, p)) for t, p in zip(truth.stamps_ns.tolist(), truth.poses, strict=True)))
        ]
        if self.config.imu.enabled:
            sway = BodySway(motion, self.config.lidar, self.config.walker.step_hz, seed)
            streams.append((r.stamp_ns, r) for r in imu_readings(motion, sway, self.config.imu, seed))
        if self.config.odometry.enabled:
            streams.append((r.stamp_ns, r) for r in odometry_readings(motion, self.config.odometry, seed))
        streams.append((s.stamp_ns + self.lidar.period_ns, s) for s in self.scans(recording))
        return merge(*streams, key=lambda due: due[0])

    def truth(self, recording: Recording) -> Walk:
        """Where the LiDAR is, at an even rate from the first to the last moment of the recording."""
        step_ns = round(NS_PER_S / self.config.recording.truth_rate_hz)
        offsets = np.arange(0, round(recording.motion.duration_s * NS_PER_S) + 1, step_ns, dtype=np.int64)
        poses = recording.motion.poses_at(offsets / NS_PER_S)
        poses += np.array([self.config.recording.origin_x_m, self.config.recording.origin_y_m, 0.0])
        return Walk(recording.name, "resident", recording.motion.start_ns + offsets, poses)

    def write(
        self,
        recording: Recording,
        path: Path,
        storage: Storage = "mcap",
        overwrite: bool = False,
        tick: Callable[[], None] = lambda: None,
    ) -> int:
        """Write one bag, all topics in order of time; ``tick`` is called after each scan. Returns their number."""
        count = 0
        with BagWriter(path, storage, overwrite) as bag:
            for _, message in self.messages(recording):
                _write_message(bag, message)
                if isinstance(message, Scan):
                    count += 1
                    tick()
        return count


def _write_message(bag: BagWriter, message: Message) -> None:
    if isinstance(message, Scan):
        bag.write_scan(message)
    elif isinstance(message, TruePose):
        bag.write_pose(message.stamp_ns, message.pose)
    elif isinstance(message, ImuReading):
        bag.write_imu(message.stamp_ns, message.gyro_radps, message.accel_mps2)
    else:
        bag.write_odometry(message.stamp_ns, message.T_odom_base, message.twist, message.covariance)


def write_labels_csv(walks: Sequence[LabelledWalk], path: Path) -> None:
    """``walk_id,origin,destination,start,end`` with times in Unix seconds."""
    rows = ["walk_id,origin,destination,start,end"]
    for labelled in walks:
        begin, end = (f"{int(s) / NS_PER_S:.3f}" for s in labelled.walk.stamps_ns[[0, -1]])
        rows.append(f"{labelled.walk.walk_id},{labelled.origin},{labelled.destination},{begin},{end}")
    with atomic_files.writing(path):
        atomic_files.write_whole(path, ("\n".join(rows) + "\n").encode())
