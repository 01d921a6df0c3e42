"""Bags that are sound, cut off, empty, and no bags at all."""

import bz2
import shutil
import sqlite3
from contextlib import closing

import lz4.frame
import pytest
from backports import zstd
from bagmaker import LASER_SCAN, START_NS, STRING, qos, scans, text_bytes, write_bag
from rosbags.rosbag2 import StoragePlugin, Writer

from svfm_ros.errors import SvfmError
from svfm_ros.sources import damaged_bags
from svfm_ros.sources.bag_scans import open_rosbag
from svfm_ros.sources.raw_bag import open_raw_bag

MESSAGES = [
    ("/map", STRING, START_NS - 1, text_bytes("the map")),
    *scans(200),
]
PLUGINS = [StoragePlugin.MCAP, StoragePlugin.SQLITE3]


def silent(sentence):
    raise AssertionError(f"no warning was expected: {sentence}")


def read_all(recording, warn=silent):
    return [(m.topic, m.msgtype, m.stamp_ns, m.data) for m in recording.read({t.name for t in recording.topics}, warn)]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_sound_bag_comes_out_as_it_went_in(tmp_path, plugin):
    bag = write_bag(tmp_path / "bag", MESSAGES, latched={"/map"}, plugin=plugin)
    recording = open_raw_bag(bag, silent)
    assert read_all(recording) == MESSAGES
    assert read_all(recording) == MESSAGES  # as often as wanted
    assert {(t.name, t.msgtype, t.count, t.latched) for t in recording.topics} == {
        ("/map", STRING, 1, True),
        ("/scan", LASER_SCAN, 200, False),
    }
    assert (recording.start_ns, recording.end_ns) == (MESSAGES[0][2], MESSAGES[-1][2])
    assert [m.topic for m in recording.read({"/map"}, silent)] == ["/map"]
    assert list(recording.read({"/nothing"}, silent)) == []


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_single_file_of_a_bag(tmp_path, plugin):
    bag = write_bag(tmp_path / "bag", MESSAGES, plugin=plugin)
    (storage,) = (p for p in bag.iterdir() if p.suffix != ".yaml")
    assert read_all(open_raw_bag(storage, silent)) == MESSAGES


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("described", [True, False])
def test_a_bag_that_is_cut_off_gives_what_is_left(tmp_path, plugin, described):
    bag = write_bag(tmp_path / "bag", MESSAGES, plugin=plugin)
    (storage,) = (p for p in bag.iterdir() if p.suffix != ".yaml")
    if not described:
        (bag / "metadata.yaml").unlink()
    data = storage.read_bytes()
    storage.write_bytes(data[: len(data) * 6 // 10])
    said = []
    got = read_all(open_raw_bag(bag, said.append))
    assert 20 < len(got) < len(MESSAGES)
    assert got == MESSAGES[: len(got)]
    assert len(said) == 2
    assert "one by one" in said[0]
    assert "damaged" in said[1]
    assert f"{len(got)} messages could be read" in said[1]


def test_a_bag_without_its_description_is_whole(tmp_path):
    bag = write_bag(tmp_path / "bag", MESSAGES)
    (bag / "metadata.yaml").unlink()
    said = []
    assert read_all(open_raw_bag(bag, said.append)) == MESSAGES
    assert len(said) == 1


def test_damage_found_on_the_way_is_said(tmp_path):
    bag = write_bag(tmp_path / "bag", MESSAGES, plugin=StoragePlugin.MCAP)
    recording = open_raw_bag(bag, silent)
    shutil.rmtree(bag)
    said = []
    assert read_all(recording, said.append) == []
    assert len(said) == 1
    assert "in part only" in said[0]


def no_bag(tmp_path, kind):
    path = tmp_path / "bag"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "empty file":
        (path := tmp_path / "bag.mcap").write_bytes(b"")
    elif kind == "text":
        (path := tmp_path / "bag.mcap").write_text("dear diary, today I walked")
    elif kind == "text as database":
        (path := tmp_path / "bag.db3").write_text("dear diary, today I walked")
    elif kind == "half a page":
        (path := tmp_path / "bag.db3").write_bytes(b"SQLite format 3\0" + bytes(50))
    elif kind == "header alone":
        (path := tmp_path / "bag.mcap").write_bytes(b"\x89MCAP0\r\n")
    elif kind == "unreadable":
        path = tmp_path / ("x" * 300)  # a folder of another user would do, but tests may run as root
    elif kind == "ROS 1":
        (path := tmp_path / "old.bag").write_text("#ROSBAG V2.0\n")
    elif kind == "no messages":
        with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            from bagmaker import STORE

            writer.add_connection("/scan", LASER_SCAN, typestore=STORE, offered_qos_profiles=qos())
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nothing", "does not exist"),
        ("empty folder", "is not a rosbag2 folder"),
        ("empty file", "is empty"),
        ("text", "is not a bag"),
        ("text as database", "is not a bag"),
        ("header alone", "is not a bag that can be read"),
        ("half a page", "is not a bag that can be read"),
        ("ROS 1", "ROS 1 bag"),
        ("no messages", "holds no messages"),
        ("unreadable", "cannot read"),
    ],
)
def test_what_is_no_bag_is_refused_in_one_sentence(tmp_path, kind, message):
    with pytest.raises(SvfmError) as error:
        open_raw_bag(no_bag(tmp_path, kind), lambda _: None)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", ["data = 300000000000", "data = 'text'", "timestamp = 'soon'"])
def test_columns_of_another_type_are_no_messages(tmp_path, change):
    """SQLite keeps any type in any column; bytes(300000000000) would take 300 GB."""
    bag = write_bag(tmp_path / "bag", scans(5), plugin=StoragePlugin.SQLITE3)
    (file,) = bag.glob("*.db3")
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"UPDATE messages SET {change} WHERE id = 3")
        db.commit()
    for path in (bag, file):
        warnings = []
        try:
            seen = read_all(open_raw_bag(path, warnings.append), warnings.append)
        except SvfmError as error:
            seen, warnings = [], [str(error)]
        assert len(seen) < 5
        assert warnings
        source = open_rosbag(path)
        assert len(list(source)) < 5
        assert source.warnings


@pytest.mark.parametrize("kind", ["bz2", "lz4", "zstd"])
def test_a_chunk_that_unpacks_to_too_much_is_refused(kind, monkeypatch):
    monkeypatch.setattr(damaged_bags, "_MOST_UNPACKED", 1000)
    pack = {"bz2": bz2.compress, "lz4": lz4.frame.compress, "zstd": zstd.compress}[kind]
    assert damaged_bags._unpack(pack(bytes(999)), kind) == bytes(999)
    with pytest.raises(ValueError, match="at most 1000 bytes when unpacked"):
        damaged_bags._unpack(pack(bytes(100_000)), kind)
