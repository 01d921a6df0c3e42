"""Tracks the sensor from scan to scan in a local map: prediction, scan matching, covariance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.body.sweep_turn import Undistort, match_turning
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.pose_covariance import covariance_of, inverse_of, worst_variances
from svfm_ros.slam.matching.scan_matcher import (
    Guess,
    fused,
    match_any,
    match_scan,
    match_thoroughly,
    refine,
    wall_share,
    with_ambiguity,
)
from svfm_ros.slam.motion_model import VelocityModel
from svfm_ros.slam.preprocess import Cloud, undistorted
from svfm_ros.types import MatchResult, MotionHint, Pose2

__all__ = ["TrackedScan", "Tracker"]

Array = NDArray[np.float64]

_MIN_INLIERS = 0.6  # below this share of inliers a wider window is searched; a match there needs at least this share
_BETTER = 0.15  # and a share larger by this than that of the first match
_NEAR_WALLS = 0.7  # share of points near walls that a scan with few inliers needs
_FOUND_AGAIN = 0.75  # share of inliers needed after a loss
_UNMOVED = 0.6  # and after a break of the recording, to go on where it ended
_CERTAIN_M = 0.15  # and largest standard deviation after either; along a bare corridor it is larger
_LOOK_M, _LOOK_WIDE_M = 1.0, 2.0  # radius around a pose in which others that score alike count; in thinned recordings
_STEP_M, _WIDEST_M = 0.4, 3.0  # least and greatest half size of the wider window
_AMBIGUOUS_M = 0.3  # with a larger standard deviation the pose is the mean of all that match about as well
_START_SPREAD = np.array([0.01, 0.01, 0.002])


@dataclass(frozen=True, slots=True)
class TrackedScan:
    """A match, and the cloud undistorted by the motion that the match gives."""

    cloud: Cloud
    match: MatchResult
    wall_share: float  # share of the cloud near walls of the map; 1 where the share of inliers is high


class Tracker:
    """Velocity and covariance between scans. The covariance is relative to the local map, in map axes."""

    def __init__(self, config: SlamConfig) -> None:
        self._config = config
        self.motion = VelocityModel(config)
        self.lost_scans = 0  # in a row
        self.covariance = np.diag(_START_SPREAD**2)

    def track(
        self,
        cloud: Cloud,
        target: LocalMap,
        T_map_previous: Pose2,
        gap_s: float,
        hint: MotionHint | None,
        undistort: Undistort | None = None,
    ) -> TrackedScan:
        """Match a scan that was undistorted with ``motion.twist``; ``is_lost`` tells whether it matched.

        ``undistort`` gives the cloud for another twist, for scans that a fast turn may have distorted.
        """
        guesses = self.motion.guesses(T_map_previous, gap_s, hint)
        match, guess = self._match(cloud, target, guesses, T_map_previous, gap_s)
        if hint is not None and match.inlier_ratio < _MIN_INLIERS:  # perhaps the hint is wrong
            unaided = self.motion.guess(T_map_previous, gap_s, None)
            other, _ = self._match(cloud, target, [unaided], T_map_previous, gap_s)
            if other.inlier_ratio > match.inlier_ratio + _BETTER:
                guess, match = unaided, other
        if cloud.times_s[-1] > 0.0:  # undistort by the measured motion instead of the predicted one
            twist = self.motion.measured(T_map_previous.inverse() @ match.T_target_source, gap_s)
            cloud = undistorted(cloud, self.motion.twist, twist)
            match = refine(cloud, target, match.T_target_source)
        if undistort is not None and cloud.times_s[-1] > 0.0 and not cloud.is_turn_measured:
            cloud, match = self._turning(cloud, match, target, T_map_previous, gap_s, undistort)
        near_walls = 1.0 if match.inlier_ratio >= _FOUND_AGAIN else wall_share(cloud, target, match.T_target_source)
        look_m = _LOOK_WIDE_M if _is_of_thinned(guess) else _LOOK_M
        match = with_ambiguity(match, cloud, target, guess, look_m, _AMBIGUOUS_M)
        if (spread_m := self.motion.inertia_m(gap_s)) is not None:
            match = fused(match, self.motion.guess(T_map_previous, gap_s, None).T_map_scan, spread_m)
        return TrackedScan(cloud, match, near_walls)

    def _turning(
        self,
        cloud: Cloud,
        match: MatchResult,
        target: LocalMap,
        T_map_previous: Pose2,
        gap_s: float,
        undistort: Undistort,
    ) -> tuple[Cloud, MatchResult]:
        """The match at another rate of turn, where it is much better."""
        if match.inlier_ratio >= _MIN_INLIERS:
            return cloud, match
        turned, other = match_turning(undistort, target, T_map_previous, gap_s)
        is_better = other.inlier_ratio > max(match.inlier_ratio + _BETTER, _MIN_INLIERS)
        return (turned, other) if is_better else (cloud, match)

    def accept(self, match: MatchResult, T_map_previous: Pose2, gap_s: float) -> None:
        """Update velocity and covariance by an accepted match."""
        self.lost_scans = 0
        spread_m = float(np.sqrt(worst_variances(match.information)[0]))
        self.motion.update(T_map_previous.inverse() @ match.T_target_source, gap_s, spread_m)
        predicted = self.covariance + self.motion.spread(gap_s)
        self.covariance = covariance_of(inverse_of(predicted) + match.information)

    def is_lost(self, tracked: TrackedScan, after_break: bool = False) -> bool:
        """Whether too little of the scan matches.

        In clutter few points lie on a line, so that the share of inliers is small at the right pose too: there the
        share of points near walls decides. After a loss or a break of the recording the sensor may be elsewhere: then
        a larger share of inliers is needed, and a certain position.
        """
        if self.lost_scans or after_break:
            needed = _FOUND_AGAIN if self.lost_scans else _UNMOVED
            is_certain = worst_variances(tracked.match.information)[0] <= _CERTAIN_M**2
            return not is_certain or tracked.match.inlier_ratio < max(self._config.min_inlier_ratio, needed)
        return tracked.match.inlier_ratio < self._config.min_inlier_ratio and tracked.wall_share < _NEAR_WALLS

    def mark_lost(self, gap_s: float) -> None:
        """Count a lost scan: zero velocity, larger covariance."""
        self.lost_scans += 1
        self.motion.forget()
        self.covariance = self.covariance + self.motion.spread(gap_s)

    def restart(self) -> None:
        """Start from a pose that is exact by definition."""
        self.lost_scans = 0
        self.motion.forget()
        self.covariance = np.diag(_START_SPREAD**2)

    def _match(
        self, cloud: Cloud, target: LocalMap, guesses: list[Guess], T_map_previous: Pose2, gap_s: float
    ) -> tuple[MatchResult, Guess]:
        """The match, and the guess that it belongs to."""
        guess = guesses[0]
        if _is_of_thinned(guess):  # poses along a corridor are told apart only by refining them
            match, guess = match_any(cloud, target, guesses)
        else:
            match = match_scan(cloud, target, guess)
        if match.inlier_ratio >= _MIN_INLIERS:
            return match, guess
        # A wide window always holds some match: its size is bounded by the distance that can be covered in the time.
        most_m = min(_STEP_M + 2.0 * self._config.max_speed_m_s * gap_s, _WIDEST_M)
        for window in (guess, guess.widened(T_map_previous, most_m)):
            again = match_thoroughly(cloud, target, window)
            if again.inlier_ratio > max(match.inlier_ratio + _BETTER, _needed(guess, again)):
                return again, guess
        return match, guess


def _is_of_thinned(guess: Guess) -> bool:
    """Whether the guess is a step of a thinned recording, or nothing is known about its steps."""
    return guess.is_step or guess.spread_m >= guess.reach_m


def _needed(guess: Guess, match: MatchResult) -> float:
    """Share of inliers that a match needs: more after a large rotation (a corridor seen the wrong way round)."""
    return _FOUND_AGAIN if guess.is_surprised_by_turn(match.T_target_source) else _MIN_INLIERS
