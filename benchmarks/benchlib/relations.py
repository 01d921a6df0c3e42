"""Errors of a trajectory by Kümmerle's relations (2009): relative poses that a person confirmed by hand.

They measure the consistency of a map without a common frame: only relative motions between two times are compared.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError

__all__ = ["RelationError", "Relations", "load_relations", "relation_error", "relation_errors"]

Array = NDArray[np.float64]
Stamps = NDArray[np.int64]

_LONGEST_JOIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Relations:
    """Motions between moments, in the clock of the log."""

    from_ns: Stamps  # (R,)
    to_ns: Stamps  # (R,)
    T_from_to: Array  # (R, 3)

    def within(self, seconds: float) -> "Relations":
        """Those that span no more than so long."""
        short = np.abs(self.to_ns - self.from_ns) <= seconds * NS_PER_S
        return Relations(self.from_ns[short], self.to_ns[short], self.T_from_to[short])


@dataclass(frozen=True, slots=True)
class RelationError:
    """Mean and standard deviation of the difference between measured and confirmed motions."""

    translation_m: float
    translation_sd_m: float
    rotation_deg: float
    rotation_sd_deg: float
    count: int  # relations with both ends on a scan
    left_out: int  # the others


@dataclass(frozen=True, slots=True)
class RelationErrors:
    """Errors of the R relations with both ends on a scan, and their rows."""

    rows: NDArray[np.int64]  # (R,)
    metres: Array  # (R,)
    degrees: Array  # (R,)


def load_relations(path: Path, offset_s: float = 0.0) -> Relations:
    """Read lines of ``t1 t2 dx dy dz roll pitch yaw``; the log's clock is the file's minus the offset."""
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
        rows = np.array([[float(word) for word in line.split()] for line in lines], ndmin=2)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the relations {path}: {error}") from error
    if rows.shape[1] != 8 or not len(rows):
        raise DataError(f"{path}: expected lines of 8 numbers (t1 t2 dx dy dz roll pitch yaw), got {rows.shape}")
    stamps = np.round((rows[:, :2] - offset_s) * NS_PER_S).astype(np.int64)
    return Relations(stamps[:, 0], stamps[:, 1], rows[:, [2, 3, 7]])


def relation_errors(
    stamps_ns: ArrayLike, poses: ArrayLike, relations: Relations, longest_join_s: float = _LONGEST_JOIN_S
) -> RelationErrors:
    """Error of a trajectory, relation by relation: stamps ``(T,)``, poses ``(T, 3)``.

    Each end of a relation takes the pose of the nearest scan. Relations with an end farther than ``longest_join_s``
    from any scan are left out and counted.
    """
    stamps, trajectory = np.asarray(stamps_ns, dtype=np.int64), np.asarray(poses, dtype=float)
    order = np.argsort(stamps, kind="stable")
    if not len(stamps) or stamps.shape[0] != trajectory.shape[0]:
        raise DataError(f"expected as many stamps as poses, and some, got {len(stamps)} and {len(trajectory)}")
    stamps, trajectory = stamps[order], trajectory[order]
    start, end = _nearest(stamps, relations.from_ns), _nearest(stamps, relations.to_ns)
    gap_ns = np.maximum(np.abs(stamps[start] - relations.from_ns), np.abs(stamps[end] - relations.to_ns))
    joined = gap_ns <= longest_join_s * NS_PER_S
    if not joined.any():
        raise DataError("expected relations in the clock of the trajectory, got none with both ends on a scan")
    measured = geometry.relative(trajectory[start], trajectory[end])[joined]
    difference = geometry.relative(relations.T_from_to[joined], measured)
    metres = np.hypot(difference[:, 0], difference[:, 1])
    return RelationErrors(np.flatnonzero(joined), metres, np.degrees(np.abs(difference[:, 2])))


def relation_error(
    stamps_ns: ArrayLike, poses: ArrayLike, relations: Relations, longest_join_s: float = _LONGEST_JOIN_S
) -> RelationError:
    """Mean and standard deviation of ``relation_errors``."""
    errors = relation_errors(stamps_ns, poses, relations, longest_join_s)
    metres, degrees = errors.metres, errors.degrees
    left_out = len(relations.from_ns) - len(metres)
    return RelationError(
        float(metres.mean()), float(metres.std()), float(degrees.mean()), float(degrees.std()), len(metres), left_out
    )


def _nearest(stamps: Stamps, wanted: Stamps) -> NDArray[np.int64]:
    after = np.clip(np.searchsorted(stamps, wanted), 1, max(len(stamps) - 1, 1))
    after = np.minimum(after, len(stamps) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(np.abs(stamps[before] - wanted) <= np.abs(stamps[after] - wanted), before, after)
