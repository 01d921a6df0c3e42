"""Thinned recordings and harder versions of them: reversed, begun later, every second scan, noisier, shorter-sighted.

What closes as published may be luck: a good SLAM closes all of them. The poses that the publishers corrected are the
reference, never input; Freiburg 079 is thinned by them, as its sensor would have been by odometry.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchlib.lidar_logs import LOGS, corrected_poses, read_log
from svfm_ros.geometry import wrap_angle
from svfm_ros.slam.trajectory import Trajectory
from svfm_ros.types import Scan

Ints = NDArray[np.int64]

_THINNED = ("intel sparse", "aces", "seattle", "edmonton")
_NOISE_M, _SHORT_M = 0.01, 12.0
_STEPS = ((1.0, 0.52), (2.0, 0.7))  # metres or radians between the scans of Freiburg 079 that are kept


@dataclass(frozen=True, slots=True)
class SparseLog:
    """A recording, and the corrected poses of its scans in their order."""

    name: str
    scans: list[Scan]
    corrected: Trajectory

    def part(self, name: str, rows: Ints) -> "SparseLog":
        """Only some of the scans, in their order."""
        at = Trajectory(self.corrected.stamps_ns[rows], self.corrected.poses[rows])
        return SparseLog(f"{self.name}, {name}", [self.scans[int(k)] for k in rows], at)

    def reversed(self) -> "SparseLog":
        """From the end to the beginning, with the same intervals: the sensor moves backwards."""
        end_ns = self.scans[-1].stamp_ns + self.scans[0].stamp_ns
        scans = [replace(s, stamp_ns=end_ns - s.stamp_ns) for s in self.scans[::-1]]
        stamps_ns = np.array([s.stamp_ns for s in scans], dtype=np.int64)
        return SparseLog(f"{self.name}, reversed", scans, Trajectory(stamps_ns, self.corrected.poses[::-1]))

    def noisy(self, seed: int) -> "SparseLog":
        """With another centimetre of noise."""
        rng = np.random.default_rng(seed)
        noise = [rng.normal(0.0, _NOISE_M, len(s.ranges)).astype(np.float32) for s in self.scans]
        scans = [replace(s, ranges=s.ranges + n) for s, n in zip(self.scans, noise, strict=True)]
        return SparseLog(f"{self.name}, noise {seed}", scans, self.corrected)

    def short_sighted(self) -> "SparseLog":
        """Without what is farther than 12 m."""
        scans = [replace(s, ranges=np.where(s.ranges > _SHORT_M, np.inf, s.ranges)) for s in self.scans]
        return SparseLog(f"{self.name}, {_SHORT_M:g} m", scans, self.corrected)


def sparse_logs(folder: Path) -> Iterator[SparseLog]:
    """All of them, one after another."""
    for name in _THINNED:
        whole = _read(folder, name)
        rows = np.arange(len(whole.scans))
        yield whole
        yield whole.reversed()
        yield whole.part("from a third on", rows[len(rows) // 3 :])
        yield whole.part("every 2nd", rows[::2])
        yield whole.noisy(1)
        yield whole.noisy(2)
        yield whole.short_sighted()
    dense = _read(folder, "freiburg")
    for step_m, turn_rad in _STEPS:
        thinned = dense.part(f"every {step_m:g} m", _thinned(dense.corrected.poses, step_m, turn_rad))
        yield thinned
        yield thinned.reversed()


def _read(folder: Path, name: str) -> SparseLog:
    log = next(log for log in LOGS if log.name == name)
    corrected = corrected_poses(folder / log.file)
    assert corrected is not None
    return SparseLog(name, read_log(folder, log), corrected)


def _thinned(poses: NDArray[np.float64], step_m: float, turn_rad: float) -> Ints:
    """Rows of poses ``(T, 3)`` so far or so much turned from the one kept before."""
    kept = [0]
    for k in range(1, len(poses)):
        off = poses[k] - poses[kept[-1]]
        if np.hypot(off[0], off[1]) >= step_m or abs(float(wrap_angle(off[2]))) >= turn_rad:
            kept.append(k)
    return np.array(kept, dtype=np.int64)
