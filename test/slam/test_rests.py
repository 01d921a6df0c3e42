"""A wearable that sleeps while its wearer rests: scans begin again at the same place, facing another way."""

from dataclasses import replace

import numpy as np
import pytest

from svfm_ros.config.sim_config import RecordingConfig, ResidentConfig, SimConfig
from svfm_ros.sim.house import load_house
from svfm_ros.sim.resident import simulate_living
from svfm_ros.sim.sim_recording import Recorder, Recording
from svfm_ros.slam.slam import Slam
from svfm_ros.types import Pose2, Scan

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
