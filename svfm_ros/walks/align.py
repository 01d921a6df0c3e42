"""Find the pose of a walk in the house's frame, or the reason why it cannot be found.

Three steps. A global search finds poses at which the points of the walk fit the walls. ICP (Open3D, point to plane on
points of the plane, that is point to line) refines them to the centimetre. Then checks: the points must lie on
walls and not in free space, the path must cross no wall, no point may have been seen through a wall, and no other pose
may fit about as well. A walk at a wrong pose would spoil the model, so an ambiguous one is refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.align_config import AlignConfig
from svfm_ros.types import Alignment, MatchResult, Pose2, Walk
from svfm_ros.walks.align_candidates import Candidates, same_place
from svfm_ros.walks.reference_map import FREE, UNKNOWN, ReferenceMap, sightlines

__all__ = ["AlignedWalks", "Aligner", "Placement", "align_walks"]

Array = NDArray[np.float64]

_PATH_STEP_M = 0.05
_LEAST_SIGMA_M = 0.02  # of a point; a lower bound, for when all points fit perfectly
_WORTH_A_LOOK = 0.75  # candidates below this share of the best score are not tried


@dataclass(frozen=True, slots=True)
class Placement:
    """How a walk lies in one place; shares between 0 and 1."""

    match: MatchResult
    overlap: float  # of the points where the map knows something
    inliers: float  # of these, on walls
    inside: float  # of all points, in free space
    through: float  # of the lines of sight, through walls
    path_in_walls: float

    @property
    def quality(self) -> float:
        """One number to compare places by."""
        return self.overlap * self.inliers - self.inside - self.through - self.path_in_walls


@dataclass(frozen=True, slots=True)
class AlignedWalks:
    """What became of several walks, and the reference they left behind."""

    alignments: tuple[Alignment, ...]
    reference: ReferenceMap


class Aligner:
    """Places walks in one reference map."""

    def __init__(self, reference: ReferenceMap, config: AlignConfig | None = None) -> None:
        self.reference = reference
        self.config = config or AlignConfig()
        self._candidates = Candidates(reference)

    def align(self, walk: Walk) -> Alignment:
        """Place one walk; ``accepted`` says whether to believe it, ``reason`` why."""
        points = walk.points[np.isfinite(walk.points).all(axis=1)]
        if len(points) < self.config.min_points or not np.isfinite(walk.poses).all():
            reason = f"expected at least {self.config.min_points} points to place the walk by, got {len(points)}"
            return Alignment(walk.walk_id, Pose2(), None, False, reason)
        walk = Walk(walk.walk_id, walk.resident, walk.stamps_ns, walk.poses, points, walk.schema)
        placements = self.placements(walk)
        best = placements[0]
        fault = self._fault(best) or self._rivalled(placements, walk)
        reason = fault or f"{best.inliers:.0%} of its points lie on walls, {best.overlap:.0%} where the map is known"
        return Alignment(walk.walk_id, best.match.T_target_source, best.match, not fault, reason)

    def placements(self, walk: Walk) -> list[Placement]:
        """The places that were looked at closely, best first."""
        c = self.config
        few = _thinned(walk.points, c.search_points)
        found = self._candidates.best(few, c.candidates, c.apart_m, c.apart_rad)
        worth = [f for f in found if f.score >= _WORTH_A_LOOK * found[0].score]
        starts, ends = sightlines(walk)
        placed = [self._place(walk, starts, ends, f.T_house_points) for f in worth]
        return sorted(placed, key=lambda p: -p.quality)

    def _place(self, walk: Walk, starts: Array, ends: Array, guess: Pose2) -> Placement:
        match = self._icp(walk.points, guess)
        T, c, reference = match.T_target_source, self.config, self.reference
        points = T.apply(walk.points)
        known, near = reference.classes(points) != UNKNOWN, reference.distances(points) <= c.inlier_m
        covered = known | near
        inside = (reference.classes(points) == FREE) & (reference.distances(points) > 2.0 * c.inlier_m)
        through = reference.crossed(T.apply(starts), T.apply(ends))
        path_m = reference.distances(T.apply(_even_path(walk.xy)))
        inliers = float(near[covered].mean()) if covered.any() else 0.0
        in_walls = float(np.mean(path_m < 0.5 * reference.resolution_m))
        return Placement(match, float(covered.mean()), inliers, float(inside.mean()), float(through.mean()), in_walls)

    def _icp(self, points: Array, guess: Pose2) -> MatchResult:
        """Open3D's ICP on points of the plane, first with a wide reach, then with that of the inliers."""
        import open3d

        registration, c = open3d.pipelines.registration, self.config
        kernel = registration.TukeyLoss(k=c.icp_scale_m)
        estimate = registration.TransformationEstimationPointToPlane(kernel)
        criteria = registration.ICPConvergenceCriteria(max_iteration=c.icp_iterations)
        source, target = _cloud(points), _cloud(self.reference.points, self.reference.normals)
        T = _as_matrix(guess)
        for reach_m in (c.icp_reach_m, 2.0 * c.inlier_m):
            result = registration.registration_icp(source, target, reach_m, T, estimate, criteria)
            T = result.transformation
        pairs = np.asarray(result.correspondence_set).reshape(-1, 2)
        pose = Pose2(float(T[0, 3]), float(T[1, 3]), float(np.arctan2(T[1, 0], T[0, 0])))
        return self._match(points, pairs, pose)

    def _match(self, points: Array, pairs: NDArray[np.int32], pose: Pose2) -> MatchResult:
        if len(pairs) < 3:
            return MatchResult(pose, False, 0, 0.0, float("inf"), np.zeros((3, 3)))
        placed, normals = pose.apply(points[pairs[:, 0]]), self.reference.normals[pairs[:, 1]]
        residual = np.sum((placed - self.reference.points[pairs[:, 1]]) * normals, axis=1)
        arm = placed - [pose.x, pose.y]
        J = np.column_stack([normals, arm[:, 0] * normals[:, 1] - arm[:, 1] * normals[:, 0]])  # (pairs, 3)
        rmse_m = float(np.sqrt(np.mean(residual**2)))
        information = J.T @ J / max(rmse_m, _LEAST_SIGMA_M) ** 2
        return MatchResult(pose, True, self.config.icp_iterations, len(pairs) / len(points), rmse_m, information)

    def _fault(self, p: Placement) -> str:
        """Why a placement cannot be believed; empty when it can."""
        c = self.config
        if not p.match.converged or p.overlap < c.min_overlap:
            return f"only {p.overlap:.0%} of its points lie where the map is known; {c.min_overlap:.0%} are needed"
        if p.inliers < c.min_inliers:
            return f"only {p.inliers:.0%} of its points lie on walls; {c.min_inliers:.0%} are needed"
        if p.path_in_walls > c.max_path_in_walls:
            return f"{p.path_in_walls:.0%} of its path would lie within walls"
        if p.inside > c.max_inside:
            return f"{p.inside:.0%} of its points would stand in free space; at most {c.max_inside:.0%} may"
        if p.through > c.max_through:
            return f"{p.through:.0%} of what it saw would have been seen through walls; at most {c.max_through:.0%} may"
        return ""

    def _rivalled(self, placements: list[Placement], walk: Walk) -> str:
        """Whether another place fits about as well; empty when none does."""
        c, best = self.config, placements[0]
        x, y = walk.points.mean(axis=0)
        middle = Pose2(float(x), float(y), 0.0)
        here = best.match.T_target_source @ middle
        for other in placements[1:]:
            there = other.match.T_target_source @ middle
            if not same_place(here, there, c.apart_m, c.apart_rad) and other.quality > best.quality - c.min_margin:
                return f"another place, {np.hypot(here.x - there.x, here.y - there.y):.1f} m away, fits about as well"
        return ""


def align_walks(
    walks: Iterable[Walk],
    reference: ReferenceMap,
    config: AlignConfig | None = None,
    extend: bool = False,
    on_walk: Callable[[Alignment], None] = lambda _: None,
) -> AlignedWalks:
    """Place many walks. With ``extend``, those that were placed extend the reference for the others.

    Walks that were refused are then tried again, until no more of them find their place. ``on_walk`` hears of each
    walk the first time it was tried.
    """
    walks = list(walks)
    aligner = Aligner(reference, config)
    alignments: dict[int, Alignment] = {}
    waiting, placed = list(range(len(walks))), True
    while waiting and placed:
        placed = False
        for k in waiting:
            tried = k in alignments
            alignments[k] = aligner.align(walks[k])
            if not tried:
                on_walk(alignments[k])
            if extend and alignments[k].accepted:
                aligner = Aligner(aligner.reference.extended(walks[k].placed(alignments[k].T_house_walk)), config)
                placed = True
        waiting = [k for k in waiting if not alignments[k].accepted]
    return AlignedWalks(tuple(alignments[k] for k in range(len(walks))), aligner.reference)


def _thinned(points: Array, count: int) -> Array:
    """Some of the points, evenly; the same ones each time."""
    if len(points) <= count:
        return points
    order = np.random.default_rng(0).permutation(len(points))
    return points[np.sort(order[:count])]


def _even_path(xy: Array) -> Array:
    """The path with a point every few centimetres ``(N, 2)``."""
    walked_m = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(xy, axis=0).T))])
    at = np.arange(0.0, walked_m[-1] + _PATH_STEP_M, _PATH_STEP_M)
    return np.column_stack([np.interp(at, walked_m, xy[:, 0]), np.interp(at, walked_m, xy[:, 1])])


def _cloud(points: Array, normals: Array | None = None) -> Any:
    import open3d

    flat = np.column_stack([points, np.zeros(len(points))])
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(flat))
    if normals is not None:
        cloud.normals = open3d.utility.Vector3dVector(np.column_stack([normals, np.zeros(len(normals))]))
    return cloud


def _as_matrix(pose: Pose2) -> Array:
    c, s = np.cos(pose.theta), np.sin(pose.theta)
    return np.array([[c, -s, 0.0, pose.x], [s, c, 0.0, pose.y], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
