"""Find the pose of a walk in the house's frame, or the reason why it cannot be found.

Three steps. A global search finds poses at which the points of the walk fit the walls (``align_candidates.py``). ICP
refines them to the centimetre. Then checks: the points must lie on walls and not in free space, the path must cross no
wall, little may have been seen through walls, and no other pose may fit about as well. Long straight walls are checked
by themselves, because furniture, doors and people are elsewhere on another day. A walk at a wrong pose would spoil the
model, so an ambiguous one is refused; it may fit once more of the house is known.

ICP is point to line with Tukey's robust kernel: pairs come from a k-d tree of the wall points (SciPy), the step from
weighted least squares in x, y and theta. Open3D's ICP gives the same poses: of the 80 walks of
``benchmarks/alignment.py``, the worst is 0.011 m off with either. One call takes Open3D 6 to 9 ms of processor time and
this module 9 to 13 ms; a whole alignment takes 0.1 s with either. Open3D is not used because it installs 1 GB, needs
libusb and takes 0.7 s to import.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.types import Alignment, MatchResult, Pose2, Walk
from svfm_ros.walks.align_candidates import GlobalSearch, same_pose
from svfm_ros.walks.long_walls import on_long_walls, surface_normals
from svfm_ros.walks.reference_map import FREE, UNKNOWN, ReferenceMap, sightlines

__all__ = ["INLIER_M", "AlignedWalks", "Aligner", "PoseScore", "align_walks", "refine_pose"]

Array = NDArray[np.float64]

INLIER_M = 0.10  # a point lies on a wall up to this distance: SLAM's error within a walk, noise, and half a cell

_STAGES = ((0.3, 3e-3), (2.0 * INLIER_M, 1e-4))  # points are paired up to (m), steps below (m, rad) end the stage;
# the first reach covers the error of the global search
_KERNEL_M = 0.08  # residuals above this have no weight: four times the noise of a worn LiDAR
_MAX_STEPS = 60
_MIN_SIGMA_M = 0.02  # of a point; a lower bound, for when all points fit perfectly


def refine_pose(points: Array, reference: ReferenceMap, guess: Pose2) -> MatchResult:
    """The pose in the reference map near ``guess`` at which points ``(N, 2)`` fit its walls best."""
    x, y = points.mean(axis=0)
    middle = Pose2(float(x), float(y), 0.0)
    around, pose, steps = points - [x, y], guess @ middle, 0  # turning about the middle converges in fewer steps
    for reach_m, small in _STAGES:
        for _ in range(_MAX_STEPS):
            steps += 1
            residual, J = _linearised(around, reference, pose, reach_m)
            if len(residual) < 3:
                return MatchResult(guess, False, steps, 0.0, float("inf"), np.zeros((3, 3)))
            weighted = J * np.clip(1.0 - (residual / _KERNEL_M) ** 2, 0.0, None)[:, None] ** 2  # Tukey's weights
            dx, dy, turn = np.linalg.lstsq(weighted.T @ J, -weighted.T @ residual, rcond=None)[0]
            pose = Pose2(pose.x + float(dx), pose.y + float(dy), pose.theta + float(turn))
            if max(abs(dx), abs(dy), abs(turn)) < small:
                break
    pose = pose @ middle.inverse()
    residual, J = _linearised(points, reference, pose, reach_m)
    rmse_m = float(np.sqrt(np.mean(residual**2)))
    information = J.T @ J / max(rmse_m, _MIN_SIGMA_M) ** 2
    return MatchResult(pose, True, steps, len(residual) / len(points), rmse_m, information)


def _linearised(points: Array, reference: ReferenceMap, pose: Pose2, reach_m: float) -> tuple[Array, Array]:
    """Signed distances of paired points to their lines ``(K,)``, and the derivatives by x, y, theta ``(K, 3)``."""
    moved = pose.apply(points)
    distance_m, index = reference.tree.query(moved, distance_upper_bound=reach_m)
    paired = np.isfinite(distance_m)
    moved, index = moved[paired], index[paired]
    normals = reference.normals[index]
    residual = np.sum((moved - reference.points[index]) * normals, axis=1)
    arm = moved - [pose.x, pose.y]
    return residual, np.column_stack([normals, arm[:, 0] * normals[:, 1] - arm[:, 1] * normals[:, 0]])


_MIN_POINTS = 150  # a walk with fewer points saw less than one corner of a room
_SEARCH_POINTS = 300  # points of the walk that the global search uses; its time is proportional to them
_CANDIDATES = 10  # poses that are refined; an ambiguous walk has two to four poses that fit
_MIN_RELATIVE_SCORE = 0.75  # candidates below this share of the best score are not refined

# Acceptance thresholds. Furniture, doors and people move from day to day, walls do not: surfaces as long as a wall must
# match, of the rest only a part. Correct poses of walks on other days in six lived-in homes have at least 0.84 of the
# points of long walls on walls, and at most 0.032 of their lines of sight through long walls.
_MIN_OVERLAP = 0.5  # share of the points that must lie where the map is known: half may lie in new parts of the house
_MIN_INLIERS = 0.65  # share of these that must lie on walls; the rest are people, moved chairs, opened doors
_MIN_WALLS = 0.8  # the same of the points on long straight walls
_MAX_IN_FREE_SPACE = 0.25  # share of all points that may lie in free space: moved furniture
_MAX_THROUGH_WALLS = 0.2  # share of the lines of sight that may pass through anything: moved doors and furniture
_MAX_THROUGH_LONG_WALLS = 0.06  # and through long straight walls: doors that were closed before
_MAX_PATH_IN_WALLS = 0.01  # share of the path that may lie within walls: rounding to cells only
_MIN_MARGIN = 0.10  # by which the best pose's score must exceed that of any other pose
_SAME_POSE_M, _SAME_POSE_RAD = 0.5, 0.3  # poses nearer than this are the same: ICP converges to one pose from both

_PATH_STEP_M = 0.05  # the path is checked every so many metres: the size of a map cell


@dataclass(frozen=True, slots=True)
class PoseScore:
    """How well a walk fits the reference map at one pose; shares between 0 and 1."""

    match: MatchResult
    overlap: float  # of the points, where the map is known
    inliers: float  # of these, on walls
    in_free_space: float  # of all points
    through_walls: float  # of the lines of sight
    walls_on_walls: float  # of the points on long straight walls, where the map is known
    through_long_walls: float  # of the lines of sight
    path_in_walls: float

    @property
    def total(self) -> float:
        """The number by which poses are compared; at most 1."""
        return self.overlap * self.inliers - self.in_free_space - self.through_walls - self.path_in_walls


@dataclass(frozen=True, slots=True)
class AlignedWalks:
    """The alignments of several walks, in their order, and the reference map after the last one."""

    alignments: tuple[Alignment, ...]
    reference: ReferenceMap


class Aligner:
    """Finds the poses of walks in one reference map."""

    def __init__(self, reference: ReferenceMap) -> None:
        self.reference = reference
        self._search = GlobalSearch(reference)

    def align(self, walk: Walk) -> Alignment:
        """Align one walk; ``accepted`` says whether the pose is certain, ``reason`` why."""
        points = walk.points[np.isfinite(walk.points).all(axis=1)]
        if len(points) < _MIN_POINTS or not np.isfinite(walk.poses).all():
            reason = f"expected at least {_MIN_POINTS} points to align the walk by, got {len(points)}"
            return Alignment(walk.walk_id, Pose2(), None, False, reason)
        walk = Walk(walk.walk_id, walk.resident, walk.stamps_ns, walk.poses, points, walk.schema)
        scores = self._scored_poses(walk)
        best = scores[0]
        fault = _reason_to_refuse(best) or _ambiguity(scores, walk)
        reason = fault or f"{best.inliers:.0%} of its points lie on walls, {best.overlap:.0%} where the map is known"
        return Alignment(walk.walk_id, best.match.T_target_source, best.match, not fault, reason)

    def _scored_poses(self, walk: Walk) -> list[PoseScore]:
        """The refined poses with their scores, best first."""
        few = _thinned(walk.points, _SEARCH_POINTS)
        found = self._search.best(few, _CANDIDATES, _SAME_POSE_M, _SAME_POSE_RAD)
        candidates = [f for f in found if f.score >= _MIN_RELATIVE_SCORE * found[0].score]
        seen = _Seen(walk, *sightlines(walk), on_long_walls(walk.points, surface_normals(walk.points)))
        scores = [self._score(seen, c.T_house_points) for c in candidates]
        return sorted(scores, key=lambda s: -s.total)

    def _score(self, seen: "_Seen", guess: Pose2) -> PoseScore:
        """Refine the pose and score it."""
        reference, walk = self.reference, seen.walk
        match = refine_pose(walk.points, reference, guess)
        T = match.T_target_source
        points, starts, ends = (T.apply(p) for p in (walk.points, seen.starts, seen.ends))
        classes, distance_m = reference.classes(points), reference.distances(points)
        near = distance_m <= INLIER_M
        covered = (classes != UNKNOWN) | near
        path_m = reference.distances(T.apply(_even_path(walk.xy)))
        return PoseScore(
            match,
            overlap=float(covered.mean()),
            inliers=_share(near[covered]),
            in_free_space=float(np.mean((classes == FREE) & (distance_m > 2.0 * INLIER_M))),
            through_walls=_share(reference.crossed(starts, ends)),
            walls_on_walls=_share(near[covered & seen.is_long], empty=1.0),
            through_long_walls=_share(reference.crossed(starts, ends, long_walls=True)),
            path_in_walls=float(np.mean(path_m < 0.5 * reference.resolution_m)),
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """A walk, its lines of sight ``(N, 2)`` to ``(N, 2)``, and which of its points lie on long straight walls."""

    walk: Walk
    starts: Array
    ends: Array
    is_long: NDArray[np.bool_]


def _share(chosen: NDArray[np.bool_], empty: float = 0.0) -> float:
    return float(chosen.mean()) if len(chosen) else empty


def _reason_to_refuse(s: PoseScore) -> str:
    """Which threshold the best pose misses; empty when none."""
    if not s.match.converged or s.overlap < _MIN_OVERLAP:
        return f"only {s.overlap:.0%} of its points lie where the map is known; {_MIN_OVERLAP:.0%} are needed"
    if s.inliers < _MIN_INLIERS:
        return f"only {s.inliers:.0%} of its points lie on walls; {_MIN_INLIERS:.0%} are needed"
    if s.walls_on_walls < _MIN_WALLS:
        return f"only {s.walls_on_walls:.0%} of its walls are walls of the map; {_MIN_WALLS:.0%} are needed"
    if s.path_in_walls > _MAX_PATH_IN_WALLS:
        return f"{s.path_in_walls:.0%} of its path would lie within walls"
    if s.in_free_space > _MAX_IN_FREE_SPACE:
        return f"{s.in_free_space:.0%} of its points would stand in free space; at most {_MAX_IN_FREE_SPACE:.0%} may"
    for share, most in ((s.through_walls, _MAX_THROUGH_WALLS), (s.through_long_walls, _MAX_THROUGH_LONG_WALLS)):
        if share > most:
            return f"{share:.0%} of what it saw would have been seen through walls; at most {most:.0%} may"
    return ""


def _ambiguity(scores: list[PoseScore], walk: Walk) -> str:
    """Which other pose fits about as well as the first; empty when none does."""
    best = scores[0]
    x, y = walk.points.mean(axis=0)
    middle = Pose2(float(x), float(y), 0.0)
    here = best.match.T_target_source @ middle
    for other in scores[1:]:
        there = other.match.T_target_source @ middle
        if not same_pose(here, there, _SAME_POSE_M, _SAME_POSE_RAD) and other.total > best.total - _MIN_MARGIN:
            return f"another position, {np.hypot(here.x - there.x, here.y - there.y):.1f} m away, fits about as well"
    return ""


def align_walks(
    walks: Iterable[Walk],
    reference: ReferenceMap,
    extend: bool = False,
    on_walk: Callable[[Alignment], None] = lambda _: None,
) -> AlignedWalks:
    """Align many walks. With ``extend``, accepted walks extend the reference map for the others.

    Refused walks are then tried again, until no more of them are accepted. ``on_walk`` is called with the alignment of
    each walk the first time it was tried.
    """
    walks = list(walks)
    aligner = Aligner(reference)
    alignments: dict[int, Alignment] = {}
    waiting, extended = list(range(len(walks))), True
    while waiting and extended:
        extended = False
        for k in waiting:
            tried = k in alignments
            alignments[k] = aligner.align(walks[k])
            if not tried:
                on_walk(alignments[k])
            if extend and alignments[k].accepted:
                aligner = Aligner(aligner.reference.extended(walks[k].in_house(alignments[k].T_house_walk)))
                extended = True
        waiting = [k for k in waiting if not alignments[k].accepted]
    return AlignedWalks(tuple(alignments[k] for k in range(len(walks))), aligner.reference)


def _thinned(points: Array, count: int) -> Array:
    """At most ``count`` of the points, drawn evenly; the same ones each time."""
    if len(points) <= count:
        return points
    order = np.random.default_rng(0).permutation(len(points))
    return points[np.sort(order[:count])]


def _even_path(xy: Array) -> Array:
    """The path ``(T, 2)`` resampled at equal distances ``(N, 2)``."""
    walked_m = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(xy, axis=0).T))])
    at = np.arange(0.0, walked_m[-1] + _PATH_STEP_M, _PATH_STEP_M)
    return np.column_stack([np.interp(at, walked_m, xy[:, 0]), np.interp(at, walked_m, xy[:, 1])])
