"""Matching of scans that a fast turn distorted, without a gyroscope: the rate of turn is found by search.

Someone may begin to turn by half a circle per second between two sweeps of a slow sensor. Undistorted with the rate of
the previous sweep, such a scan matches nowhere. Several rates are tried, and the best is refined.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from svfm_ros.slam.matching.local_map import LocalMap
from svfm_ros.slam.matching.scan_matcher import Guess, match_scan, refine
from svfm_ros.slam.preprocess import Cloud
from svfm_ros.types import MatchResult, Pose2

__all__ = ["Undistort", "match_turning"]

Array = NDArray[np.float64]
Undistort = Callable[[Array], Cloud]  # the scan, undistorted by a twist (3,)

_RATES_RADPS = (1.5, -1.5, 3.0, -3.0, 4.5, -4.5, 6.0, -6.0)
_FINER_RADPS = (0.75, 0.375)  # steps of the refinement
_REACH_M, _TURN_RAD = 0.4, 0.4  # half the window around poses that a turn at that rate leads to


def match_turning(
    undistort: Undistort, target: LocalMap, T_map_previous: Pose2, gap_s: float
) -> tuple[Cloud, MatchResult]:
    """The scan undistorted by the rate of turn at which it matches best, if the sensor turned on the spot."""
    tries = [_try(undistort, target, T_map_previous, gap_s, rate) for rate in _RATES_RADPS]
    k = int(np.argmax([m.inlier_ratio for _, m in tries]))
    rate, (cloud, match) = _RATES_RADPS[k], tries[k]
    for step in _FINER_RADPS:
        for other in (rate - step, rate + step):
            finer = undistort(np.array([0.0, 0.0, other]))
            if not len(finer):
                continue
            # The heading in the middle of the sweep stays, that of the first beam moves.
            moved = Pose2(0.0, 0.0, (rate - other) * float(finer.times_s[-1]) / 2.0)
            again = refine(finer, target, match.T_target_source @ moved)
            if again.inlier_ratio > match.inlier_ratio:
                rate, cloud, match = other, finer, again
    return cloud, match


def _try(
    undistort: Undistort, target: LocalMap, T_map_previous: Pose2, gap_s: float, rate: float
) -> tuple[Cloud, MatchResult]:
    turn_rad = min(abs(rate) * gap_s / 2.0 + _TURN_RAD, np.pi)
    middle = T_map_previous @ Pose2(0.0, 0.0, rate * gap_s / 2.0)
    cloud = undistort(np.array([0.0, 0.0, rate]))
    return cloud, match_scan(cloud, target, Guess(middle, _REACH_M, turn_rad, _REACH_M, turn_rad))
