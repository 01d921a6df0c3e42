"""Lay a scan onto the local map: a coarse search that survives fast turns, then a fine fit of points to lines.

The surface under a scan point is the weighted mean of the lines through the map's points near it (implicit moving
least squares): smooth, and the noise of single scans is averaged away. What a wall cannot tell, it does not pretend to:
the information matrix has no entry along a bare corridor but that of the motion guess.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.slam.matching.correlative import Fit, Window, ambiguity, search_sectors, thinned
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.point_to_line import fit_to_surfaces, judge_points, share_of_blocked
from svfm_ros.slam.matching.pose_covariance import covariance_of, inverse_of
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import MatchResult, Pose2

__all__ = ["Guess", "coarse", "honest", "lay", "lay_with_care", "refine", "share_blocked"]

Array = NDArray[np.float64]

_COARSE_POINTS = 120
_SECTOR_RAD, _RIVAL = 0.5, 0.15  # half a sector of the search; and how much less a rival may score
_RIVAL_SOFTNESS = 0.05
_PART_M = 0.5  # half the side of the parts that a window is searched in with care
_AMBIGUITY_M = 1.0  # how far to look for other places that fit
_PENALTY, _MOST_PENALTY = 0.02, 0.12  # score lost one standard deviation off the guess, and far off
# Each stage of the fine fit: how far to look for the map, width of the average, residual at which trust fades, steps.
_STAGES = np.array([[0.30, 0.12, 0.20, 6], [0.15, 0.06, 0.06, 12]])
_START_SPREAD = np.array([0.1, 0.1, 0.03])  # m, m, rad: how well the coarse search finds its place
_NOISE_FLOOR_M = 0.01
_CORRELATION = 4.0  # neighbouring points err together: so many of them tell as much as one


@dataclass(frozen=True, slots=True)
class Guess:
    """Where a scan is thought to be, and how far off that may be."""

    T_map_scan: Pose2
    reach_m: float  # the window: no farther than this
    turn_rad: float
    spread_m: float  # standard deviations: most likely no farther than this
    spread_rad: float

    def widened(self, T_map_scan: Pose2, most_m: float) -> "Guess":
        """A window several times as large around another pose, ``most_m`` at most, and nothing known about velocity."""
        reach_m, turn_rad = min(2.0 * self.reach_m + 0.5, most_m), min(2.0 * self.turn_rad + 0.3, np.pi)
        return Guess(T_map_scan, reach_m, turn_rad, reach_m, turn_rad)

    def penalty(self, T_map_scan: Pose2) -> float:
        """Score that a pose loses for being off the guess."""
        gap = self.T_map_scan.inverse() @ T_map_scan
        window = self.window()
        place = min(window.penalty_per_m2 * (gap.x**2 + gap.y**2), window.most_penalty)
        return place + min(window.penalty_per_rad2 * gap.theta**2, window.most_penalty)

    def window(self) -> Window:
        """What to search, with penalties."""
        per_m2, per_rad2 = _PENALTY / self.spread_m**2, _PENALTY / self.spread_rad**2
        return Window(self.T_map_scan, self.reach_m, self.turn_rad, per_m2, per_rad2, _MOST_PENALTY)


def coarse(cloud: Cloud, target: LocalMap, guess: Guess) -> list[Fit]:
    """The best pose in the guess's window at the grid's resolution, and its rivals, if the window is wide."""
    sectors = max(1, round(guess.turn_rad / _SECTOR_RAD))
    fits = search_sectors(target.pyramid, thinned(cloud.points, _COARSE_POINTS), guess.window(), sectors, min_score=0.1)
    return [f for f in fits if f.score > fits[0].score - _RIVAL] or [Fit(guess.T_map_scan, 0.0, 0)]


def lay(cloud: Cloud, target: LocalMap, guess: Guess) -> MatchResult:
    """The whole match: coarse, then fine.

    Rivals, such as a corridor seen the other way round, are told apart by all there is: the coarse score with the
    guess in it, how much of the scan lies on the map, and how many beams would have had to pass through walls.
    """
    return _best(cloud, target, coarse(cloud, target, guess))


def lay_with_care(cloud: Cloud, target: LocalMap, guess: Guess) -> MatchResult:
    """The same with a rival from every part of the window: what looks best from afar is not always what fits best."""
    parts = max(1, int(np.ceil(guess.reach_m / _PART_M)))
    side_m, points = guess.reach_m / parts, thinned(cloud.points, _COARSE_POINTS)
    sectors, centre = max(1, round(guess.turn_rad / _SECTOR_RAD)), guess.T_map_scan
    fits: list[Fit] = []
    for i, j in np.ndindex(parts, parts):
        dx, dy = (2 * i + 1 - parts) * side_m, (2 * j + 1 - parts) * side_m
        part = Window(Pose2(centre.x + dx, centre.y + dy, centre.theta), side_m, guess.turn_rad)
        least = max((f.score for f in fits), default=0.1) - 2.0 * _RIVAL
        fits += search_sectors(target.pyramid, points, part, sectors, max(least, 0.1))
    fits = [replace(f, score=f.score - guess.penalty(f.T_target_source)) for f in fits]
    best = max((f.score for f in fits), default=0.0)
    return _best(cloud, target, [f for f in fits if f.score > best - 2.0 * _RIVAL] or [Fit(centre, 0.0, 0)])


def _best(cloud: Cloud, target: LocalMap, fits: list[Fit]) -> MatchResult:
    matches = [refine(cloud, target, fit.T_target_source) for fit in fits]
    if len(fits) == 1:
        return matches[0]
    merits = np.array(
        [
            f.score + m.inlier_ratio - share_blocked(cloud, target, m.T_target_source)
            for f, m in zip(fits, matches, strict=True)
        ]
    )
    return _with_rivals(matches, merits)


def _with_rivals(matches: list[MatchResult], merits: Array) -> MatchResult:
    """The best match, less sure of itself by all others that are nearly as good."""
    best = matches[int(np.argmax(merits))]
    shares = np.exp((merits - merits.max()) / _RIVAL_SOFTNESS)
    off = np.array([m.T_target_source.as_array() - best.T_target_source.as_array() for m in matches])
    off[:, 2] = geometry.wrap_angle(off[:, 2])
    covariance = covariance_of(best.information) + np.einsum("r,ri,rj->ij", shares / shares.sum(), off, off)
    return replace(best, information=inverse_of(covariance))


def share_blocked(cloud: Cloud, target: LocalMap, T_target_source: Pose2) -> float:
    """Share of beams that would have had to pass through a wall of the map."""
    seen = target.pyramid
    points = thinned(cloud.points, _COARSE_POINTS)
    return share_of_blocked(seen.levels[0], seen.origin, seen.resolution_m, points, T_target_source.as_array())


def honest(
    match: MatchResult, cloud: Cloud, target: LocalMap, guess: Guess, look_m: float = _AMBIGUITY_M
) -> MatchResult:
    """The match, less sure of itself where other places in the window, not farther than ``look_m``, fit as well."""
    window = replace(guess.window(), reach_m=min(guess.reach_m, look_m))
    points = thinned(cloud.points, _COARSE_POINTS)
    covariance = covariance_of(match.information)
    covariance[:2, :2] += ambiguity(target.pyramid, points, match.T_target_source, window, _PENALTY)
    return replace(match, information=inverse_of(covariance))


def refine(cloud: Cloud, target: LocalMap, start: Pose2) -> MatchResult:
    """Fit points to lines from ``start``, which holds the pose weakly: it stays where the map says nothing."""
    pose, information, iterations, converged = fit_to_surfaces(
        cloud.points,
        cloud.normals,
        target.points,
        target.starts,
        target.columns,
        target.origin,
        start.as_array(),
        1.0 / _START_SPREAD**2,
        _STAGES,
    )
    inliers, strangers, squares = judge_points(
        cloud.points,
        cloud.normals,
        target.points,
        target.starts,
        target.columns,
        target.origin,
        target.pyramid.levels[0],
        target.pyramid.origin,
        target.pyramid.resolution_m,
        target.pyramid.unknown,
        pose,
    )
    rmse = float(np.sqrt(squares / max(inliers, 1)))
    noise = _CORRELATION * max(rmse, _NOISE_FLOOR_M) ** 2
    return MatchResult(
        T_target_source=Pose2.from_array(pose),
        converged=bool(converged),
        iterations=int(iterations),
        inlier_ratio=_ratio(inliers, strangers, len(cloud)),
        rmse_m=rmse,
        information=information / noise,
    )


def _ratio(inliers: int, strangers: int, total: int) -> float:
    """Share of inliers where the map knows what to expect; of a scan that is mostly new, no more than twice all."""
    return min(inliers / max(inliers + strangers, 1), 2.0 * inliers / max(total, 1))
