"""Bags: what goes in comes out again, by rosbags and by mcap; what fails leaves nothing behind."""

from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader

from svfm_ros.config.sim_config import SimConfig
from svfm_ros.errors import UsageError
from svfm_ros.sim.house import House
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.sim_recording import Recorder, Recording
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.sources.bag_writer import BagWriter, Storage
from svfm_ros.types import Scan

SCAN = Scan(1_700_000_000_123_456_789, np.array([1.5, np.inf, 3.25], np.float32), -1.0, 0.5, 0.15, 12.0, 0.1, 0.03)


def messages(path: Path) -> list[tuple[str, int, bytes]]:
    with AnyReader([path]) as reader:
        return [(c.topic, t, bytes(raw)) for c, t, raw in reader.messages()]


@pytest.fixture(scope="module")
def recorder(home: House) -> Recorder:
    return Recorder(home, SimConfig())


@pytest.fixture(scope="module")
def recordings(home: House, home_ways: RouteBook, recorder: Recorder) -> list[Recording]:
    return recorder.one_per_walk(simulate_protocol(home, seed=6, repeats=1, book=home_ways), seed=6)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_scan_and_a_pose_come_back(tmp_path: Path, storage: Storage) -> None:
    with BagWriter(tmp_path / "bag", storage) as bag:
        bag.write_pose(SCAN.stamp_ns, (1.0, -2.0, np.pi / 3))
        bag.write_scan(SCAN)
    assert {p.suffix for p in (tmp_path / "bag").iterdir()} == {{"mcap": ".mcap", "sqlite3": ".db3"}[storage], ".yaml"}
    with AnyReader([tmp_path / "bag"]) as reader:
        (pose, scan) = [(c, t, reader.deserialize(raw, c.msgtype)) for c, t, raw in reader.messages()]
    assert (pose[0].topic, pose[0].msgtype) == ("/ground_truth/pose", "geometry_msgs/msg/PoseStamped")
    assert pose[2].header.frame_id == "map"
    assert (pose[2].pose.position.x, pose[2].pose.position.y) == (1.0, -2.0)
    assert 2 * np.arctan2(pose[2].pose.orientation.z, pose[2].pose.orientation.w) == pytest.approx(np.pi / 3)
    assert (scan[0].topic, scan[0].msgtype) == ("/scan", "sensor_msgs/msg/LaserScan")
    assert scan[1] == SCAN.stamp_ns + 100_000_000  # received when the sweep was complete
    message = scan[2]
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (1_700_000_000, 123_456_789)
    assert message.header.frame_id == "laser"
    np.testing.assert_array_equal(message.ranges, SCAN.ranges)
    assert message.angle_max == pytest.approx(0.0)
    assert message.time_increment == pytest.approx(0.03)
    assert message.scan_time == pytest.approx(0.1)


def test_mcap_s_own_reader_reads_a_recording(tmp_path: Path, recorder: Recorder, recordings: list[Recording]) -> None:
    count = recorder.write(recordings[0], tmp_path / "walk")
    with (tmp_path / "walk" / "walk.mcap").open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        decoded = [
            (channel.topic, message.log_time, ros) for _, channel, message, ros in reader.iter_decoded_messages()
        ]
    scans = [m for topic, _, m in decoded if topic == "/scan"]
    assert len(scans) == count == recorder.count(recordings[0])
    assert len(scans[0].ranges) == 360
    assert scans[0].time_increment * 360 == pytest.approx(scans[0].scan_time, rel=1e-6)
    times = [t for _, t, _ in decoded]
    assert times == sorted(times)


def test_every_scan_has_a_true_pose_at_its_stamp(
    tmp_path: Path, recorder: Recorder, recordings: list[Recording]
) -> None:
    recorder.write(recordings[1], tmp_path / "walk")
    truth = recorder.truth(recordings[1])
    with AnyReader([tmp_path / "walk"]) as reader:
        stamps: dict[str, list[int]] = {"/scan": [], "/ground_truth/pose": []}
        for c, _, raw in reader.messages():
            stamp = reader.deserialize(raw, c.msgtype).header.stamp
            stamps[c.topic].append(stamp.sec * 10**9 + stamp.nanosec)
    assert set(stamps["/scan"]) <= set(stamps["/ground_truth/pose"])
    assert stamps["/ground_truth/pose"] == truth.stamps_ns.tolist()
    walk = recordings[1].walks[0].walk
    assert stamps["/scan"][0] == walk.stamps_ns[0] - 10**9  # a second before the walk
    assert truth.stamps_ns[-1] == pytest.approx(walk.stamps_ns[-1] + 3 * 10**9, abs=5e7)


def test_the_same_seed_gives_the_same_messages_byte_for_byte(
    tmp_path: Path, home: House, recordings: list[Recording]
) -> None:
    for name, storage in (("a", "mcap"), ("b", "mcap"), ("c", "sqlite3")):
        Recorder(home).write(recordings[2], tmp_path / name, storage)  # type: ignore[arg-type]
    first = messages(tmp_path / "a")
    assert len(first) > 100
    assert first == messages(tmp_path / "b") == messages(tmp_path / "c")
    other = Recording("d", recordings[2].motion, recordings[2].walks, seed=99)
    Recorder(home).write(other, tmp_path / "d")
    assert first != messages(tmp_path / "d")


def test_recordings_of_one_set_have_noise_of_their_own(recorder: Recorder, recordings: list[Recording]) -> None:
    assert len({r.seed for r in recordings}) == len(recordings)


def test_an_older_bag_is_replaced_only_when_asked_for(tmp_path: Path) -> None:
    def write(overwrite: bool, x: float) -> None:
        with BagWriter(tmp_path / "bag", overwrite=overwrite) as bag:
            bag.write_pose(1, (x, 0.0, 0.0))

    write(False, 1.0)
    before = messages(tmp_path / "bag")
    with pytest.raises(UsageError, match="which exists"):
        write(False, 2.0)
    assert messages(tmp_path / "bag") == before
    write(True, 2.0)
    assert messages(tmp_path / "bag") != before
    (tmp_path / "precious").mkdir()
    with pytest.raises(UsageError, match="which is not a bag"):
        BagWriter(tmp_path / "precious", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bag", "precious"]


def test_what_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    def write() -> None:
        with BagWriter(tmp_path / "bag") as bag:
            bag.write_scan(SCAN)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []
