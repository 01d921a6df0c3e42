"""Following a sensor from scan to scan: how far it is looked for depends on how long nothing was seen."""

import numpy as np
import pytest
from flats import FLAT, scan_at

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import Keyframes
from svfm_ros.slam.matching.local_map import LocalMap, build_local_map
from svfm_ros.slam.preprocess import Cloud, cloud_from_scan
from svfm_ros.slam.tracker import Tracker
from svfm_ros.types import Pose2

CONFIG = SlamConfig()
BEFORE, AFTER = Pose2(2.0, 3.2, 0.1), Pose2(3.9, 3.2, 0.2)  # 1.9 m on, without a word in between


def seen_from(pose: Pose2) -> Cloud:
    return cloud_from_scan(scan_at(FLAT, pose, 1), np.zeros(3), CONFIG)


@pytest.fixture(scope="module")
def around() -> LocalMap:
    keyframes = Keyframes(CONFIG.keyframe_distance_m)
    for k, x in enumerate((1.0, 2.0, 3.0, 4.5, 5.5)):
        keyframes.add(k, seen_from(Pose2(x, 3.2)), np.array([x, 3.2, 0.0]), before=k - 1 if k else None)
    ids = np.arange(len(keyframes))
    return build_local_map(keyframes.pool, keyframes.poses, ids, np.array([3.0, 3.2]), 25.0, ids)


def off_m(found: Pose2) -> float:
    gap = AFTER.inverse() @ found
    return float(np.hypot(gap.x, gap.y))


def test_after_a_gap_it_is_looked_for_as_far_as_one_gets_in_the_time(around: LocalMap) -> None:
    """At 1.5 m/s and a margin of as much again, 0.7 s are good for 2.5 m; a tenth of a second is not for 1.9."""
    found = Tracker(CONFIG).track(seen_from(AFTER), around, BEFORE, 0.7, None)
    assert off_m(found.match.T_target_source) < 0.03
    assert found.match.inlier_ratio > 0.9
    not_found = Tracker(CONFIG).track(seen_from(AFTER), around, BEFORE, 0.1, None)
    assert off_m(not_found.match.T_target_source) > 0.5
    assert not_found.match.inlier_ratio < 0.75
