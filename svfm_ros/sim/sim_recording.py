"""From walks to bags: what the volunteer's sensor recorded, and where they really were."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import SimConfig
from svfm_ros.sim.house import House
from svfm_ros.sim.lidar import Lidar
from svfm_ros.sim.trips import LabelledWalk
from svfm_ros.sim.wearer_motion import Motion, motion_of
from svfm_ros.sources.bag_writer import BagWriter, Storage
from svfm_ros.types import Scan, Walk

__all__ = ["Recorder", "Recording"]


@dataclass(frozen=True, slots=True)
class Recording:
    """What one bag is to hold."""

    name: str
    motion: Motion
    walks: tuple[LabelledWalk, ...]
    seed: int


class Recorder:
    """Wears the LiDAR: plans recordings of walks in one house and writes them as bags."""

    def __init__(self, house: House, config: SimConfig | None = None) -> None:
        self.config = config or SimConfig()
        self.lidar = Lidar(house, self.config.lidar, self.config.walker.step_hz)

    def one_per_walk(self, walks: Sequence[LabelledWalk], seed: int) -> list[Recording]:
        """Each walk a recording of its own, as in the paper."""
        return [self._recording(w.walk.walk_id, (w,), seed * 1_000_003 + i) for i, w in enumerate(walks)]

    def all_in_one(
        self,
        walks: Sequence[LabelledWalk],
        seed: int,
        name: str = "recording",
        span_ns: tuple[int, int] | None = None,
    ) -> Recording:
        """Walks that follow each other as one recording; each must begin where the last one ended.

        ``span_ns`` says when the recording begins and ends; without it, shortly before and after the walks.
        """
        return self._recording(name, tuple(walks), seed, span_ns)

    def _recording(
        self, name: str, walks: tuple[LabelledWalk, ...], seed: int, span_ns: tuple[int, int] | None = None
    ) -> Recording:
        before_s, after_s = self.config.recording.before_s, self.config.recording.after_s
        if span_ns is not None and walks:
            before_s = max(0.0, (int(walks[0].walk.stamps_ns[0]) - span_ns[0]) / NS_PER_S)
            after_s = max(0.0, (span_ns[1] - int(walks[-1].walk.stamps_ns[-1])) / NS_PER_S)
        return Recording(name, motion_of([w.walk for w in walks], before_s, after_s, seed), walks, seed)

    def count(self, recording: Recording) -> int:
        """Scans in a recording."""
        return self.lidar.count(recording.motion)

    def scans(self, recording: Recording) -> Iterator[Scan]:
        """What the LiDAR sees."""
        return self.lidar.sweeps(recording.motion, recording.seed)

    def truth(self, recording: Recording) -> Walk:
        """Where the LiDAR is, at an even rate from the first to the last moment of the recording."""
        step_ns = round(NS_PER_S / self.config.recording.truth_rate_hz)
        offsets = np.arange(0, round(recording.motion.duration_s * NS_PER_S) + 1, step_ns, dtype=np.int64)
        poses = recording.motion.poses_at(offsets / NS_PER_S)
        return Walk(recording.name, "resident", recording.motion.start_ns + offsets, poses)

    def write(
        self,
        recording: Recording,
        path: Path,
        storage: Storage = "mcap",
        overwrite: bool = False,
        tick: Callable[[], None] = lambda: None,
    ) -> int:
        """Write one bag, scans and truth in order of time; ``tick`` is called after each scan. Returns their number."""
        truth = self.truth(recording)
        poses = zip(truth.stamps_ns.tolist(), truth.poses, strict=True)
        pending = next(poses, None)
        count = 0
        with BagWriter(path, storage, overwrite) as bag:
            for scan in self.scans(recording):
                received_ns = scan.stamp_ns + self.lidar.period_ns
                while pending is not None and pending[0] <= received_ns:
                    bag.write_pose(*pending)
                    pending = next(poses, None)
                bag.write_scan(scan)
                count += 1
                tick()
            while pending is not None:
                bag.write_pose(*pending)
                pending = next(poses, None)
        return count
