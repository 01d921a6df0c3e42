"""Keyframes that are matched together."""

import numpy as np
from flats import scan_at, wall

from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.slam.keyframes import Keyframes
from svfm_ros.slam.matching.keyframe_group import KeyframeGroup
from svfm_ros.slam.matching.local_map import build_local_map
from svfm_ros.slam.matching.scan_matcher import blocked_share
from svfm_ros.slam.preprocess import cloud_from_scan
from svfm_ros.types import Pose2

# Two rooms with a wall between them and a door at its upper end.
ROOMS = np.concatenate(
    [wall(0, 0, 8, 0), wall(8, 0, 8, 4), wall(8, 4, 0, 4), wall(0, 4, 0, 0), wall(4, 0, 4, 3), wall(4.1, 0, 4.1, 3)]
)
WAY = np.array([[2.0, 1.0, 0.0], [2.0, 3.5, 0.0], [6.0, 3.5, 0.0], [6.0, 1.0, 0.0]])


def group_along(way: np.ndarray) -> KeyframeGroup:
    keyframes = Keyframes(0.3)
    for k, pose in enumerate(way):
        cloud = cloud_from_scan(scan_at(ROOMS, pose, k + 1), np.zeros(3), SlamConfig())
        keyframes.add(k + 1, cloud, pose, before=k - 1 if k else None, variance=np.array([1e-4, 1e-5]))
    return KeyframeGroup.around(keyframes.pool, np.arange(len(way)), keyframes.poses, way[0])


def test_walls_hide_nothing_that_was_seen_from_elsewhere() -> None:
    """From the first room alone, walls would hide the second one."""
    group = group_along(WAY)
    target = build_local_map(group.pool, WAY, group.ids, WAY[0], 25.0, group.ids)
    pose = Pose2.from_array(WAY[0])
    assert blocked_share(group.cloud(30.0), target, pose) > 0.2
    assert group.blocked_share(target, pose) < 0.05


def test_beams_across_walls_are_counted_at_a_wrong_pose() -> None:
    group = group_along(WAY)
    target = build_local_map(group.pool, WAY, group.ids, WAY[0], 25.0, group.ids)
    assert group.blocked_share(target, Pose2(2.0 + 2.0, 1.0, 0.0)) > 0.3


def test_the_cloud_lies_in_the_frame_of_the_group() -> None:
    points = group_along(WAY).cloud(30.0).points
    np.testing.assert_allclose(points.min(axis=0), [-2.0, -1.0], atol=0.1)
    np.testing.assert_allclose(points.max(axis=0), [6.0, 3.0], atol=0.1)
