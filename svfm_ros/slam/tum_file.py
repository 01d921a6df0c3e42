"""Trajectories as files in the format of the TUM benchmark, one pose a line: ``t x y z qx qy qz qw``, in seconds."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError

__all__ = ["load_tum", "poses_at", "save_tum", "twists"]

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]

_COLUMNS = 8


def save_tum(path: Path, stamps_ns: ArrayLike, poses: ArrayLike) -> None:
    """Write stamps ``(T,)`` and poses ``(T, 3)``; stamps keep all their nanoseconds."""
    stamps, trajectory = np.asarray(stamps_ns, dtype=np.int64), np.asarray(poses, dtype=float).reshape(-1, 3)
    if len(stamps) != len(trajectory):
        raise DataError(f"expected as many stamps as poses, got {len(stamps)} and {len(trajectory)}")
    half = trajectory[:, 2] / 2.0
    rows = zip(stamps.tolist(), trajectory[:, 0], trajectory[:, 1], np.sin(half), np.cos(half), strict=True)
    lines = [f"{_seconds(t)} {x:.6f} {y:.6f} 0 0 0 {qz:.9f} {qw:.9f}\n" for t, x, y, qz, qw in rows]
    path.write_text("".join(["# t x y z qx qy qz qw\n", *lines]))


def load_tum(path: Path) -> tuple[Stamps, Array]:
    """Stamps ``(T,)`` in nanoseconds and poses ``(T, 3)``; height, roll and pitch are left out."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the trajectory {path}: {error}") from error
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    try:
        stamps = [_nanoseconds(row[0]) for row in rows]
        values = np.array([[float(v) for v in row] for row in rows]).reshape(len(rows), -1 if rows else _COLUMNS)
    except ValueError as error:
        raise DataError(f"{path}: expected lines of {_COLUMNS} numbers, got {error}") from error
    if values.shape[1] != _COLUMNS:
        raise DataError(f"{path}: expected lines of {_COLUMNS} numbers, got {values.shape[1]}")
    qx, qy, qz, qw = values[:, 4:].T
    theta = np.arctan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
    return np.array(stamps, dtype=np.int64), np.stack([values[:, 1], values[:, 2], theta], axis=-1)


def poses_at(wanted_ns: ArrayLike, stamps_ns: ArrayLike, poses: ArrayLike) -> Array:
    """Poses ``(K, 3)`` at other times, interpolated between neighbours; the first and last pose are held."""
    wanted, stamps = np.asarray(wanted_ns, dtype=np.int64), np.asarray(stamps_ns, dtype=np.int64)
    trajectory = np.asarray(poses, dtype=float)
    after = np.clip(np.searchsorted(stamps, wanted), 1, max(len(stamps) - 1, 1))
    before, after = after - 1, np.minimum(after, len(stamps) - 1)
    span = np.maximum(stamps[after] - stamps[before], 1)
    share = np.clip((wanted - stamps[before]) / span, 0.0, 1.0)[:, None]
    motion = geometry.log(geometry.relative(trajectory[before], trajectory[after]))
    return geometry.compose(trajectory[before], geometry.exp(share * motion))


def twists(stamps_ns: ArrayLike, poses: ArrayLike, longest_gap_s: float = 0.5) -> Array:
    """Velocity ``(T, 3)`` (vx, vy, omega per second, in the pose's own axes) from each pose to the next.

    Zero where the next pose is farther away in time than ``longest_gap_s``; the last has that of the one before.
    """
    stamps, trajectory = np.asarray(stamps_ns, dtype=np.int64), np.asarray(poses, dtype=float).reshape(-1, 3)
    if len(stamps) < 2:
        return np.zeros((len(stamps), 3))
    seconds = np.diff(stamps) / NS_PER_S
    motion = geometry.log(geometry.relative(trajectory[:-1], trajectory[1:]))
    usable = (seconds > 0) & (seconds <= longest_gap_s)
    velocity = np.where(usable[:, None], motion / np.where(usable, seconds, 1.0)[:, None], 0.0)
    return np.concatenate([velocity, velocity[-1:]])


def _seconds(stamp_ns: int) -> str:
    sign = "-" if stamp_ns < 0 else ""
    whole, rest = divmod(abs(stamp_ns), NS_PER_S)
    return f"{sign}{whole}.{rest:09d}"


def _nanoseconds(word: str) -> int:
    whole, _, fraction = word.lstrip("+-").partition(".")
    if whole.isdigit() and (not fraction or fraction.isdigit()):  # exact: a float would lose nanoseconds
        value = int(whole) * NS_PER_S + int(fraction[:9].ljust(9, "0") if fraction else 0)
        return -value if word.startswith("-") else value
    return round(float(word) * NS_PER_S)
