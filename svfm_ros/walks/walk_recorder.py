"""Cut walks from a trajectory: takes poses one by one and returns the intervals of finished walks.

SLAM corrects past poses when it closes a loop. So the recorder keeps stamps and positions only to find the *interval*
of a walk; its poses are taken from the optimised trajectory after the walk has ended (``take_walk``).

    recorder = WalkRecorder(config)
    for cut in recorder.push(update.stamp_ns, update.T_map_base):
        walk = take_walk(cut, "anna", *slam.trajectory(), points_of=scans.get)
"""

import bisect
import math
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.slam_config import RasterConfig
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import DataError
from svfm_ros.slam.occupancy import MapRaster
from svfm_ros.types import Pose2, Walk
from svfm_ros.walks.segmentation import Stretch, WalkCut, is_stay, leave, to_ns, trim

__all__ = ["CovarianceOf", "PointsOf", "WalkRecorder", "cut_walks", "take_walk", "thin_points", "walk_id_of"]

Array = NDArray[np.float64]
PointsOf = Callable[[int], ArrayLike | None]
"""Points ``(N, 2)`` that the scan of that stamp saw, in the base frame; None where there is none."""
CovarianceOf = Callable[[int], ArrayLike | None]
"""Covariance ``(3, 3)`` of the pose (x, y, theta) at that stamp, in the trajectory's axes; None where not known."""

_FREE = 0.5  # cells that are less likely occupied than this are free
_DROP_FROM = 1024  # old poses are dropped in batches of at least so many


class WalkRecorder:
    """Finds walks by the rules of ``segmentation.py``; a walk is known ``dwell_time_s`` after it ended."""

    def __init__(self, config: RecorderConfig | None = None) -> None:
        self._config = config or RecorderConfig()
        self._dwell_ns = to_ns(self._config.dwell_time_s)
        self._gap_ns = to_ns(self._config.max_gap_s)
        self._longest_ns = to_ns(self._config.longest_s)
        self._last_stamp_ns: int | None = None
        self._forget_all()

    def _forget_all(self) -> None:
        """Start over, as after a gap. The indices below are those of the two lists."""
        self._stamps: list[int] = []
        self._xy: list[tuple[float, float]] = []
        self._decided = 0  # number of poses known to be moving or still
        self._last_stay: int | None = None  # first index of the latest stay
        self._first: int | None = None  # the open walk's first moving pose
        self._rest_before: int | None = None  # first index of the stay before the open walk

    def push(self, stamp_ns: int, pose: Pose2 | ArrayLike) -> list[WalkCut]:
        """Add a pose, later than all before; returns the walks that are finished now, mostly none."""
        x, y = pose.as_array()[:2] if isinstance(pose, Pose2) else np.asarray(pose, dtype=float)[:2]
        self._check(stamp_ns, float(x), float(y))
        cuts: list[WalkCut] = []
        if self._last_stamp_ns is not None and stamp_ns - self._last_stamp_ns > self._gap_ns:
            cuts = self._end_part()
        self._last_stamp_ns = int(stamp_ns)
        self._stamps.append(int(stamp_ns))
        self._xy.append((float(x), float(y)))
        while self._stamps[self._decided] + self._dwell_ns <= stamp_ns:
            cuts += self._decide(self._stay_end())
        self._forget_old()
        return cuts

    def finish(self) -> list[WalkCut]:
        """End the open walk; later poses start a new one."""
        return self._end_part()

    def rewrite(self, stamps_ns: ArrayLike, poses: ArrayLike) -> None:
        """Replace the positions kept by those of an optimised trajectory; to be called after a loop closure.

        Otherwise the correction would look like a step. Poses that are not in the trajectory are unchanged.
        """
        stamps, new = np.asarray(stamps_ns, dtype=np.int64), np.asarray(poses, dtype=float)
        mine = np.array(self._stamps, dtype=np.int64)
        at = np.searchsorted(stamps, mine)
        for i in np.flatnonzero(at < len(stamps)):
            if stamps[at[i]] == mine[i]:
                self._xy[i] = (float(new[at[i], 0]), float(new[at[i], 1]))

    @property
    def walk_so_far_ns(self) -> int | None:
        """Stamp at which the walk under way began; None at rest, and until the wearer has left the dwell radius."""
        first = self._first
        if first is None:
            first = bisect.bisect_right(self._stamps, self._covered_until_ns)
        if first >= len(self._stamps):
            return None
        before = self._rest_before if self._first is not None else self._last_stay
        stamps, xy = self._arrays(len(self._stamps))
        begin = leave(stamps, xy, Stretch(first, len(stamps) - 1, before, None), self._config)
        return int(stamps[begin]) if not is_stay(xy[begin:], self._config) else None

    @property
    def _covered_until_ns(self) -> int:
        """Until when the latest stay makes poses still."""
        return -1 << 63 if self._last_stay is None else self._stamps[self._last_stay] + self._dwell_ns

    def _check(self, stamp_ns: int, x: float, y: float) -> None:
        if self._last_stamp_ns is not None and stamp_ns <= self._last_stamp_ns:
            raise DataError(f"expected a stamp after {self._last_stamp_ns}, got {stamp_ns}")
        if not (math.isfinite(x) and math.isfinite(y)):
            raise DataError(f"expected a finite pose, got x {x}, y {y}")

    def _arrays(self, end: int) -> tuple[NDArray[np.int64], Array]:
        return np.array(self._stamps[:end], dtype=np.int64), np.array(self._xy[:end], dtype=float)

    def _stay_end(self) -> int:
        """One past the end of the stay that begins at the next undecided pose, 0 when none does."""
        k = self._decided
        end = bisect.bisect_right(self._stamps, self._stamps[k] + self._dwell_ns)
        return end if is_stay(np.array(self._xy[k:end]), self._config) else 0

    def _decide(self, stay_end: int) -> list[WalkCut]:
        """Decide whether the next pose is moving; returns the walk that ends there, if any."""
        k = self._decided
        self._decided += 1
        if stay_end:
            self._last_stay = k
        if self._stamps[k] <= self._covered_until_ns:
            return self._close(k - 1, stay_end)
        cuts: list[WalkCut] = []
        if self._first is not None and self._stamps[k] - self._stamps[self._first] > self._longest_ns:
            cuts = self._close(k - 1, None)
            self._first, self._rest_before = k, None
        elif self._first is None:
            self._first, self._rest_before = k, self._last_stay
        return cuts

    def _close(self, last: int, rest_after: int | None) -> list[WalkCut]:
        """End the open walk, if any; returns it if it is long enough."""
        if self._first is None:
            return []
        stretch = Stretch(self._first, last, self._rest_before, rest_after)
        self._first = self._rest_before = None
        stamps, xy = self._arrays(max(last + 1, rest_after or 0))
        cut = trim(stamps, xy, stretch, self._config)
        return [] if cut is None else [cut]

    def _end_part(self) -> list[WalkCut]:
        """At a gap or the end: decide all poses, end the open walk, start over."""
        cuts: list[WalkCut] = []
        while self._decided < len(self._stamps):
            cuts += self._decide(0)
        cuts += self._close(len(self._stamps) - 1, None)
        self._forget_all()
        return cuts

    def _forget_old(self) -> None:
        """Drop poses that no later decision needs."""
        needed = [self._decided, self._first, self._rest_before, self._last_stay]
        if self._first is not None:  # an open walk does not need the latest stay
            needed.pop()
        drop = min(i for i in needed if i is not None)
        if drop < _DROP_FROM:
            return
        del self._stamps[:drop], self._xy[:drop]
        self._decided -= drop
        self._last_stay = None if self._last_stay is None or self._last_stay < drop else self._last_stay - drop
        self._first = None if self._first is None else self._first - drop
        self._rest_before = None if self._rest_before is None else self._rest_before - drop


def cut_walks(stamps_ns: ArrayLike, poses: ArrayLike, config: RecorderConfig | None = None) -> list[WalkCut]:
    """All walks of a whole trajectory: stamps ``(T,)`` and poses ``(T, 3)``, which go through a recorder one by one."""
    stamps, trajectory = np.asarray(stamps_ns, dtype=np.int64).tolist(), np.asarray(poses, dtype=float)
    if len(stamps) != len(trajectory):
        raise DataError(f"expected one pose per stamp, got {len(trajectory)} poses and {len(stamps)} stamps")
    recorder = WalkRecorder(config)
    cuts = [cut for stamp, pose in zip(stamps, trajectory, strict=True) for cut in recorder.push(stamp, pose)]
    return cuts + recorder.finish()


def take_walk(
    cut: WalkCut,
    resident: str,
    stamps_ns: ArrayLike,
    poses: ArrayLike,
    points_of: PointsOf | None = None,
    config: RecorderConfig | None = None,
    covariance_of: CovarianceOf | None = None,
) -> Walk:
    """The walk of an interval with the poses of the given trajectory, in its frame."""
    stamps, trajectory = np.asarray(stamps_ns, dtype=np.int64), np.asarray(poses, dtype=float)
    if (np.diff(stamps) <= 0).any():  # scans that arrived twice or in another order
        stamps, first = np.unique(stamps, return_index=True)
        trajectory = trajectory[first]
    part = slice(*np.searchsorted(stamps, [cut.start_ns, cut.end_ns + 1]))
    if len(stamps[part]) < 2:
        raise DataError(f"expected a trajectory with two poses from {cut.start_ns} to {cut.end_ns}, got fewer")
    spacing_m = (config or RecorderConfig()).point_spacing_m
    points = np.empty((0, 2)) if points_of is None else _seen(stamps[part], trajectory[part], points_of, spacing_m)
    covariance = None if covariance_of is None else _covariances(stamps[part], covariance_of)
    walk_id = walk_id_of(resident, cut.start_ns)
    return Walk(walk_id, resident, stamps[part].copy(), trajectory[part].copy(), points, covariance=covariance)


def _covariances(stamps: NDArray[np.int64], covariance_of: CovarianceOf) -> Array | None:
    """Covariances ``(T, 3, 3)``; a pose without one gets that of the nearest pose in time, None where none has any."""
    found = [covariance_of(stamp) for stamp in stamps.tolist()]
    known = [i for i, c in enumerate(found) if c is not None]
    if not known:
        return None
    middle_ns = (stamps[known][1:] + stamps[known][:-1]) // 2
    nearest = np.searchsorted(middle_ns, stamps, side="left")
    return np.array([found[known[i]] for i in nearest], dtype=np.float64)


def walk_id_of(resident: str, start_ns: int) -> str:
    """Walk id from the resident and the start in UTC; the same recording always gives the same id."""
    when = datetime.fromtimestamp(start_ns // NS_PER_S, UTC)
    return f"{resident}-{when:%Y%m%dT%H%M%S}.{start_ns % NS_PER_S // 1_000_000:03d}Z"


def _seen(stamps: NDArray[np.int64], poses: Array, points_of: PointsOf, spacing_m: float) -> Array:
    """Points ``(N, 2)`` of all scans in the trajectory's frame, thinned; without those of people and pets that moved.

    Points in free cells of the walk's own occupancy grid are left out: most beams passed through these cells, so the
    object there did not stay.
    """
    raster, clouds = MapRaster(RasterConfig(resolution_m=spacing_m)), []
    for key, (stamp, pose) in enumerate(zip(stamps.tolist(), poses, strict=True)):
        points = points_of(stamp)
        if points is not None:
            finite = _finite(points)
            raster.put_points(key, Pose2.from_array(pose), finite)
            clouds.append(geometry.apply(pose, finite))
    if not clouds:
        return np.empty((0, 2))
    thin = thin_points(np.concatenate(clouds), spacing_m)
    return thin[~(raster.grid().prob_at(thin) < _FREE)]


def thin_points(points: ArrayLike, spacing_m: float) -> Array:
    """The mean point of each square of side ``spacing_m`` with points in it ``(N, 2)``; only finite points count."""
    p = _finite(points)
    if not len(p):
        return np.empty((0, 2))
    cell = np.floor(p / spacing_m).astype(np.int64)
    cell -= cell.min(axis=0)
    _, group, count = np.unique(
        cell[:, 0] * (cell[:, 1].max() + 1) + cell[:, 1], return_inverse=True, return_counts=True
    )
    sums = np.stack([np.bincount(group, weights=p[:, i]) for i in (0, 1)], axis=1)
    return np.asarray(sums / count[:, None])


def _finite(points: ArrayLike) -> Array:
    p = np.asarray(points, dtype=float).reshape(-1, 2)
    return np.asarray(p[np.isfinite(p).all(axis=1)])
