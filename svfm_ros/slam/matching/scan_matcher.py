"""Scan matching against a local map: a coarse correlative search, then point-to-line refinement.

The surface near a scan point is the weighted mean of the lines through the map points around it (implicit moving least
squares), which averages the noise of single scans. Along a bare corridor the information matrix has only the entry of
the motion prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.slam.matching.correlative import Fit, Window, ambiguity, search_blocks, search_sectors, thinned
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.point_to_line import count_inliers, fit_to_surfaces, share_behind_walls, share_on_walls
from svfm_ros.slam.matching.pose_covariance import covariance_of, inverse_of
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import MatchResult, Pose2

__all__ = [
    "Guess",
    "blocked_share",
    "coarse_search",
    "fused",
    "match_any",
    "match_scan",
    "match_thoroughly",
    "refine",
    "wall_share",
    "with_ambiguity",
]

Array = NDArray[np.float64]

_COARSE_POINTS = 120
_MAX_REFINED = 12  # candidates of the thorough search that are refined
_SECTOR_RAD, _SCORE_MARGIN = 0.5, 0.15  # half a sector of headings; alternatives may score this much less than the best
_SCORE_SCALE = 0.05
_MIN_SCORE = 0.1
_AMBIGUITY_M = 1.0  # radius in which other poses with a similar score are looked for
_PENALTY, _MOST_PENALTY = 0.02, 0.12  # score lost at one standard deviation from the guess, and at most
_TURNED_RAD, _UNLIKELY = 1.8, 3.0  # larger turns are a surprise; in thinned recordings so many standard deviations
# Each stage of the refinement: search radius (m), kernel width (m), robust scale (m), iterations.
_STAGES = np.array([[0.30, 0.12, 0.20, 6], [0.15, 0.06, 0.06, 12]])
_START_SPREAD = np.array([0.1, 0.1, 0.03])  # m, m, rad: accuracy of the coarse search
_NOISE_FLOOR_M = 0.01
_FEW_INLIERS, _CONTRADICTS = 0.6, 3.0  # with fewer, a match so many standard deviations off the prediction is wrong
_CORRELATION = 4.0  # neighbouring points have correlated errors: this many count as one


@dataclass(frozen=True, slots=True)
class Guess:
    """Predicted pose of a scan, its search window and its standard deviations."""

    T_map_scan: Pose2
    reach_m: float  # half the side of the search window
    turn_rad: float
    spread_m: float  # standard deviation
    spread_rad: float
    is_step: bool = False  # a typical step of a thinned recording, see motion_model.py

    def widened(self, T_map_scan: Pose2, most_m: float) -> "Guess":
        """A window about twice as large around another pose, at most ``most_m``, without a motion prior."""
        reach_m, turn_rad = min(2.0 * self.reach_m + 0.5, most_m), min(2.0 * self.turn_rad + 0.3, np.pi)
        return Guess(T_map_scan, reach_m, turn_rad, reach_m, turn_rad)

    def is_surprised_by_turn(self, T_map_scan: Pose2) -> bool:
        """Whether a pose is turned farther from the prediction than is likely."""
        most_rad = min(_TURNED_RAD, _UNLIKELY * self.spread_rad) if self.is_step else _TURNED_RAD
        return abs((self.T_map_scan.inverse() @ T_map_scan).theta) >= most_rad

    def window(self) -> Window:
        """The search window with its penalties."""
        per_m2, per_rad2 = _PENALTY / self.spread_m**2, _PENALTY / self.spread_rad**2
        return Window(self.T_map_scan, self.reach_m, self.turn_rad, per_m2, per_rad2, _MOST_PENALTY)


def coarse_search(cloud: Cloud, target: LocalMap, guess: Guess) -> list[Fit]:
    """The best pose in the guess's window at the grid's resolution, and alternatives with a similar score."""
    points, sectors = thinned(cloud.points, _COARSE_POINTS), max(1, round(guess.turn_rad / _SECTOR_RAD))
    fits = search_sectors(target.pyramid, points, guess.window(), sectors, _MIN_SCORE, _SCORE_MARGIN)
    return fits or [Fit(guess.T_map_scan, 0.0)]


def match_scan(cloud: Cloud, target: LocalMap, guess: Guess) -> MatchResult:
    """Coarse search, then refinement.

    Alternatives, such as a corridor seen the other way round, are ranked by the coarse score with its prior, the share
    of inliers, and the share of beams that would cross a wall.
    """
    return _best(cloud, target, coarse_search(cloud, target, guess))[0]


def match_thoroughly(cloud: Cloud, target: LocalMap, guess: Guess) -> MatchResult:
    """The same, refining the best candidate of every part of the window: finds poses that score low at first."""
    return match_any(cloud, target, [guess])[0]


def match_any(cloud: Cloud, target: LocalMap, guesses: Sequence[Guess]) -> tuple[MatchResult, Guess]:
    """The best match in the windows of several guesses, searched thoroughly, and the guess it belongs to."""
    points, margin = thinned(cloud.points, _COARSE_POINTS), 2.0 * _SCORE_MARGIN
    found: list[tuple[Fit, Guess]] = []
    for guess in guesses:
        sectors = max(1, round(guess.turn_rad / _SECTOR_RAD))
        fits = search_blocks(target.pyramid, points, guess.window(), sectors, _MIN_SCORE, margin, _MAX_REFINED)
        found += [(fit, guess) for fit in fits or [Fit(guess.T_map_scan, 0.0)]]
    match, k = _best(cloud, target, [fit for fit, _ in found])
    return match, found[k][1]


def _best(cloud: Cloud, target: LocalMap, fits: list[Fit]) -> tuple[MatchResult, int]:
    """The best match after refinement, and which of the candidates it came from."""
    matches = [refine(cloud, target, fit.T_target_source) for fit in fits]
    if len(fits) == 1:
        return matches[0], 0
    totals = np.array(
        [
            f.score + m.inlier_ratio - blocked_share(cloud, target, m.T_target_source)
            for f, m in zip(fits, matches, strict=True)
        ]
    )
    return _with_alternatives(matches, totals), int(np.argmax(totals))


def _with_alternatives(matches: list[MatchResult], totals: Array) -> MatchResult:
    """The best match, its covariance enlarged by alternatives that are nearly as good."""
    best = matches[int(np.argmax(totals))]
    shares = np.exp((totals - totals.max()) / _SCORE_SCALE)
    off = np.array([m.T_target_source.as_array() - best.T_target_source.as_array() for m in matches])
    off[:, 2] = geometry.wrap_angle(off[:, 2])
    covariance = covariance_of(best.information) + np.einsum("r,ri,rj->ij", shares / shares.sum(), off, off)
    return replace(best, information=inverse_of(covariance))


def blocked_share(cloud: Cloud, target: LocalMap, T_target_source: Pose2) -> float:
    """Share of beams that would cross a wall of the map."""
    seen = target.pyramid
    points = thinned(cloud.points, _COARSE_POINTS)
    return share_behind_walls(seen.levels[0], seen.origin, seen.resolution_m, points, T_target_source.as_array())


def wall_share(cloud: Cloud, target: LocalMap, T_target_source: Pose2) -> float:
    """Share of the cloud within about 0.15 m of a wall cell: high at the right pose also in clutter without lines."""
    seen = target.pyramid
    return share_on_walls(
        seen.levels[0], seen.origin, seen.resolution_m, seen.unknown, cloud.points, T_target_source.as_array()
    )


def with_ambiguity(
    match: MatchResult,
    cloud: Cloud,
    target: LocalMap,
    guess: Guess,
    look_m: float = _AMBIGUITY_M,
    mean_beyond_m: float = np.inf,
) -> MatchResult:
    """The match, its covariance enlarged where other poses within ``look_m`` score as well.

    Where their standard deviation exceeds ``mean_beyond_m``, as along a bare corridor, their mean is the pose: the best
    of poses that score alike is chosen by noise.
    """
    most = np.inf if guess.is_step else _MOST_PENALTY  # without a limit all that is far off would add up
    window = replace(guess.window(), reach_m=min(guess.reach_m, look_m), most_penalty=most)
    points = thinned(cloud.points, _COARSE_POINTS)
    covariance = covariance_of(match.information)
    best = match.T_target_source
    mean, alike = ambiguity(target.pyramid, points, best, window, _PENALTY)
    if alike[0, 0] + alike[1, 1] > mean_beyond_m**2:
        best = Pose2(best.x + float(mean[0]), best.y + float(mean[1]), best.theta)
    covariance[:2, :2] += alike
    return replace(match, T_target_source=best, information=inverse_of(covariance))


def fused(match: MatchResult, predicted: Pose2, spread_m: float) -> MatchResult:
    """The match, its position drawn to a predicted one with this standard deviation where the match is less certain.

    Where few points match, a position that contradicts the prediction is an error of the match: the predicted one is
    taken. The covariance stays that of the match.
    """
    information = match.information[:2, :2]
    pose = match.T_target_source
    off = np.array([predicted.x - pose.x, predicted.y - pose.y])
    correction = np.linalg.solve(spread_m**2 * information + np.eye(2), off)
    squared_deviations = float(off @ information @ correction)  # by the covariance of match and prediction together
    if match.inlier_ratio < _FEW_INLIERS and squared_deviations > _CONTRADICTS**2:
        correction = off
    dx, dy = correction.tolist()
    return replace(match, T_target_source=Pose2(pose.x + dx, pose.y + dy, pose.theta))


def refine(cloud: Cloud, target: LocalMap, start: Pose2) -> MatchResult:
    """Point-to-line refinement from ``start``, which is also a weak prior on the pose."""
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
    inliers, outliers, squares = count_inliers(
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
        inlier_ratio=_ratio(inliers, outliers, len(cloud)),
        rmse_m=rmse,
        information=information / noise,
    )


def _ratio(inliers: int, outliers: int, total: int) -> float:
    """Share of inliers among points in known space; at most twice their share of all points."""
    return min(inliers / max(inliers + outliers, 1), 2.0 * inliers / max(total, 1))
