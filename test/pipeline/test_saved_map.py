"""The map survives: a restart goes on with it, in the same frame, and so does a recording that begins again."""

import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest
from simbag import scans_and_truth

from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.config.walk_config import RecorderConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.pipeline.saved_map import MapMemory, state_path
from svfm_ros.pipeline.slam_engine import Engines
from svfm_ros.pipeline.tracking import Tracking

CONFIG = SlamNodeConfig(recorder=RecorderConfig(dwell_time_s=3.0))


def memory_of(path, period_s=0.01):
    complaints = []
    return MapMemory(path, period_s, complaints.append), complaints


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The file a run over most of the recording leaves behind, the scans to come, and where they are."""
    scans, truth = scans_and_truth()
    path = tmp_path_factory.mktemp("memory") / "map.state"
    memory, complaints = memory_of(path)
    tracking = Tracking(CONFIG, Engines(CONFIG.slam))
    until = len(scans) - 60
    for scan in scans[:until]:
        tracking.add(scan)
        memory.keep(tracking.engine, in_house_frame=True)
    memory.close(tracking.engine, in_house_frame=True)
    assert not complaints
    return path, scans[until:], truth[until:]


def resumed(path):
    memory, _ = memory_of(path)
    return Tracking(CONFIG, Engines(CONFIG.slam, kept=memory.read().state, keeps_map=True))


def test_a_restart_goes_on_at_once_where_the_wearer_is(state):
    path, scans, truth = state
    tracking = resumed(path)
    tracked = [tracking.add(s) for s in scans[25:]]  # two and a half seconds were lost
    assert tracked[0].update.match is not None
    poses = np.array([t.T_map_base.as_array() for t in tracked])
    assert np.linalg.norm(poses[:, :2] - truth[25:, :2], axis=1).max() < 0.15
    assert not any(t.started_over for t in tracked)


def test_a_recording_that_begins_again_is_found_on_the_map_so_far(state):
    path, _, _ = state
    scans, truth = scans_and_truth()
    tracking = resumed(path)
    tracked = [tracking.add(s) for s in scans]
    assert "looking for the wearer on the map" in tracked[0].started_over
    assert tracked[0].map_kept
    placed = [i for i, t in enumerate(tracked) if t.update.match is not None]
    assert len(placed) > len(scans) / 2
    off = [np.hypot(*(tracked[i].T_map_base.as_array() - truth[i])[:2]) for i in placed]
    assert max(off) < 0.15
    assert np.all(np.diff(tracking.trajectory()[0]) > 0)  # or no walk could be cut from it


def test_started_over_means_an_empty_map(state):
    path, scans, _ = state
    tracking = resumed(path)
    tracking.reset()
    assert np.allclose(tracking.add(scans[0]).T_map_base.as_array(), 0.0)


def test_a_damaged_file_is_put_aside(tmp_path, state):
    path = tmp_path / "map.state"
    path.write_bytes(state[0].read_bytes()[:-7])
    memory, _ = memory_of(path)
    with pytest.raises(DataError, match=r"put aside as map\.unusable"):
        memory.read()
    assert memory.read() is None
    assert (tmp_path / "map.unusable").exists()


def test_a_damaged_file_on_a_read_only_disk_stays_where_it_is(tmp_path, monkeypatch):
    path = tmp_path / "map.state"
    path.write_bytes(b"damaged")

    def refuse(self, target):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(DataError, match="it stays there: Read-only file system, and a new map is made"):
        memory_of(path)[0].read()
    assert path.exists()


def test_where_the_newest_file_is_damaged_the_one_before_it_is_used(tmp_path):
    scans, _ = scans_and_truth()
    path = tmp_path / "map.state"
    memory, complaints = memory_of(path)
    tracking = Tracking(CONFIG, Engines(CONFIG.slam))
    tracking.add(scans[0])
    for _ in range(2):
        memory._write((path, tracking.engine.state()))
    path.write_bytes(path.read_bytes()[:-7])
    memory._claim.close()  # as the system does for a process that was killed
    kept = memory_of(path)[0].read()
    assert len(kept.state) == 1
    assert "put aside as map.unusable, and the one before it is used" in kept.problem
    again = memory_of(path)[0].read()  # killed before a scan was placed: still that map, no empty one
    assert len(again.state) == 1
    assert again.in_house_frame
    assert "map.state, and the one before it is used" in again.problem
    assert not complaints


def test_a_map_of_its_own_lasts_as_long_as_its_session(tmp_path):
    scans, _ = scans_and_truth()
    path = tmp_path / "map.state"
    path.write_bytes(b"the house")
    os.utime(path, (time.time() - 100.0,) * 2)
    memory, complaints = memory_of(path)
    tracking = Tracking(CONFIG, Engines(CONFIG.slam))
    tracking.add(scans[0])
    memory.keep(tracking.engine, in_house_frame=False)
    while not (tmp_path / "map.session").exists():
        time.sleep(0.01)
    memory._claim.close()  # as the system does for a process that was killed
    killed, _ = memory_of(path)
    assert not killed.read().in_house_frame
    assert len(killed.read().state) == 1
    memory.close(tracking.engine, in_house_frame=False)
    assert [p.name for p in tmp_path.iterdir() if p.suffix != ".lock"] == ["map.state"]
    assert path.read_bytes() == b"the house"
    assert not complaints


def test_a_map_that_was_moved_to_the_house_is_read_instead_of_that_of_the_session(tmp_path, state):
    for name, age_s in (("map.session", 20.0), ("map.state", 10.0)):
        (tmp_path / name).write_bytes(state[0].read_bytes())
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    assert memory_of(tmp_path / "map.state")[0].read().in_house_frame


def test_where_it_is_kept(tmp_path):
    assert state_path("", "", "") is None
    assert state_path("", str(tmp_path), "house.yaml") is None
    assert state_path("", str(tmp_path), "") == tmp_path / "map.state"
    assert state_path("", str(tmp_path), "", "/home/mary") == tmp_path / "home-mary.map.state"
    assert state_path(str(tmp_path / "x"), "", "") == tmp_path / "x"
    with pytest.raises(UsageError, match="folder that exists"):
        state_path(str(tmp_path / "nowhere" / "x"), "", "")
    never, _ = memory_of(tmp_path / "map.state", period_s=0.0)
    assert not never.is_kept


def test_two_nodes_never_write_the_same_map(tmp_path):
    path = tmp_path / "map.state"
    first, _ = memory_of(path)
    with pytest.raises(UsageError, match="another slam_node keeps its map in"):
        memory_of(path)
    memory_of(tmp_path / "anna.map.state")  # another wearable in the same store
    first.close(Tracking(CONFIG, Engines(CONFIG.slam)).engine, in_house_frame=True)
    memory_of(path)
