"""Localisation in a map that was made before: from several moments of the same recording, each without a known pose."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.slam.localise import Localiser
from svfm_ros.slam.offline import SlamRun, draw_grid
from svfm_ros.types import Scan

_STARTS = 10
_LENGTH_S = 100.0  # of the recording after each start
_MOVING_M_S = 0.05
_WRONG_M = 0.5  # farther than this from the pose in the map's own trajectory


@dataclass(frozen=True, slots=True)
class LocalisedStart:
    """What localisation made of one start."""

    first_pose_s: float  # seconds of motion until the first pose; infinite where there was none
    placed: float  # share of the scans after the first pose that have one
    wrong: int


def localised_starts(scans: Sequence[Scan], run: SlamRun) -> list[LocalisedStart]:
    """Ten starts, evenly spread over the recording, in the map of the whole of it."""
    grid = draw_grid(scans, run.trajectory)
    pose = {int(s): p for s, p in zip(run.trajectory.stamps_ns, run.trajectory.poses, strict=True)}
    known = [s for s in scans if s.stamp_ns in pose]
    truth = np.array([pose[s.stamp_ns] for s in known])
    stamps_s = np.array([s.stamp_ns for s in known]) / NS_PER_S
    gaps_s = np.diff(stamps_s, prepend=stamps_s[0])
    moved_m = np.hypot(*np.diff(truth[:, :2], axis=0, prepend=truth[:1, :2]).T)
    moving_s = np.cumsum(np.where(moved_m > _MOVING_M_S * gaps_s, gaps_s, 0.0))
    starts = np.linspace(0, np.searchsorted(stamps_s, stamps_s[-1] - _LENGTH_S) - 1, _STARTS).astype(int)
    return [_start(Localiser(grid), known, truth, stamps_s, moving_s, int(k)) for k in starts]


def _start(
    localiser: Localiser, scans: list[Scan], truth: np.ndarray, stamps_s: np.ndarray, moving_s: np.ndarray, first: int
) -> LocalisedStart:
    last = int(np.searchsorted(stamps_s, stamps_s[first] + _LENGTH_S))
    off_m = np.full(last - first, np.nan)
    for k in range(first, last):
        update = localiser.add_scan(scans[k])
        if update.match is not None:
            off_m[k - first] = np.hypot(update.T_map_base.x - truth[k, 0], update.T_map_base.y - truth[k, 1])
    has_pose = np.isfinite(off_m)
    if not has_pose.any():
        return LocalisedStart(np.inf, 0.0, 0)
    found = int(np.argmax(has_pose))
    waited_s = float(moving_s[first + found] - moving_s[first])
    return LocalisedStart(waited_s, float(has_pose[found:].mean()), int(np.sum(off_m[has_pose] > _WRONG_M)))
