"""Public recordings, degraded versions of them, and poses that their publishers corrected: reference, never input."""

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    Log("edmonton", "edmonton.log.gz", "cluttered hall, one scan per 1 m, turns of 30 degrees"),
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
    """Share of the accepted loops that agree with the corrected poses; NaN without loops."""
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


@dataclass(frozen=True, slots=True)
class Degraded:
    """A recording made worse on purpose; ``true_ns`` (T,) are the stamps that its scans had before."""

    name: str
    scans: list[Scan]
    true_ns: NDArray[np.int64]

    def true_stamps(self, trajectory: Trajectory) -> NDArray[np.int64]:
        """The original stamps of a trajectory of the degraded scans, whose own stamps are unique."""
        truth = {s.stamp_ns: int(t) for s, t in zip(self.scans, self.true_ns, strict=True)}
        return np.array([truth[int(s)] for s in trajectory.stamps_ns], dtype=np.int64)


def degraded(scans: Sequence[Scan], seed: int = 0) -> Iterator[Degraded]:
    """Sparser, noisier, shorter-sighted versions of a recording, and clocks that misbehave."""
    rng = np.random.default_rng(seed)
    stamps_ns = np.array([s.stamp_ns for s in scans], dtype=np.int64)
    yield Degraded("every 2nd scan", list(scans[::2]), stamps_ns[::2])
    fewer = [replace(s, ranges=s.ranges[::4], angle_step=4 * s.angle_step) for s in scans]
    yield Degraded("every 4th beam", fewer, stamps_ns)
    noisy = [replace(s, ranges=_noisy(s, 0.03, rng)) for s in scans]
    yield Degraded("3 cm noise", noisy, stamps_ns)
    short = [replace(s, ranges=s.ranges[::2], angle_step=2 * s.angle_step, range_max=6.0) for s in scans]
    yield Degraded("6 m, half the beams", short, stamps_ns)
    shuffled, chosen = stamps_ns.copy(), rng.choice(len(scans), len(scans) // 100, replace=False)
    shuffled[chosen] = shuffled[rng.permutation(chosen)]
    yield Degraded("1 % of stamps permuted", _stamped(scans, shuffled), stamps_ns)
    stepped = stamps_ns - 3600 * 10**9 * (np.arange(len(scans)) >= len(scans) // 2)
    yield Degraded("clock stepped by -3600 s", _stamped(scans, stepped), stamps_ns)


def cut_and_shuffled(scans: Sequence[Scan], pieces: int = 5, seed: int = 0) -> list[Scan]:
    """The recording cut into pieces, in random order: at each cut the sensor is suddenly elsewhere."""
    parts = np.array_split(np.arange(len(scans)), pieces)
    return [scans[int(k)] for p in np.random.default_rng(seed).permutation(pieces) for k in parts[int(p)]]


def _noisy(scan: Scan, sigma_m: float, rng: np.random.Generator) -> NDArray[np.float32]:
    noise = rng.normal(0.0, sigma_m, len(scan.ranges))
    return np.where(scan.ranges < scan.range_max, scan.ranges + noise, scan.ranges).astype(np.float32)


def _stamped(scans: Sequence[Scan], stamps_ns: NDArray[np.int64]) -> list[Scan]:
    return [replace(s, stamp_ns=int(t)) for s, t in zip(scans, stamps_ns, strict=True)]


def path_of(scans: Sequence[Scan]) -> float:
    """Seconds from the first to the last scan."""
    return (scans[-1].stamp_ns - scans[0].stamp_ns) / 1e9
