"""Walks are stored once, in the frame of the house, before they are announced."""

from dataclasses import replace

from tinymodel import walks

from svfm_ros.pipeline.live.walk_saver import WalkSaver
from svfm_ros.walks.walk_store import WalkStore


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
    assert len(list(WalkStore.open(tmp_path / "store").placed_walks())) == 3


def test_the_same_recording_replayed_is_counted_and_not_stored_again(tmp_path):
    save(tmp_path / "store", "map", walks(3))
    moved = [replace(w, poses=w.poses + 0.01, stamps_ns=w.stamps_ns + 10**8, walk_id=f"{w.walk_id}b") for w in walks(3)]
    saver, announced = save(tmp_path / "store", "map", moved, resumed=True)
    assert (saver.saved, saver.duplicates, saver.problem) == (0, 3, "")
    assert announced == []
    assert len(WalkStore.open(tmp_path / "store")) == 3


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
