"""A wearable that sleeps while its wearer rests: scans begin again at the same place, facing another way."""

from dataclasses import replace

import numpy as np
import pytest
from flats import FLAT, OTHER, scans_along, walk

from svfm_ros.config.sim_config import RecordingConfig, ResidentConfig, SimConfig
from svfm_ros.sim.house import load_house
from svfm_ros.sim.resident import simulate_living
from svfm_ros.sim.sim_recording import Recorder, Recording
from svfm_ros.slam.slam import Slam
from svfm_ros.types import Pose2, Scan, SlamUpdate

CONFIG = replace(
    SimConfig(), resident=ResidentConfig(seed=0, dwell_s=3600.0), recording=RecordingConfig(before_s=1.0, after_s=1.0)
)


@pytest.fixture(scope="module")
def recordings() -> list[tuple[Recording, list[Scan]]]:
    """The first walks of a resident in a house with look-alike ways, each recorded from shortly before it begins."""
    house = load_house("home")
    recorder = Recorder(house, CONFIG)
    walks = simulate_living(house, CONFIG, 0, 1.0, start_hour=0.0)[:4]
    return [(r, list(recorder.scans(r))) for r in recorder.one_per_walk(walks, 0)]


def truth_of(recording: Recording, scan: Scan) -> Pose2:
    seconds = np.array([(scan.stamp_ns - recording.motion.start_ns) / 1e9])
    return Pose2.from_array(recording.motion.poses_at(seconds)[0])


def test_walks_after_rests_begin_where_the_wearer_rested(recordings: list[tuple[Recording, list[Scan]]]) -> None:
    slam = Slam()
    T_map_truth = Pose2()
    for recording, scans in recordings:
        for scan in scans:
            update = slam.add_scan(scan)
            truth = truth_of(recording, scan)
            if slam.counters["scans"] == 1:
                T_map_truth = update.T_map_base @ truth.inverse()
                continue
            gap = (T_map_truth @ truth).inverse() @ update.T_map_base
            assert update.match is not None
            assert np.hypot(gap.x, gap.y) < 0.15
            assert abs(gap.theta) < 0.1


def test_the_wearer_did_turn_while_at_rest(recordings: list[tuple[Recording, list[Scan]]]) -> None:
    ends = [truth_of(r, scans[-1]) for r, scans in recordings]
    begins = [truth_of(r, scans[0]) for r, scans in recordings]
    turns = [abs((a.inverse() @ b).theta) for a, b in zip(ends, begins[1:], strict=False)]
    assert max(turns) > 2.0


ROUND = walk((1.5, 1.2), (2.8, 3.2), (5.2, 3.2), (8.4, 2.0), (5.4, 1.5), (5.2, 3.2), (2.8, 3.2), (1.5, 1.2))
LATER_NS = 3600 * 10**9


def after_waking(walls: np.ndarray, poses: np.ndarray) -> tuple[Slam, list[SlamUpdate]]:
    """SLAM of a round in a flat, and what it says to the scans of a walk an hour later."""
    slam = Slam()
    for scan in scans_along(FLAT, ROUND):
        slam.add_scan(scan)
    begin_ns = int(slam.trajectory().stamps_ns[-1]) + LATER_NS
    later = [replace(s, stamp_ns=begin_ns + s.stamp_ns) for s in scans_along(walls, poses)]
    return slam, [slam.add_scan(s) for s in later]


def test_who_wakes_in_another_room_is_found_after_a_few_steps_and_keeps_the_whole_walk() -> None:
    poses = walk((8.4, 2.0), (5.0, 2.6), (2.8, 3.2)) + np.array([0.0, 0.0, 2.5])
    slam, updates = after_waking(FLAT, poses)
    first = next(k for k, u in enumerate(updates) if u.is_on_map)
    assert np.hypot(*(poses[first] - poses[0])[:2]) < 2.0
    assert not any(u.is_on_map for u in updates[:first])
    assert updates[0].reason
    T_map_truth = Pose2.from_array(ROUND[0]).inverse()
    track = slam.trajectory()
    woken = track.stamps_ns >= updates[0].stamp_ns
    assert np.count_nonzero(woken) == len(poses)
    for pose, truth in zip(track.poses[woken], poses, strict=True):
        gap = (T_map_truth @ Pose2.from_array(truth)).inverse() @ Pose2.from_array(pose)
        assert np.hypot(gap.x, gap.y) < 0.06
        assert abs(gap.theta) < 0.03


def test_who_wakes_in_another_flat_is_not_put_on_the_map() -> None:
    slam, updates = after_waking(OTHER, walk((1.0, 1.2), (3.3, 0.5), (7.4, 0.6), (7.2, 2.6)))
    assert not any(u.is_on_map for u in updates)
    assert slam.trajectory().stamps_ns[-1] < updates[0].stamp_ns
