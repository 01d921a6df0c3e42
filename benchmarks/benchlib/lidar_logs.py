"""The recordings, and the poses that their publishers corrected: answers to hold a result against, never an input."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.slam.offline import SlamRun
from svfm_ros.slam.trajectory import Trajectory
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.sources import open_scans
from svfm_ros.types import Scan

Array = NDArray[np.float64]

# A loop is right when it agrees with the corrected poses to this; those have errors of their own.
_RIGHT_M, _RIGHT_DEG = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class Log:
    """One recording."""

    name: str
    file: str
    what: str


LOGS = (
    Log("freiburg", "freiburg-079.log.gz", "office, 5 scans a second"),
    Log("intel", "intel.rawlog.gz", "office, about one scan a second"),
    Log("intel sparse", "intel-sparse.log.gz", "the same, one scan per 0.5 m"),
    Log("aces", "aces.log.gz", "corridors, one scan per 0.5 m"),
    Log("seattle", "seattle.log.gz", "corridors, one scan per 1 m"),
    Log("hokuyo", "hokuyo-demo.bag", "held in the hand"),
)


def read_log(folder: Path, log: Log) -> list[Scan]:
    """All scans of a recording."""
    return list(open_scans(folder / log.file))


def corrected_poses(path: Path) -> Trajectory | None:
    """The poses a CARMEN log carries, by the stamps of its scans; ``None`` for other logs."""
    if not path.name.endswith(".log.gz"):
        return None
    with gzip.open(path, "rt") as file:
        words = [line.split() for line in file if line.startswith("FLASER")]
    at = [int(w[1]) + 2 for w in words]
    poses = np.array([[float(v) for v in w[n : n + 3]] for w, n in zip(words, at, strict=True)])
    stamps = [s.stamp_ns for s in open_scans(path)]
    return Trajectory(np.array(stamps, dtype=np.int64), poses)


def error_to_corrected(run: SlamRun, corrected: Trajectory) -> tuple[float, float]:
    """RMSE in metres and degrees to the corrected poses, after alignment."""
    row = {int(s): k for k, s in enumerate(corrected.stamps_ns)}
    rows = [row[int(s)] for s in run.trajectory.stamps_ns]
    error = absolute_error(run.trajectory.poses, corrected.poses[rows])
    return error.rmse_m, error.rmse_deg


def loop_precision(run: SlamRun, corrected: Trajectory) -> float:
    """Share of the believed loops that agree with the corrected poses; NaN without loops."""
    pose = {int(s): p for s, p in zip(corrected.stamps_ns, corrected.poses, strict=True)}
    right = []
    for loop in (loop for loop in run.loops if loop.accepted):
        wanted = geometry.relative(pose[loop.from_ns], pose[loop.to_ns])
        off = geometry.relative(wanted, loop.T_from_to.as_array())
        right.append(np.hypot(off[0], off[1]) < _RIGHT_M and abs(np.degrees(off[2])) < _RIGHT_DEG)
    return float(np.mean(right)) if right else float("nan")


def largest_jump(run: SlamRun, corrected: Trajectory | None) -> float:
    """Largest step from scan to scan, in metres, beyond that of the corrected poses; without those, beyond 1.5 m/s."""
    poses, stamps = run.trajectory.poses, run.trajectory.stamps_ns
    if len(poses) < 2:
        return float("nan")
    steps_m = np.hypot(*np.diff(poses[:, :2], axis=0).T)
    if corrected is None:
        allowed_m = 1.5 * np.diff(stamps) / 1e9
    else:
        row = {int(s): k for k, s in enumerate(corrected.stamps_ns)}
        allowed_m = np.hypot(*np.diff(corrected.poses[[row[int(s)] for s in stamps], :2], axis=0).T)
    return max(0.0, float((steps_m - allowed_m).max()))


def path_of(scans: Sequence[Scan]) -> float:
    """Seconds from the first to the last scan."""
    return (scans[-1].stamp_ns - scans[0].stamp_ns) / 1e9
