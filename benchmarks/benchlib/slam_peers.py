"""Other SLAM programs on the same scans, without odometry, as far as they can do without."""

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.types import Scan

Array = NDArray[np.float64]

_BREEZY_PIXELS, _BREEZY_M = 2000, 100.0


@dataclass(frozen=True, slots=True)
class PeerRun:
    """What a peer made of a recording."""

    name: str
    poses: Array  # (T, 3), as far as it came
    wall_s: float
    note: str

    @property
    def came(self) -> bool:
        """Whether it ran."""
        return len(self.poses) > 0


def run_peers(scans: Sequence[Scan], limit_s: float, all_guesses: bool = False) -> list[PeerRun]:
    """Every peer there is, each given up on after the limit."""
    guesses = (False, True) if all_guesses else (False,)
    with _stdout_to_stderr():
        return [*(_run_yag(scans, limit_s, velocity) for velocity in guesses), _run_breezy(scans, limit_s)]


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """What compiled code prints goes to stderr, not among the figures."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        _flush_c()
        os.dup2(kept, 1)
        os.close(kept)


def _flush_c() -> None:
    """Flush the buffer of C and C++."""
    ctypes.CDLL(None).fflush(None)


def _run_yag(scans: Sequence[Scan], limit_s: float, velocity: bool) -> PeerRun:
    """yag-slam: Karto's matcher and graph. In place of odometry it gets a guess: no motion, or the last one again."""
    name = f"yag-slam, guess: {'same motion again' if velocity else 'no motion'}"
    try:
        from tiny_tf.tf import Transform
        from yag_slam.graph_slam import GraphSlam
        from yag_slam.models import LocalizedRangeScan
        from yag_slam.scan_matching import Scan2DMatcherCpp
    except ImportError as error:
        return PeerRun(name, np.empty((0, 3)), 0.0, f"not installed ({error})")

    def pose_of(transform: Transform) -> Array:
        return np.array([transform.x, transform.y, transform.euler[-1]])

    slam = GraphSlam(Scan2DMatcherCpp({}), Scan2DMatcherCpp({}, loop=True))
    odometry, placed, closed = np.zeros(3), [], 0
    begin = time.perf_counter()
    for scan in scans:
        if velocity and len(placed) > 1:
            last = pose_of(placed[-1].corrected_pose)
            odometry = geometry.compose(odometry, geometry.relative(pose_of(placed[-2].corrected_pose), last))
        good = (scan.ranges > scan.range_min) & (scan.ranges < scan.range_max)
        ranges = [float(r) for r in np.where(good, scan.ranges, 0.0)]
        last_angle = scan.angle_min + scan.angle_step * (len(ranges) - 1)
        laser = (scan.angle_min, last_angle, scan.angle_step, scan.range_min, scan.range_max, min(20.0, scan.range_max))
        query = LocalizedRangeScan(ranges, *laser, *(float(v) for v in odometry))
        closed += bool(slam.process_scan(query)[1])
        placed.append(query)
        if time.perf_counter() - begin > limit_s:
            break
    wall_s = time.perf_counter() - begin
    poses = np.array([pose_of(q.corrected_pose) for q in placed])
    note = f"{closed} loops" if len(placed) == len(scans) else f"given up after {len(placed)} of {len(scans)} scans"
    return PeerRun(name, poses, wall_s, note)


def _run_breezy(scans: Sequence[Scan], limit_s: float) -> PeerRun:
    """BreezySLAM (CoreSLAM with random-mutation hill climbing), its defaults, a map of 5 cm. It closes no loops."""
    name = "BreezySLAM"
    try:
        from breezyslam.algorithms import RMHC_SLAM
        from breezyslam.sensors import Laser
    except ImportError:
        return PeerRun(name, np.empty((0, 3)), 0.0, "not installed: not on PyPI, `setup.py build` in its repository")
    first = scans[0]
    fov_deg = float(np.degrees(abs(first.angle_step) * (len(first.ranges) - 1)))
    laser = Laser(len(first.ranges), 5.0, fov_deg, 1000.0 * first.range_max)
    slam = RMHC_SLAM(laser, _BREEZY_PIXELS, _BREEZY_M, random_seed=1)
    placed: list[Array] = []
    begin = time.perf_counter()
    for scan in scans:
        good = (scan.ranges > scan.range_min) & (scan.ranges < scan.range_max)
        slam.update([int(1000.0 * r) for r in np.where(good, scan.ranges, 0.0)])
        x_mm, y_mm, theta_deg = slam.getpos()
        placed.append(np.array([x_mm / 1000.0, y_mm / 1000.0, np.radians(theta_deg)]))
        if time.perf_counter() - begin > limit_s:
            break
    wall_s = time.perf_counter() - begin
    note = "no loop closure" if len(placed) == len(scans) else f"given up after {len(placed)} of {len(scans)} scans"
    return PeerRun(name, np.array(placed), wall_s, note)
