"""Follows the sensor from scan to scan on a local map: guess, coarse search, fine fit, covariance."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.pose_covariance import covariance_of, doubt_of, inverse_of
from svfm_ros.slam.matching.scan_matcher import Guess, honest, lay, lay_with_care, refine
from svfm_ros.slam.motion_model import Motion, MotionHint
from svfm_ros.slam.preprocess import Cloud, undistorted
from svfm_ros.types import MatchResult, Pose2

__all__ = ["Tracked", "Tracker"]

Array = NDArray[np.float64]

_DOUBTFUL = 0.6  # share of inliers below which a wider window is tried, and what it must have at least
_BETTER = 0.15  # and by how much it must do better
_TURNED_RAD = 1.8  # turned so far from the guess, it must be as good as one after a loss
_FOUND_AGAIN = 0.75  # share of inliers at which a lost sensor is believed to be found
_STEP_M, _WIDEST_M = 0.4, 3.0  # it reaches no farther than one can get in the time, and never farther than the second
_START_SPREAD = np.array([0.01, 0.01, 0.002])


class Tracked:
    """A scan in its place: the cloud as undistorted by the motion that the match found, and the match."""

    __slots__ = ("cloud", "match")

    def __init__(self, cloud: Cloud, match: MatchResult) -> None:
        self.cloud, self.match = cloud, match


class Tracker:
    """Holds velocity and covariance between scans. The covariance is relative to the local map, in the map's axes."""

    def __init__(self, config: SlamConfig) -> None:
        self._config = config
        self.motion = Motion(config)
        self.lost_scans = 0  # in a row
        self.covariance = np.diag(_START_SPREAD**2)

    def track(
        self, cloud: Cloud, target: LocalMap, T_map_previous: Pose2, gap_s: float, hint: MotionHint | None
    ) -> Tracked:
        """Place a scan that was undistorted with ``motion.twist``; whether the place is good is for others to say."""
        guess = self.motion.guess(T_map_previous, gap_s, hint)
        match = self._match(cloud, target, guess, T_map_previous, gap_s)
        if cloud.times_s[-1] > 0.0:  # the sweep took time: undo the motion that was found rather than the one guessed
            twist = self.motion.measured(T_map_previous.inverse() @ match.T_target_source, gap_s)
            cloud = undistorted(cloud, self.motion.twist, twist)
            match = refine(cloud, target, match.T_target_source)
        return Tracked(cloud, honest(match, cloud, target, guess))

    def accept(self, match: MatchResult, T_map_previous: Pose2, gap_s: float) -> None:
        """Go on from here: velocity and covariance."""
        self.lost_scans = 0
        doubt_m = float(np.sqrt(doubt_of(match.information)[0]))
        self.motion.update(T_map_previous.inverse() @ match.T_target_source, gap_s, doubt_m)
        predicted = self.covariance + self.motion.spread(gap_s)
        self.covariance = covariance_of(inverse_of(predicted) + match.information)

    def is_lost(self, match: MatchResult) -> bool:
        """Whether the place found is none. Where the one before was none, more is needed to believe in one again."""
        least = self._config.min_inlier_ratio
        return match.inlier_ratio < (max(least, _FOUND_AGAIN) if self.lost_scans else least)

    def lose(self, gap_s: float) -> None:
        """The scan found no place: stand still, and know less."""
        self.lost_scans += 1
        self.motion.forget()
        self.covariance = self.covariance + self.motion.spread(gap_s)

    def restart(self) -> None:
        """A new beginning, whose place is exact by definition."""
        self.lost_scans = 0
        self.motion.forget()
        self.covariance = np.diag(_START_SPREAD**2)

    def _match(self, cloud: Cloud, target: LocalMap, guess: Guess, T_map_previous: Pose2, gap_s: float) -> MatchResult:
        match = lay(cloud, target, guess)
        if match.inlier_ratio >= _DOUBTFUL:
            return match
        # In a wide window something always fits a little: a kidnapped sensor must not be taken for a quick one.
        most_m = min(_STEP_M + 2.0 * self._config.max_speed_m_s * gap_s, _WIDEST_M)
        for wider in (guess, guess.widened(T_map_previous, most_m)):
            again = lay_with_care(cloud, target, wider)
            if again.inlier_ratio > max(match.inlier_ratio + _BETTER, _needed(guess, again)):
                return again
        return match


def _needed(guess: Guess, match: MatchResult) -> float:
    """Share of inliers that a match needs. A great turn in a moment may be a corridor seen the wrong way round."""
    off = guess.T_map_scan.inverse() @ match.T_target_source
    return _DOUBTFUL if abs(off.theta) < _TURNED_RAD else _FOUND_AGAIN
