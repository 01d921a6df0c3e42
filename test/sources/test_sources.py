"""Readers of scans, on small files made here: sound ones, damaged ones and wrong ones."""

import contextlib
import gzip
import math
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

from svfm_ros.errors import DataError, UsageError
from svfm_ros.sources import open_scans
from svfm_ros.sources.open_scans import save_scans
from svfm_ros.types import Scan

BEAMS = 7
SECOND = 1_000_000_000


def ranges_of(k: int) -> np.ndarray:
    return (1.0 + 0.5 * np.arange(BEAMS) + 0.01 * k).astype(np.float32)


def laser_scan(store, k: int, *, ros1: bool = False, stamped: bool = True):
    types = store.types
    stamp_type, header_type = types["builtin_interfaces/msg/Time"], types["std_msgs/msg/Header"]
    stamp = stamp_type(100 + k if stamped else 0, 250_000_000 if stamped else 0)
    header = header_type(k, stamp, "laser") if ros1 else header_type(stamp, "laser")
    return types["sensor_msgs/msg/LaserScan"](
        header, -1.0, 1.0, 0.25, 0.001, 0.1, 0.05, 12.0, ranges_of(k), np.empty(0, dtype=np.float32)
    )


def write_rosbag2(folder: Path, plugin: StoragePlugin, count: int = 5, topics: tuple[str, ...] = ("/scan",)) -> Path:
    store = get_typestore(Stores.ROS2_JAZZY)
    with Writer2(folder, version=9, storage_plugin=plugin) as writer:
        for n, topic in enumerate(topics):
            connection = writer.add_connection(topic, "sensor_msgs/msg/LaserScan", typestore=store)
            for k in range(count - n):
                raw = store.serialize_cdr(laser_scan(store, k), "sensor_msgs/msg/LaserScan")
                writer.write(connection, (200 + k) * SECOND, raw)
    return folder


def write_rosbag1(path: Path, count: int = 5, stamped: bool = True, chunk: int = 300) -> Path:
    store = get_typestore(Stores.ROS1_NOETIC)
    with Writer1(path) as writer:
        writer.chunk_threshold = chunk
        connection = writer.add_connection("/scan", "sensor_msgs/msg/LaserScan", typestore=store)
        for k in range(count):
            raw = store.serialize_ros1(laser_scan(store, k, ros1=True, stamped=stamped), "sensor_msgs/msg/LaserScan")
            writer.write(connection, (200 + k) * SECOND, raw)
    return path


def check_bag_scan(scan: Scan, k: int) -> None:
    assert scan.stamp_ns == (100 + k) * SECOND + 250_000_000
    np.testing.assert_array_equal(scan.ranges, ranges_of(k))
    got = (scan.angle_min, scan.angle_step, scan.range_max, scan.scan_time_s)
    assert got == pytest.approx((-1.0, 0.25, 12.0, 0.1))
    assert (scan.range_min, scan.time_increment_s) == pytest.approx((0.05, 0.001))


@pytest.mark.parametrize("plugin", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
@pytest.mark.parametrize("whole_folder", [True, False])
def test_a_rosbag2_is_read_from_its_folder_or_its_file(tmp_path: Path, plugin, whole_folder: bool) -> None:
    folder = write_rosbag2(tmp_path / "bag", plugin)
    path = folder if whole_folder else next(p for p in folder.iterdir() if p.suffix in (".mcap", ".db3"))
    source = open_scans(path)
    for _ in range(2):  # a source may be read again
        scans = list(source)
        assert len(scans) == len(source) == 5
    check_bag_scan(scans[3], 3)
    assert source.kind == "rosbag2"
    assert source.duration_s == pytest.approx(4.0)
    assert source.warnings == []


def test_a_ros1_bag_is_read(tmp_path: Path) -> None:
    source = open_scans(write_rosbag1(tmp_path / "a.bag"))
    scans = list(source)
    assert (source.kind, len(scans), source.warnings) == ("rosbag1", 5, [])
    check_bag_scan(scans[4], 4)


def test_scans_without_a_stamp_get_that_of_their_recording(tmp_path: Path) -> None:
    scans = list(open_scans(write_rosbag1(tmp_path / "a.bag", stamped=False)))
    assert [s.stamp_ns // SECOND for s in scans] == [200, 201, 202, 203, 204]


def test_a_bag_with_index_records_of_wrong_length_is_read_by_its_chunks(tmp_path: Path) -> None:
    path = write_rosbag1(tmp_path / "a.bag")
    data = bytearray(path.read_bytes())
    index_headers = [i for i in range(len(data)) if data[i : i + 8] == b"\x04\0\0\0op=\x04"]
    assert len(index_headers) >= 2
    for at in index_headers:  # header: ver, conn, count and op in some order; the length of the data follows it
        start = next(
            s for s in range(at, at - 60, -1) if at < s + 4 + _u32(data, s) <= at + 47 and 40 < _u32(data, s) < 60
        )
        length_at = start + 4 + _u32(data, start)
        struct.pack_into("<I", data, length_at, _u32(data, length_at) * 20 // 12)
    path.write_bytes(data)
    source = open_scans(path)
    assert [s.stamp_ns for s in source] == [(100 + k) * SECOND + 250_000_000 for k in range(5)]
    assert len(source.warnings) == 1
    assert "read one by one" in source.warnings[0]


def _u32(data: bytes | bytearray, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_of_a_bag_that_was_cut_off_the_beginning_is_read(tmp_path: Path, share: float) -> None:
    bag1 = write_rosbag1(tmp_path / "a.bag", count=40)
    mcap = next(write_rosbag2(tmp_path / "bag", StoragePlugin.MCAP, count=40).glob("*.mcap"))
    for path in (bag1, mcap):
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])
        source = open_scans(path)
        scans = list(source)
        assert 0 < len(scans) <= 40
        for k, scan in enumerate(scans):
            check_bag_scan(scan, k)
        assert len(scans) == 40 or any("cut off" in w for w in source.warnings)


def test_a_folder_whose_description_was_never_written_is_read_file_by_file(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", StoragePlugin.MCAP)
    (folder / "metadata.yaml").unlink()
    source = open_scans(folder)
    assert len(list(source)) == 5
    assert "one by one" in source.warnings[0]


def test_of_several_lidars_the_busiest_is_read_and_the_choice_is_said(tmp_path: Path) -> None:
    folder = write_rosbag2(tmp_path / "bag", StoragePlugin.MCAP, topics=("/front", "/rear"))
    source = open_scans(folder)
    assert len(list(source)) == 5
    assert "/front" in source.warnings[0]
    assert "/rear" in source.warnings[0]
    assert len(list(open_scans(folder, topic="/rear"))) == 4
    with pytest.raises(UsageError, match="no scans on /none"):
        open_scans(folder, topic="/none")


def test_a_bag_without_scans_says_what_it_has(tmp_path: Path) -> None:
    store = get_typestore(Stores.ROS2_JAZZY)
    with Writer2(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/chatter", "std_msgs/msg/String", typestore=store)
        text = store.types["std_msgs/msg/String"]("hello")
        writer.write(connection, 1, store.serialize_cdr(text, "std_msgs/msg/String"))
    with pytest.raises(DataError, match=r"/chatter \(std_msgs/msg/String\)"):
        open_scans(tmp_path / "bag")


def flaser(k: int, beams: int, longest: float = 3.0) -> str:
    readings = " ".join(f"{1 + 0.01 * i:.2f}" for i in range(beams - 1))
    return f"FLASER {beams} {readings} {longest} 9.9 9.9 9.9 8.8 8.8 8.8 {1000 + k}.25 host {k}.5"


@pytest.mark.parametrize(("beams", "step_deg"), [(180, 1.0), (181, 1.0), (360, 0.5), (361, 0.5)])
@pytest.mark.parametrize("packed", [True, False])
def test_carmen_flaser_lines(tmp_path: Path, beams: int, step_deg: float, packed: bool) -> None:
    text = "# message formats\nPARAM a b\nODOM 1 2 3 0 0 0 1 h 1\n" + "\n".join(flaser(k, beams) for k in range(3))
    path = tmp_path / ("a.log.gz" if packed else "a.log")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    source = open_scans(path)
    scans = list(source)
    assert (source.kind, len(source), source.duration_s) == ("carmen", 3, pytest.approx(2.0))
    assert scans[1].stamp_ns == 1001 * SECOND + 250_000_000
    assert len(scans[0].ranges) == beams
    assert math.degrees(scans[0].angle_step) == pytest.approx(step_deg)
    assert scans[0].angle_min == pytest.approx(-math.pi / 2)
    assert scans[0].ranges[2] == pytest.approx(1.02)
    assert not hasattr(scans[0], "pose"), "poses in such logs are corrected ones, not odometry"


def test_carmen_robotlaser_lines_carry_their_own_geometry(tmp_path: Path) -> None:
    robot = "1 2 3 4 5 6 7 8 9 10 11"
    line = f"ROBOTLASER1 0 -1.2 2.4 0.4 20.0 0.01 0 4 1.0 2.0 3.0 4.0 2 7 7 {robot} 12.5 host 3.0"
    path = tmp_path / "a.log"
    path.write_text("\n".join([line, flaser(0, 180), line]))
    scans = list(open_scans(path))
    assert len(scans) == 2, "the same sweep as FLASER is not read a second time"
    np.testing.assert_array_equal(scans[0].ranges, np.float32([1, 2, 3, 4]))
    assert (scans[0].angle_min, scans[0].angle_step, scans[0].range_max) == (-1.2, 0.4, 20.0)
    assert scans[0].stamp_ns == 12_500_000_000


@pytest.mark.parametrize("no_echo", [81.91, 50.0])
def test_readings_that_stand_for_no_echo_are_out_of_range(tmp_path: Path, no_echo: float) -> None:
    path = tmp_path / "a.log"
    path.write_text("\n".join(flaser(k, 180, longest=no_echo) for k in range(20)))
    scan = next(iter(open_scans(path)))
    assert scan.ranges[-1] > scan.range_max
    assert scan.ranges[-2] < scan.range_max


@pytest.mark.parametrize(
    "header",
    ["#PARAM robot_length 0.6 nohost 0", "## made by a logger", "# a\n#PARAM x\n##\nPARAM y 1", "#" + 5000 * "long "],
)
def test_comments_at_the_beginning_of_a_carmen_log_are_skipped(tmp_path: Path, header: str) -> None:
    path = tmp_path / "a.log"
    path.write_text("\n".join([header, flaser(0, 180), flaser(1, 180)]))
    source = open_scans(path)
    assert source.kind == "carmen"
    assert len(list(source)) == 2


def test_garbled_carmen_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    lines = [flaser(0, 180), "FLASER 180 1.0 2.0", flaser(1, 180), "FLASER x y", flaser(2, 180)[:300]]
    path.write_text("\n".join(lines))
    source = open_scans(path)
    assert len(list(source)) == 2
    assert source.warnings == [f"{path}: 3 of 5 FLASER lines could not be read and were left out"]


@pytest.mark.parametrize("stamp", ["9" * 30, "1e200", "nan", "-1e12", "inf"])
def test_carmen_lines_whose_stamp_is_no_time_are_counted(tmp_path: Path, stamp: str) -> None:
    path = tmp_path / "a.log"
    path.write_text("\n".join([flaser(0, 180), flaser(1, 180).replace("1001.25", stamp), flaser(2, 180)]))
    source = open_scans(path)
    assert [s.stamp_ns // SECOND for s in source] == [1000, 1002]
    assert source.warnings == [f"{path}: 1 of 3 FLASER lines could not be read and were left out"]


def test_a_range_beyond_all_numbers_is_no_echo(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(flaser(0, 180).replace(" 1.02 ", " 1e300 "))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert next(iter(open_scans(path))).ranges[2] == np.inf


@pytest.mark.parametrize("stamp", [np.nan, np.inf, 1e300, -1e20, 2.0**63])
def test_arrays_whose_stamps_are_no_times_are_refused(tmp_path: Path, stamp: float) -> None:
    save_scans([Scan(10 + k, ranges_of(k), -1.0, 0.3, 0.1, 9.0, 0.1, 0.01) for k in range(3)], tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as archive:
        fields = dict(archive)
    np.savez(tmp_path / "a.npz", **{**fields, "stamps_ns": np.array([10.0, stamp, 12.0])})
    with pytest.raises(DataError, match="expected stamps in nanoseconds since 1970"):
        open_scans(tmp_path / "a.npz")


def test_of_a_packed_log_that_was_cut_off_the_beginning_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [flaser(k, 180).replace("9.9 9.9", f"{rng.random()} {rng.random()}") for k in range(200)]
    packed = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "a.log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    source = open_scans(path)
    assert 20 < len(list(source)) < 180
    assert "cut off or damaged" in source.warnings[0]


def rawlog_scan(ranges: np.ndarray, valid: np.ndarray, ticks: int, flip: bool, pose_version: int) -> bytes:
    def named(name: str, version: int) -> bytes:
        return bytes([0x80 | len(name)]) + name.encode() + bytes([version])

    eye = np.eye(4).astype("<f8").tobytes()
    if pose_version == 1:
        pose = named("CPose3D", 1) + named("CMatrixD", 0) + struct.pack("<II", 4, 4) + eye + b"\x88\x88"
    else:
        pose = named("mrpt::poses::CPose3D", 2) + np.arange(7.0).astype("<f8").tobytes() + b"\x88"
    name = "CObservation2DRangeScan" if pose_version == 1 else "mrpt::obs::CObservation2DRangeScan"
    body = struct.pack("<fBf", 3.0, not flip, 20.0) + pose + struct.pack("<I", len(ranges))
    body += ranges.astype("<f4").tobytes() + valid.astype(np.uint8).tobytes()
    body += struct.pack("<fQfId", 0.01, ticks, 0.004, 0, 0.0) + b"\x88"
    return named("CSensoryFrame", 2) + struct.pack("<I", 1) + named(name, 6) + body + b"\x88"


@pytest.mark.parametrize("pose_version", [1, 2])
@pytest.mark.parametrize("flip", [True, False])
def test_mrpt_rawlogs(tmp_path: Path, pose_version: int, flip: bool) -> None:
    ranges, valid = np.arange(1.0, 6.0), np.array([1, 1, 0, 1, 1])
    epoch = 11_644_473_600 * 10_000_000
    data = b"".join(rawlog_scan(ranges + k, valid, epoch + k * 5_000_000, flip, pose_version) for k in range(4))
    path = tmp_path / "a.rawlog.gz"
    path.write_bytes(gzip.compress(data))
    source = open_scans(path)
    scans = list(source)
    assert (source.kind, len(scans), source.warnings) == ("rawlog", 4, [])
    wanted = [2.0, 3.0, np.inf, 5.0, 6.0]
    np.testing.assert_array_equal(scans[1].ranges, np.float32(wanted[::-1] if flip else wanted))
    assert [s.stamp_ns for s in scans] == [0, SECOND // 2, SECOND, 3 * SECOND // 2]
    assert (scans[0].angle_min, scans[0].angle_step, scans[0].range_max) == pytest.approx((-1.5, 0.75, 20.0))


def test_a_rawlog_with_stamps_of_its_conversion_gets_even_ones(tmp_path: Path) -> None:
    epoch = 12_000_000_000 * 10_000_000
    scan = [rawlog_scan(np.ones(5), np.ones(5), epoch + (k // 3) * 156_250, False, 1) for k in range(9)]
    path = tmp_path / "a.rawlog"
    path.write_bytes(b"".join(scan) + scan[0][: len(scan[0]) // 2])
    source = open_scans(path)
    stamps = np.array([s.stamp_ns for s in source])
    assert len(stamps) == 9
    assert np.all(np.diff(stamps) == SECOND)
    assert "no usable stamps" in source.warnings[0]
    assert "1 of 10 scans could not be read" in source.warnings[1]


def test_arrays_come_back_as_they_were_saved(tmp_path: Path) -> None:
    scans = [Scan(10 + k, ranges_of(k), -1.0, 0.3, 0.1, 9.0, 0.1, 0.01) for k in range(3)]
    save_scans(scans, tmp_path / "a.npz")
    source = open_scans(tmp_path / "a.npz")
    assert source.kind == "npz"
    for scan, wanted in zip(source, scans, strict=True):
        np.testing.assert_array_equal(scan.ranges, wanted.ranges)
        assert (scan.stamp_ns, scan.angle_step, scan.time_increment_s) == (wanted.stamp_ns, 0.3, 0.01)


WRONG = {
    "empty.bag": (b"", "is empty"),
    "notes.txt": (b"Dear diary, today I walked.\nIt was nice.\n", "none of these"),
    "picture.bag": (b"\x89PNG\r\n\x1a\n" + bytes(100), "none of these"),
    "walks.csv": (b"walk_id,t,x,y\na,0.0,1.0,2.0\n", "none of these"),
    "odom.log": (b"ODOM 1 2 3 0 0 0 1 h 1\nODOM 1 2 3 0 0 0 1 h 1\n", "FLASER"),
    "short.mcap": (b"\x89MCAP0\r\n\x01\x05", "is not a bag that can be read"),
    "short.bag": (b"#ROSBAG V2.0\nxx", "is not a bag that can be read"),
    "broken.db3": (b"SQLite format 3\0" + bytes(50), "is not a bag that can be read"),
    "broken.npz": (b"PK\x03\x04" + bytes(50), "NumPy archive"),
    "mcap.bin": (b"\x89MCAP0\r\n" + bytes(50), r"name it \*.mcap"),
    "object.rawlog": (b"\x8dCSensoryFrame\x02" + bytes(50), "CObservation2DRangeScan"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_recording_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    content, sentence = WRONG[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=sentence) as refused:
        open_scans(path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_what_is_not_there_and_what_is_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        open_scans(tmp_path / "nothing.bag")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="is not a rosbag2 folder"):
        open_scans(tmp_path / "folder")


def test_random_damage_never_ends_in_another_error(tmp_path: Path) -> None:
    """Bytes are changed at random: scans, or one sentence, never a traceback."""
    rng = np.random.default_rng(0)
    mcap = next(write_rosbag2(tmp_path / "m", StoragePlugin.MCAP).glob("*.mcap"))
    db3 = next(write_rosbag2(tmp_path / "d", StoragePlugin.SQLITE3).glob("*.db3"))
    sound = {path.suffix: path.read_bytes() for path in (write_rosbag1(tmp_path / "a.bag"), mcap, db3)}
    sound[".rawlog"] = b"".join(rawlog_scan(np.ones(5), np.ones(5), 10**17 + k * 10**6, False, 1) for k in range(5))
    for trial in range(25):
        for suffix, data in sound.items():
            damaged = bytearray(data)
            for at in rng.integers(0, len(damaged), 20):
                damaged[at] = rng.integers(256)
            path = tmp_path / f"trial{trial}{suffix}"
            path.write_bytes(damaged)
            with contextlib.suppress(DataError):
                assert all(isinstance(s, Scan) for s in open_scans(path))
