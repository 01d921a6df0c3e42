"""A store keeps what it was given, through power cuts, second programs and rotten files."""

import json
import os
import shutil
import signal
import time
import zlib
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from powercut import Disk, PowerCut

from svfm_ros.errors import DataError
from svfm_ros.types import Alignment, MatchResult, Pose2, Walk
from svfm_ros.walks.walk_csv import read_walks_csv
from svfm_ros.walks.walk_file import decode_walk, encode_walk
from svfm_ros.walks.walk_store import WalkStore, is_store

S = 1_000_000_000
T0 = 1_763_330_000 * S


def make_walk(number: int, resident: str = "anna", poses: int = 4, points: int = 3) -> Walk:
    rng = np.random.default_rng(number)
    stamps = T0 + number * 60 * S + np.arange(poses) * S // 10
    seen = rng.normal(size=(points, 2)).astype(np.float32).astype(float)
    return Walk(f"{resident}-{number}", resident, stamps, rng.normal(size=(poses, 3)), seen)


def assert_same(one: Walk, other: Walk) -> None:
    assert (one.walk_id, one.resident, one.schema) == (other.walk_id, other.resident, other.schema)
    np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
    np.testing.assert_array_equal(one.poses, other.poses)
    np.testing.assert_array_equal(one.points, other.points)


def assert_holds(path: Path, walks: list[Walk]) -> None:
    """Opened anew, the store has these walks and no other, all whole, and no complaint."""
    store = WalkStore.open(path)
    assert store.walk_ids == tuple(w.walk_id for w in walks)
    for walk in walks:
        assert_same(store.load(walk.walk_id), walk)
    assert store.problems == ()


@pytest.fixture
def store(tmp_path: Path) -> WalkStore:
    return WalkStore.create(tmp_path / "store")


def test_walks_come_back_in_order_of_time(store: WalkStore) -> None:
    walks = [make_walk(n) for n in range(5)]
    for n in (3, 0, 4, 1, 2):
        assert store.add(walks[n])
    assert store.walk_ids == tuple(w.walk_id for w in walks)
    assert_holds(store.path, walks)
    entry = WalkStore.open(store.path).entries[2]
    assert (entry.resident, entry.start_ns, entry.end_ns) == ("anna", walks[2].stamps_ns[0], walks[2].stamps_ns[-1])
    assert (entry.poses, entry.points) == (4, 3)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=300), st.text(min_size=1), st.integers(2, 30), st.integers(0, 30))
def test_any_name_and_size_is_kept(tmp_path: Path, walk_id: str, resident: str, poses: int, points: int) -> None:
    shutil.rmtree(tmp_path / "any", ignore_errors=True)
    store = WalkStore.create(tmp_path / "any")
    drawn = make_walk(1, poses=poses, points=points)
    walk = Walk(walk_id, resident, drawn.stamps_ns, drawn.poses, drawn.points)
    store.add(walk)
    assert_holds(store.path, [walk])
    store.set_alignment(Alignment(walk_id, Pose2(1, 2, 3), None, True, ""))
    alignment = WalkStore.open(store.path).alignment(walk_id)
    assert alignment is not None
    assert alignment.T_house_walk == Pose2(1, 2, 3)


def test_the_same_walk_again_changes_nothing_and_another_of_its_id_is_refused(store: WalkStore) -> None:
    walk, other = make_walk(1), make_walk(2)
    assert store.add(walk)
    assert not store.add(walk)
    impostor = Walk(walk.walk_id, walk.resident, other.stamps_ns, other.poses)
    with pytest.raises(DataError, match="already holds another walk 'anna-1'"):
        store.add_all([other, impostor])
    with pytest.raises(DataError, match="'anna-2' twice"):
        store.add_all([other, other])
    assert_holds(store.path, [walk])


def test_broken_walks_are_refused_before_anything_is_written(store: WalkStore) -> None:
    good = make_walk(1)
    bad = {
        "at least two stamps": Walk("b", "anna", good.stamps_ns[:1], good.poses[:1]),
        "poses \\(T, 3\\)": Walk("b", "anna", good.stamps_ns, good.poses[:, :2]),
        "increase": Walk("b", "anna", good.stamps_ns[::-1], good.poses),
        "finite": Walk("b", "anna", good.stamps_ns, good.poses * np.nan),
        "an id and a resident": Walk("", "anna", good.stamps_ns, good.poses),
        "schema 1, got 7": Walk("b", "anna", good.stamps_ns, good.poses, schema=7),
    }
    for sentence, walk in bad.items():
        with pytest.raises(DataError, match=sentence):
            store.add_all([good, walk])
    assert_holds(store.path, [])


# --- power cuts ------------------------------------------------------------------------------------------------------


def cut_everywhere(tmp_path: Path, prepare: Callable[[Path], object], act: Callable[[Path], object]) -> list[Path]:
    """The folders left by a power cut at each moment of ``act``, and the one where it went through (last)."""
    left: list[Path] = []
    for names_last in (True, False):
        moment = 1
        while True:
            path = tmp_path / f"{names_last}-{moment}"
            prepare(path)
            with pytest.MonkeyPatch.context() as patch:
                disk = Disk(patch, moment)
                try:
                    act(path)
                    finished = True
                except PowerCut:
                    finished = False
            disk.settle(names_last)
            left.append(path)
            if finished:
                break
            moment += 1
    return left


def test_a_power_cut_at_any_moment_of_adding_loses_nothing(tmp_path: Path) -> None:
    old, new = make_walk(1), make_walk(2)

    def prepare(path: Path) -> None:
        WalkStore.create(path).add(old)

    def act(path: Path) -> None:
        WalkStore.open(path).add(new)
        (path / "aside" / "returned").touch()

    left = cut_everywhere(tmp_path, prepare, act)
    assert len(left) > 8
    for path in left:
        kept = new.walk_id in WalkStore.open(path)
        if (path / "aside" / "returned").exists():
            assert kept
        assert_holds(path, [old, new] if kept else [old])
        assert WalkStore.open(path).add(new) == (not kept)
        assert_holds(path, [old, new])


def test_a_power_cut_while_many_are_added_leaves_whole_walks_only(tmp_path: Path) -> None:
    walks = [make_walk(n) for n in range(20)]  # enough to be synced together
    left = cut_everywhere(tmp_path, WalkStore.create, lambda path: WalkStore.open(path).add_all(walks))
    for path in left:
        found = WalkStore.open(path).walk_ids
        assert_holds(path, [w for w in walks if w.walk_id in found])
    assert_holds(left[-1], walks)


def test_a_power_cut_at_any_moment_of_aligning_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    walk = make_walk(1)
    old, new = (Alignment(walk.walk_id, Pose2(x, 0, 0), None, True, "") for x in (1.0, 2.0))

    def prepare(path: Path) -> None:
        store = WalkStore.create(path)
        store.add(walk)
        store.set_alignment(old)

    left = cut_everywhere(tmp_path, prepare, lambda path: WalkStore.open(path).set_alignment(new))
    found = [WalkStore.open(path).alignment(walk.walk_id) for path in left]
    assert all(a in (old, new) for a in found)
    assert found[-1] == new
    assert old in found


def test_a_power_cut_while_a_store_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    for path in cut_everywhere(tmp_path, lambda path: None, WalkStore.create):
        store = WalkStore.create(path)
        store.add(make_walk(1))
        assert_holds(path, [make_walk(1)])


def test_a_power_cut_while_deleting_can_be_repeated(tmp_path: Path) -> None:
    anna, ben = [make_walk(n) for n in range(3)], [make_walk(9, "ben")]

    def prepare(path: Path) -> None:
        store = WalkStore.create(path)
        store.add_all(anna + ben)
        store.set_alignments([Alignment(w.walk_id, Pose2(), None, True, "") for w in anna + ben])

    def act(path: Path) -> None:
        WalkStore.open(path).delete_resident("anna")

    for path in cut_everywhere(tmp_path, prepare, act):
        store = WalkStore.open(path)
        if "anna" in store.residents:
            store.delete_resident("anna")
        assert_holds(path, ben)
        assert b"anna" not in b"".join(p.name.encode() + p.read_bytes() for p in path.rglob("*") if p.is_file())


def write_until_killed(path: Path, pipe: int) -> None:
    """In a process of its own: say each walk that was kept."""
    store = WalkStore.create(path)
    for number in range(100_000):
        store.add(make_walk(number, points=2000))
        os.write(pipe, number.to_bytes(4, "little"))


def test_killing_a_writer_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for trial in range(25):
        path = tmp_path / f"{trial}"
        read_end, write_end = os.pipe()
        process = get_context("fork").Process(target=write_until_killed, args=(path, write_end))
        process.start()
        os.close(write_end)
        said = os.read(read_end, 4)
        time.sleep(rng.uniform(0, 0.06))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        while more := os.read(read_end, 4096):
            said += more
        os.close(read_end)
        kept = int.from_bytes(said[-4:], "little") + 1
        store = WalkStore.open(path)
        assert len(store) in (kept, kept + 1)  # the last one may have been kept without being said
        assert_holds(path, [make_walk(n, points=2000) for n in range(len(store))])
        store.add(make_walk(999))  # the lock is free, and what was left behind goes
        assert list((path / "parts").iterdir()) == []


# --- files that rot --------------------------------------------------------------------------------------------------


def test_a_file_cut_short_at_any_byte_is_reported_and_left_alone(store: WalkStore) -> None:
    walk, other = make_walk(1, poses=2, points=1), make_walk(2)
    store.add_all([walk, other])
    path = store.path / "walks" / "anna-1.walk"
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        opened = WalkStore.open(store.path)
        assert opened.walk_ids == (other.walk_id,)
        (problem,) = opened.problems
        assert problem.path == path
        assert "damaged" in problem.reason
        assert path.stat().st_size == length
    path.write_bytes(data)
    assert_holds(store.path, [walk, other])


def test_a_byte_changed_anywhere_is_never_taken_for_a_walk(store: WalkStore) -> None:
    walk = make_walk(1, poses=2, points=1)
    store.add(walk)
    path = store.path / "walks" / "anna-1.walk"
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        opened = WalkStore.open(store.path)
        assert list(opened.walks()) == []
        assert len(opened.problems) == 1


def test_a_walk_that_comes_in_again_takes_the_place_of_a_damaged_file(store: WalkStore) -> None:
    walk = make_walk(1)
    store.add(walk)
    path = store.path / "walks" / "anna-1.walk"
    damaged = path.read_bytes()[:-20]
    path.write_bytes(damaged)
    opened = WalkStore.open(store.path)
    assert opened.add(walk)
    assert opened.problems == ()
    assert_holds(store.path, [walk])
    (aside,) = (store.path / "aside").iterdir()
    assert aside.read_bytes() == damaged


def test_a_walk_of_another_schema_is_reported(store: WalkStore) -> None:
    body = encode_walk(make_walk(1))[:-4].replace(b'"schema": 1', b'"schema": 2')
    (store.path / "walks" / "new.walk").write_bytes(body + zlib.crc32(body).to_bytes(4, "little"))
    (problem,) = WalkStore.open(store.path).problems
    assert "schema 2: expected 1" in problem.reason


def test_a_copy_of_a_walk_under_another_name_counts_once(store: WalkStore) -> None:
    walk = make_walk(1)
    store.add(walk)
    shutil.copy(store.path / "walks" / "anna-1.walk", store.path / "walks" / "copy.walk")
    opened = WalkStore.open(store.path)
    assert opened.walk_ids == (walk.walk_id,)
    assert "again" in opened.problems[0].reason


def test_a_damaged_alignment_is_said_and_the_walk_left_out(store: WalkStore) -> None:
    walks = [make_walk(1), make_walk(2)]
    store.add_all(walks)
    store.set_alignments([Alignment(w.walk_id, Pose2(), None, True, "") for w in walks])
    path = store.path / "alignments" / "anna-1.json"
    path.write_bytes(path.read_bytes().replace(b"0.0", b"0.5", 1))
    with pytest.raises(DataError, match="checksum"):
        store.alignment("anna-1")
    assert [w.walk_id for w in store.placed_walks()] == ["anna-2"]
    assert [p.path for p in store.problems] == [path]


# --- the catalogue ---------------------------------------------------------------------------------------------------


def test_the_catalogue_may_be_torn_at_any_byte_or_missing(store: WalkStore) -> None:
    walks = [make_walk(n) for n in range(2)]
    store.add_all(walks)
    path = store.path / "catalogue"
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        assert_holds(store.path, walks)
        path.write_bytes(whole[:length] + bytes(64))  # what some file systems leave after a power cut
        assert_holds(store.path, walks)
    path.unlink()
    assert_holds(store.path, walks)
    assert path.exists()


def test_with_a_catalogue_no_walk_is_opened(store: WalkStore) -> None:
    store.add(make_walk(1))
    path = store.path / "walks" / "anna-1.walk"
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    opened = WalkStore.open(store.path)
    assert opened.walk_ids == ("anna-1",)
    with pytest.raises(DataError, match="damaged"):  # but what is in it is checked when it is read
        opened.load("anna-1")


def test_a_store_that_cannot_be_written_can_be_read(store: WalkStore) -> None:
    store.add(make_walk(1))
    (store.path / "catalogue").unlink()
    (store.path / "lock").unlink()
    (store.path / "lock").mkdir()  # nobody can open this as a file
    assert_holds(store.path, [make_walk(1)])
    with pytest.raises(DataError, match="cannot write in the store"):
        WalkStore.open(store.path).add(make_walk(2))


# --- two programs ----------------------------------------------------------------------------------------------------


def add_numbers(path: Path, numbers: range) -> None:
    store = WalkStore.create(path)
    for number in numbers:
        store.add(make_walk(number))


def test_a_reader_beside_two_writers_sees_whole_walks_and_never_fewer(tmp_path: Path) -> None:
    path = tmp_path / "store"
    WalkStore.create(path)
    ranges = (range(40), range(20, 60))  # twenty walks come from both
    writers = [get_context("fork").Process(target=add_numbers, args=(path, r)) for r in ranges]
    for writer in writers:
        writer.start()
    reader, before = WalkStore.open(path), 0
    while any(writer.is_alive() for writer in writers):
        reader.refresh()
        for opened in (reader, WalkStore.open(path)):
            walks = list(opened.walks())
            assert opened.problems == ()
            assert len(walks) >= before
            before = len(walks)
            for walk in walks:
                assert_same(walk, make_walk(int(walk.walk_id.removeprefix("anna-"))))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert_holds(path, [make_walk(n) for n in range(60)])


def test_a_walk_that_another_program_added_is_found(store: WalkStore) -> None:
    reader = WalkStore.open(store.path)
    store.add(make_walk(1))
    assert_same(reader.load("anna-1"), make_walk(1))
    with pytest.raises(DataError, match=r"expected a walk of the store .*'nobody-1'"):
        reader.load("nobody-1")


# --- alignments, residents, CSV --------------------------------------------------------------------------------------


def test_alignments_are_kept_beside_the_walk_and_can_be_replaced(store: WalkStore) -> None:
    walk = make_walk(1)
    store.add(walk)
    assert store.alignment("anna-1") is None
    match = MatchResult(Pose2(1, 2, 0.5), True, 7, 0.9, 0.03, np.diag([1.0, 2.0, 3.0]))
    for x, accepted in ((1.0, False), (5.0, True)):
        store.set_alignment(Alignment("anna-1", Pose2(x, 2, 0.5), match, accepted, "tried"))
    kept = WalkStore.open(store.path).alignment("anna-1")
    assert kept is not None
    assert (kept.T_house_walk, kept.accepted, kept.reason) == (Pose2(5.0, 2, 0.5), True, "tried")
    assert kept.match is not None
    np.testing.assert_array_equal(kept.match.information, match.information)
    assert_same(store.load("anna-1"), walk)
    (placed,) = store.placed_walks()
    np.testing.assert_allclose(placed.poses, walk.placed(Pose2(5.0, 2, 0.5)).poses)


def test_walks_that_were_not_placed_are_left_out(store: WalkStore) -> None:
    store.add_all([make_walk(n) for n in range(3)])
    store.set_alignment(Alignment("anna-0", Pose2(), None, False, "too few points"))
    store.set_alignment(Alignment("anna-1", Pose2(), None, True, ""))
    assert [w.walk_id for w in store.placed_walks()] == ["anna-1"]
    with pytest.raises(DataError, match="'ben-1'"):
        store.set_alignment(Alignment("ben-1", Pose2(), None, True, ""))


def test_deleting_a_resident_leaves_no_trace_of_them(store: WalkStore) -> None:
    anna, ben = [make_walk(n) for n in range(3)], [make_walk(n, "ben") for n in range(3, 5)]
    store.add_all(anna + ben)
    store.set_alignments([Alignment(w.walk_id, Pose2(), None, True, "") for w in anna + ben])
    rotten = store.path / "walks" / "anna-2.walk"
    rotten.write_bytes(rotten.read_bytes()[:-3])
    unknown = store.path / "walks" / "rubbish.walk"
    unknown.write_bytes(b"rubbish")
    deleted = store.delete_resident("anna")
    assert deleted.walks == 3
    assert deleted.unreadable == (unknown,)
    unknown.unlink()
    assert_holds(store.path, ben)
    assert b"anna" not in b"".join(p.name.encode() + p.read_bytes() for p in store.path.rglob("*") if p.is_file())
    with pytest.raises(DataError, match="expected a resident among ben, got 'anna'"):
        store.delete_resident("anna")
    store.add_all(anna)  # and they may come back
    assert_holds(store.path, anna + ben)


def test_csv_goes_in_and_comes_out(store: WalkStore, tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("walk_id,t,x,y,resident\na,1,0,0,ben\na,2,1,0,ben\nb,5,2,2,anna\nb,6.5,2,3,anna\n")
    assert store.import_csv(source) == 2
    assert store.import_csv(source) == 0
    assert store.residents == ("anna", "ben")
    assert store.export_csv(target) == 2
    for one, other in zip(read_walks_csv(source), read_walks_csv(target), strict=True):
        assert_same(one, other)


def test_raw_export_holds_walks_that_were_never_placed(store: WalkStore, tmp_path: Path) -> None:
    store.add(make_walk(1))
    assert store.export_csv(tmp_path / "placed.csv") == 0
    assert store.export_csv(tmp_path / "raw.csv", raw=True) == 1
    np.testing.assert_array_equal(read_walks_csv(tmp_path / "raw.csv")[0].xy, make_walk(1).xy)


def test_a_bad_csv_changes_nothing(store: WalkStore, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("walk_id,t,x,y\na,1,0,0\na,2,1,0\nb,5,2,2\n")
    with pytest.raises(DataError, match="one point"):
        store.import_csv(source)
    assert_holds(store.path, [])


# --- folders that are no store ---------------------------------------------------------------------------------------


def test_a_folder_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    (tmp_path / "file").touch()
    for call, name, sentence in (
        (WalkStore.open, "nothing", "got no folder"),
        (WalkStore.open, "photos", "which has a file store.json"),
        (WalkStore.create, "photos", "holds 'cat.jpg'"),
        (WalkStore.create, "file", "got a file"),
    ):
        with pytest.raises(DataError, match=sentence):
            call(tmp_path / name)
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["cat.jpg"]
    assert not is_store(tmp_path / "photos")


def test_a_store_of_another_schema_or_frame_is_refused(store: WalkStore) -> None:
    store.add(make_walk(1))
    with pytest.raises(DataError, match="frame 'odom', got 'map'"):
        WalkStore.create(store.path, frame="odom")
    sheet = store.path / "store.json"
    good = sheet.read_text()
    for text, sentence in (
        (json.dumps({**json.loads(good), "schema": 2}), "schema 2: expected 1"),
        (json.dumps({"format": "other"}), "got something else"),
        (good[:-3], "damaged"),
    ):
        sheet.write_text(text)
        for call in (WalkStore.open, WalkStore.create):
            with pytest.raises(DataError, match=sentence):
                call(store.path)
    sheet.write_text(good)
    assert_holds(store.path, [make_walk(1)])


def test_the_format_can_be_read_with_a_few_lines(store: WalkStore) -> None:
    """As the documentation of the format says."""
    walk = make_walk(1)
    store.add(walk)
    magic, head, body = (store.path / "walks" / "anna-1.walk").read_bytes().split(b"\n", 2)
    assert magic == b"svfm_ros walk"
    at, arrays = 0, {}
    for name, kind, shape in json.loads(head)["arrays"]:
        arrays[name] = np.frombuffer(body, kind, int(np.prod(shape)), at).reshape(shape)
        at += arrays[name].nbytes
    np.testing.assert_array_equal(arrays["poses"], walk.poses)
    assert_same(decode_walk(encode_walk(walk), "memory"), walk)
