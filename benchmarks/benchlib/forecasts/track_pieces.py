"""Tracks cut into pieces of equal length, and tracks held out: how benchmarks of pedestrians are made.

Splits into training and held-out rows go by whole walks, never within one: two pieces of a walk on both sides of a
split would let a model be scored on positions it was trained on.
"""

from dataclasses import dataclass

import numpy as np

from svfm_ros.clock import hours_of_day
from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

__all__ = ["WalkSplit", "fixed_length", "split_by_time"]


@dataclass(frozen=True, slots=True)
class WalkSplit:
    """Rows for training and rows for scoring; no walk has rows in both."""

    train: WalkWindows
    held_out: WalkWindows


def fixed_length(windows: WalkWindows, steps: int, stride: int) -> WalkWindows:
    """Every stretch of exactly ``steps`` positions, begun every ``stride`` ones; they keep their walk's id.

    This is how pedestrian benchmarks cut tracks: 20 steps (8 seen, 12 to come) at stride 1.
    """
    if steps < 1 or stride < 1:
        raise DataError(f"expected steps and stride of at least 1, got {steps} and {stride}")
    pairs = [(n, a) for n, length in enumerate(windows.lengths) for a in range(0, int(length) - steps + 1, stride)]
    row = np.array([n for n, _ in pairs], dtype=np.int64)
    offset = np.array([a for _, a in pairs], dtype=np.int64)
    start_ns = windows.start_ns[row] + np.round(offset * windows.dt_s * 1e9).astype(np.int64)
    step = offset[:, None] + np.arange(steps)  # (rows, steps)
    return WalkWindows(
        windows.xy[row[:, None], step],
        np.ones((len(pairs), steps), dtype=np.bool_),
        windows.dt_s,
        start_ns,
        hours_of_day(start_ns, windows.time_zone),
        tuple(windows.walk_ids[n] for n in row),
        tuple(windows.residents[n] for n in row),
        windows.frame,
        windows.time_zone,
        None if windows.variance is None else windows.variance[row[:, None], step],
    )


def split_by_time(windows: WalkWindows, held_out_share: float = 0.25) -> WalkSplit:
    """Hold out the latest walks."""
    if not 0.0 < held_out_share < 1.0:
        raise DataError(f"expected a held-out share between 0 and 1, got {held_out_share}")
    first_ns: dict[str, int] = {}
    for walk_id, start_ns in zip(windows.walk_ids, windows.start_ns.tolist(), strict=True):
        first_ns[walk_id] = min(start_ns, first_ns.get(walk_id, start_ns))
    ranked = sorted(first_ns, key=lambda walk_id: (first_ns[walk_id], walk_id))
    count = min(max(round(held_out_share * len(ranked)), 1), max(len(ranked) - 1, 0))
    latest = set(ranked[len(ranked) - count :])
    held_out = np.array([walk_id in latest for walk_id in windows.walk_ids], dtype=np.bool_)
    return WalkSplit(windows.select(~held_out), windows.select(held_out))
