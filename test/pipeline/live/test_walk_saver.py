"""Walks are stored once, in the frame of the house, before they are announced."""

import threading
from dataclasses import replace

import pytest
from tinymodel import walks

from svfm_ros.errors import StoreUnavailableError
from svfm_ros.pipeline.live import walk_saver
from svfm_ros.pipeline.live.walk_saver import WalkAligner, WalkSaver
from svfm_ros.types import Alignment, Pose2
from svfm_ros.walks.walk_store import WalkStore, is_store


def save(store, frame, some, **options):
    announced = []

    def on_saved(walk):
        announced.append((walk.walk_id, walk.walk_id in WalkStore.open(store)))

    saver = WalkSaver(str(store), frame, on_given_map=False, on_saved=on_saved, **options)
    for walk in some:
        saver.save(walk)
    saver.close()
    return saver, announced


def test_a_walk_is_in_the_store_when_it_is_announced(tmp_path):
    saver, announced = save(tmp_path / "store", "map", walks(3))
    assert announced == [(w.walk_id, True) for w in walks(3)]
    assert (saver.saved, saver.duplicates, saver.problem) == (3, 0, "")
    assert len(list(WalkStore.open(tmp_path / "store").aligned_walks())) == 3


def test_the_same_recording_replayed_is_counted_and_not_stored_again(tmp_path):
    save(tmp_path / "store", "map", walks(3))
    moved = [replace(w, poses=w.poses + 0.01, stamps_ns=w.stamps_ns + 10**8, walk_id=f"{w.walk_id}b") for w in walks(3)]
    saver, announced = save(tmp_path / "store", "map", moved, resumed=True)
    assert (saver.saved, saver.duplicates, saver.problem) == (0, 3, "")
    assert announced == []
    assert len(WalkStore.open(tmp_path / "store")) == 3


@pytest.mark.parametrize("method", ["add", "set_alignment"])
def test_walks_wait_while_the_store_cannot_be_written_to(tmp_path, monkeypatch, method):
    """A full disk costs no walk: those that ended meanwhile are stored, aligned and announced once, in order."""
    full, write = [True], getattr(WalkStore, method)
    said, tried, announced = [], threading.Event(), []

    def write_or_not(self, what):
        if full[0]:
            raise StoreUnavailableError("the disk is full")
        return write(self, what)

    def complain(error):
        said.append(str(error))
        tried.set()

    monkeypatch.setattr(WalkStore, method, write_or_not)
    monkeypatch.setattr(walk_saver, "_RETRY_S", 0.01)
    all_announced = threading.Event()

    def on_saved(walk):
        announced.append(walk.walk_id)
        if len(announced) == 3:
            all_announced.set()

    saver = WalkSaver(str(tmp_path / "store"), "map", on_given_map=False, on_saved=on_saved, on_error=complain)
    for walk in walks(3):
        saver.save(walk)
    assert tried.wait(60.0)
    assert announced == []
    assert "the disk is full" in saver.problem
    full[0] = False
    assert all_announced.wait(60.0)  # without another walk, or the end
    saver.close()
    assert announced == [w.walk_id for w in walks(3)]
    assert (saver.saved, saver.duplicates, saver.problem) == (3, 0, "")
    assert len(list(WalkStore.open(tmp_path / "store").aligned_walks())) == 3
    assert set(said) == {"the disk is full"}


def test_a_walk_that_will_not_do_does_not_keep_others_waiting(tmp_path):
    said = []
    bad = replace(walks(1)[0], walk_id="")
    saver, announced = save(tmp_path / "store", "map", [bad, *walks(2)], on_error=said.append)
    assert len(said) == 1
    assert len(announced) == 2
    assert saver.saved == 2


def test_a_new_store_has_the_frame_of_its_map_and_another_map_is_not_in_it(tmp_path):
    saver, _ = save(tmp_path / "store", "mary/map", [])
    assert saver.in_house_frame
    assert WalkStore.open(tmp_path / "store").frame == "mary/map"
    saver, _ = save(tmp_path / "store", "john/map", [])
    assert not saver.in_house_frame


def test_after_a_new_map_walks_are_not_in_the_frame_of_the_house(tmp_path):
    saver, _ = save(tmp_path / "store", "map", walks(1))
    saver.new_map()
    assert not saver.in_house_frame


def test_two_wearables_that_start_together_share_a_new_store(monkeypatch, tmp_path):
    """The other one makes the store between our look and our attempt to make it."""
    path, looks = tmp_path / "walks", []

    def look(folder):
        looks.append(folder)
        if len(looks) == 1:
            WalkStore.create(folder, "mary/map")
            return False
        return is_store(folder)

    monkeypatch.setattr("svfm_ros.pipeline.live.walk_saver.is_store", look)
    saver = WalkSaver(str(path), "john/map", on_given_map=False)
    assert not saver.in_house_frame
    saver.close()
    assert WalkStore.open(path).frame == "mary/map"


def aligned_one_after_the_other(store, monkeypatch, *found):
    """Save a walk after another on a new map, aligned with the given transforms."""
    transforms = iter(found)

    def align(self, walk):
        return [Alignment(walk.walk_id, next(transforms), None, True, "as told")]

    monkeypatch.setattr(WalkAligner, "align", align)
    saver, _ = save(store, "map", walks(1))
    saver = WalkSaver(str(store), "map", on_given_map=False)
    for walk in walks(1 + len(found))[1:]:
        saver.save(walk)
    saver.close()
    return saver


HERE = Pose2(1.0, 2.0, 0.5)


@pytest.mark.parametrize(
    ("found", "agreed"),
    [
        ([HERE], None),
        ([HERE, Pose2(1.05, 2.0, 0.5)], Pose2(1.05, 2.0, 0.5)),
        ([HERE, Pose2(1.5, 2.0, 0.5)], None),
        ([HERE, Pose2(1.0, 2.0, 0.7)], None),
        ([HERE, Pose2(5.0, 2.0, 0.5), HERE], None),
        ([HERE, Pose2(5.0, 2.0, 0.5), HERE, HERE], HERE),
    ],
)
def test_two_walks_in_succession_must_agree_where_the_map_is(tmp_path, monkeypatch, found, agreed):
    saver = aligned_one_after_the_other(tmp_path / "store", monkeypatch, *found)
    assert not saver.in_house_frame
    assert saver.T_house_map == agreed
    saver.new_map()
    assert saver.T_house_map is None  # they spoke of the map before


def test_on_a_map_that_was_moved_walks_need_no_alignment(tmp_path, monkeypatch):
    saver = aligned_one_after_the_other(tmp_path / "store", monkeypatch, HERE, HERE)
    saver.map_was_moved()
    assert saver.in_house_frame
    assert saver.T_house_map is None
