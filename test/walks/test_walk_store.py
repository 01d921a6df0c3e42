"""A store keeps what it was given, through power cuts, second programs and damaged files."""

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlite_powercut import SETTLED, power_cut

from svfm_ros.errors import DataError, StoreUnavailableError
from svfm_ros.types import Alignment, MatchResult, Pose2, Walk
from svfm_ros.walks.store_database import StoreDatabase
from svfm_ros.walks.walk_csv import read_walks_csv
from svfm_ros.walks.walk_store import WalkStore, is_store

S = 1_000_000_000
T0 = 1_763_330_000 * S


def make_walk(number: int, resident: str = "anna", poses: int = 4, points: int = 3) -> Walk:
    rng = np.random.default_rng(number)
    stamps = T0 + number * 60 * S + np.arange(poses) * S // 10
    seen = rng.normal(size=(points, 2)).astype(np.float32).astype(float)
    return Walk(f"{resident}-{number}", resident, stamps, rng.normal(size=(poses, 3)), seen)


def with_covariance(walk: Walk) -> Walk:
    half = np.random.default_rng(1).normal(size=(len(walk.poses), 3, 3))
    return replace(walk, covariance=(half @ half.transpose(0, 2, 1)).astype(np.float32).astype(float))


def assert_same(one: Walk, other: Walk) -> None:
    assert (one.walk_id, one.resident, one.schema) == (other.walk_id, other.resident, other.schema)
    np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
    np.testing.assert_array_equal(one.poses, other.poses)
    np.testing.assert_array_equal(one.points, other.points)
    assert (one.covariance is None) == (other.covariance is None)
    if one.covariance is not None and other.covariance is not None:
        np.testing.assert_array_equal(one.covariance, other.covariance)


def accept(*walks: Walk, x: float = 0.0) -> list[Alignment]:
    return [Alignment(w.walk_id, Pose2(x, 0, 0), None, True, "") for w in walks]


def assert_holds(path: Path, walks: list[Walk]) -> None:
    """Opened anew, the store has these walks and no other, all whole, and no complaint."""
    store = WalkStore.open(path)
    assert store.walk_ids == tuple(w.walk_id for w in walks)
    for walk in walks:
        assert_same(store.load(walk.walk_id), walk)
    assert store.problems == ()


@pytest.fixture
def ram(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: syncing a disk thousands of times takes minutes."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory)) if os.access(memory, os.W_OK) else tmp_path
    yield folder
    shutil.rmtree(folder)


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


READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c '
import sys
from svfm_ros.walks.walk_store import WalkStore
print(*sorted(w.walk_id for w in WalkStore.open(sys.argv[1]).walks()))
' "$1"
"""


def test_a_store_on_a_medium_that_nobody_can_write_to_is_read(store: WalkStore) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs the right to make a mount namespace")
    store.add(make_walk(1))
    command = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", str(store.path), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("anna-1\n", 0), done.stderr


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=300), st.text(min_size=1), st.integers(2, 30), st.integers(0, 30))
def test_any_name_and_size_is_kept(ram: Path, walk_id: str, resident: str, poses: int, points: int) -> None:
    shutil.rmtree(ram / "any", ignore_errors=True)
    store = WalkStore.create(ram / "any")
    drawn = make_walk(1, poses=poses, points=points)
    walk = Walk(walk_id, resident, drawn.stamps_ns, drawn.poses, drawn.points)
    store.add(walk)
    assert_holds(store.path, [walk])
    store.set_alignment(Alignment(walk_id, Pose2(1, 2, 3), None, True, ""))
    alignment = WalkStore.open(store.path).alignment(walk_id)
    assert alignment is not None
    assert alignment.T_house_walk == Pose2(1, 2, 3)


def test_the_covariance_of_poses_is_kept_and_turned_with_the_walk(store: WalkStore) -> None:
    walks = [with_covariance(make_walk(1)), make_walk(2)]
    store.add_all(walks)
    assert_holds(store.path, walks)
    store.set_alignment(Alignment("anna-1", Pose2(1, 2, np.pi / 2), None, True, ""))
    (placed,) = store.aligned_walks()
    assert placed.covariance is not None
    assert walks[0].covariance is not None
    np.testing.assert_allclose(placed.covariance[:, 0, 0], walks[0].covariance[:, 1, 1])
    np.testing.assert_allclose(placed.covariance[:, 0, 1], -walks[0].covariance[:, 0, 1], atol=1e-12)


def test_the_same_walk_again_changes_nothing_and_another_of_its_id_is_refused(store: WalkStore) -> None:
    walk, other = make_walk(1), make_walk(2)
    assert store.add(walk)
    assert not store.add(walk)
    impostor = Walk(walk.walk_id, walk.resident, other.stamps_ns, other.poses)
    with pytest.raises(DataError, match="already holds another walk 'anna-1'"):
        store.add_all([make_walk(3), impostor])
    assert_holds(store.path, [walk])


def test_duplicates_are_counted_whatever_their_id(store: WalkStore, tmp_path: Path) -> None:
    walk, other = make_walk(1), make_walk(2)
    assert store.add_all([walk, replace(walk, walk_id="copy"), other, other]) == 2
    assert_holds(store.path, [walk, other])
    assert store.add_all([replace(walk, resident="ben", walk_id="ben-1")]) == 1  # another person's claim
    rows = "walk_id,t,x,y\n" + "".join(f"{i},{t},{t},0\n" for i in ("a", "b") for t in (1, 2))
    (tmp_path / "in.csv").write_text(rows)
    added = store.import_walks(read_walks_csv(tmp_path / "in.csv"))
    assert (added.new, added.duplicates) == (1, 1)


def test_broken_walks_are_refused_before_anything_is_written(store: WalkStore) -> None:
    good = make_walk(1)
    bad = {
        "at least two stamps": Walk("b", "anna", good.stamps_ns[:1], good.poses[:1]),
        "poses \\(T, 3\\)": Walk("b", "anna", good.stamps_ns, good.poses[:, :2]),
        "increase": Walk("b", "anna", good.stamps_ns[::-1], good.poses),
        "finite": Walk("b", "anna", good.stamps_ns, good.poses * np.nan),
        "an id and a resident": Walk("", "anna", good.stamps_ns, good.poses),
        "schema 1, got 7": Walk("b", "anna", good.stamps_ns, good.poses, schema=7),
        "in Unicode": Walk("b\ud800", "anna", good.stamps_ns, good.poses),
        "covariances \\(4, 3, 3\\)": replace(good, walk_id="b", covariance=np.zeros((4, 3))),
        "finite covariances": replace(good, walk_id="b", covariance=np.full((4, 3, 3), np.inf)),
    }
    for sentence, walk in bad.items():
        with pytest.raises(DataError, match=sentence):
            store.add_all([good, walk])
    assert_holds(store.path, [])


# --- power cuts ------------------------------------------------------------------------------------------------------


def cut_everywhere(
    tmp_path: Path, prepare: Callable[[Path], object], act: Callable[[Path], object]
) -> Iterator[tuple[Path, bool]]:
    """The folders left by a power cut at each write, sync and delete of ``act``, and whether it returned."""
    before = tmp_path / "before"
    prepare(before)
    moment, is_whole = 0, False
    while not is_whole:
        moment += 1
        for mode in SETTLED:
            for names_last in (True, False):
                path = tmp_path / f"{moment}-{mode}-{names_last}"
                if before.exists():
                    shutil.copytree(before, path)
                with power_cut(moment) as disk:
                    try:
                        act(path)
                        returned = True
                    except DataError:
                        returned = False
                disk.settle(mode, names_last)
                yield path, returned
                is_whole = not disk.has_failed
    assert moment >= 6


def test_a_power_cut_at_any_moment_of_adding_loses_nothing(ram: Path) -> None:
    old, new = make_walk(1), make_walk(2)

    def act(path: Path) -> None:
        WalkStore.open(path).add(new)

    for path, returned in cut_everywhere(ram, lambda path: WalkStore.create(path).add(old), act):
        kept = new.walk_id in WalkStore.open(path)
        assert kept or not returned
        assert_holds(path, [old, new] if kept else [old])
        assert WalkStore.open(path).add(new) == (not kept)
        assert_holds(path, [old, new])


def test_a_power_cut_while_many_are_added_leaves_all_or_none(ram: Path) -> None:
    walks = [make_walk(n) for n in range(20)]

    def act(path: Path) -> None:
        WalkStore.open(path).add_all(walks)

    for path, returned in cut_everywhere(ram, WalkStore.create, act):
        found = WalkStore.open(path).walk_ids
        assert len(found) in ((20,) if returned else (0, 20))
        assert_holds(path, walks if found else [])


def test_a_power_cut_at_any_moment_of_aligning_leaves_the_old_or_the_new(ram: Path) -> None:
    walk = make_walk(1)
    (old,), (new,) = accept(walk, x=1.0), accept(walk, x=2.0)

    def prepare(path: Path) -> None:
        store = WalkStore.create(path)
        store.add(walk)
        store.set_alignment(old)

    found = set()
    for path, returned in cut_everywhere(ram, prepare, lambda path: WalkStore.open(path).set_alignment(new)):
        alignment = WalkStore.open(path).alignment(walk.walk_id)
        assert alignment == new or (alignment == old and not returned)
        found.add(alignment.T_house_walk.x)
    assert found == {1.0, 2.0}


def test_a_power_cut_while_a_store_is_made_leaves_none_or_a_whole_one(ram: Path) -> None:
    for path, _ in cut_everywhere(ram, lambda path: None, WalkStore.create):
        WalkStore.create(path).add(make_walk(1))
        assert_holds(path, [make_walk(1)])


def test_a_power_cut_while_deleting_can_be_repeated(ram: Path) -> None:
    anna, ben = [make_walk(n) for n in range(3)], [make_walk(9, "ben")]

    def prepare(path: Path) -> None:
        store = WalkStore.create(path)
        store.add_all(anna + ben)
        store.set_alignments(accept(*anna, *ben))

    for path, returned in cut_everywhere(ram, prepare, lambda path: WalkStore.open(path).delete_resident("anna")):
        store = WalkStore.open(path)
        assert not (returned and "anna" in store.residents)
        if "anna" in store.residents:
            store.delete_resident("anna")
        assert_holds(path, ben)
        assert returned <= (b"anna" not in bytes_of(path))


def bytes_of(folder: Path) -> bytes:
    """The names and contents of all files below a folder."""
    return b"".join(p.name.encode() + p.read_bytes() for p in folder.rglob("*") if p.is_file())


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
        assert [p.name for p in path.iterdir()] == ["walks.sqlite"]


# --- damaged files ---------------------------------------------------------------------------------------------------


def damaged_by(store: WalkStore, statement: str) -> WalkStore:
    """The store opened again after somebody changed its tables."""
    with closing(sqlite3.connect(store.path / "walks.sqlite")) as db, db:
        db.execute(statement)
    return WalkStore.open(store.path)


def test_a_byte_changed_anywhere_is_never_taken_for_a_walk(store: WalkStore) -> None:
    walks = {w.walk_id: w for w in (make_walk(1, poses=20), make_walk(2, poses=20), make_walk(3, "ben"))}
    store.add_all(list(walks.values()))
    store.set_alignments(accept(*walks.values()))
    path = store.path / "walks.sqlite"
    whole = path.read_bytes()
    for at in np.random.default_rng(0).choice(len(whole), 400, replace=False).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        try:
            opened = WalkStore.open(store.path)
            found, placed = list(opened.walks()), list(opened.aligned_walks())
        except DataError:
            continue
        for walk in found:
            assert_same(walk, walks[walk.walk_id])
        for walk in placed:
            np.testing.assert_allclose(walk.xy, walks[walk.walk_id].xy)
    path.write_bytes(whole)
    assert_holds(store.path, list(walks.values()))


def test_a_file_cut_short_is_damaged_or_holds_whole_walks(store: WalkStore) -> None:
    walks = {w.walk_id: w for w in (make_walk(1, points=900), make_walk(2, points=900))}
    store.add_all(list(walks.values()))
    path = store.path / "walks.sqlite"
    whole = path.read_bytes()
    for length in range(1, len(whole), 997):
        path.write_bytes(whole[:length])
        try:
            found = list(WalkStore.open(store.path).walks())
        except DataError:
            continue
        for walk in found:
            assert_same(walk, walks[walk.walk_id])


def test_a_damaged_page_costs_only_the_walks_that_lie_on_it(store: WalkStore, tmp_path: Path) -> None:
    walks = [make_walk(n, points=20) for n in range(200)]
    store.add_all(walks)
    store.set_alignments(accept(*walks))
    path = store.path / "walks.sqlite"
    whole = path.read_bytes()
    lost = []
    for page in range(1, len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + bytes([0xFF]) * 4096 + whole[(page + 1) * 4096 :])
        try:
            opened = WalkStore.open(store.path)
            found = list(opened.walks())
        except DataError:
            found = []
        lost.append(len(walks) - len(found))
    assert np.mean(np.array(lost) < 60) > 0.7
    path.write_bytes(whole)
    assert_holds(store.path, walks)


def test_a_walk_that_comes_in_again_replaces_a_damaged_one_and_keeps_its_alignment(store: WalkStore) -> None:
    walk = make_walk(1)
    store.add(walk)
    store.set_alignments(accept(walk, x=5.0))
    opened = damaged_by(store, "UPDATE tracks SET points = x'00'")
    with pytest.raises(DataError, match="'anna-1' is damaged: its checksum"):
        opened.load("anna-1")
    assert list(opened.walks()) == []
    assert [p.walk_id for p in opened.problems] == ["anna-1"]
    assert opened.add(walk)
    assert opened.problems == ()
    assert_holds(store.path, [walk])
    alignment = opened.alignment("anna-1")
    assert alignment is not None
    assert alignment.T_house_walk.x == 5.0
    opened = damaged_by(store, "UPDATE tracks SET poses = x'00'")
    assert opened.add(replace(walk, walk_id="again"))  # also under another id
    assert_holds(store.path, [replace(walk, walk_id="again")])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (sqlite3.SQLITE_FULL, "cannot write in the store .*: the disk is full"),
        (sqlite3.SQLITE_BUSY, "another program has held it for 60 s"),
        (sqlite3.SQLITE_READONLY, "cannot write in the store .*: reason"),
    ],
)
def test_a_store_that_cannot_be_written_to_now_says_why(store: WalkStore, code: int, said: str) -> None:
    error = sqlite3.OperationalError("reason")
    error.sqlite_errorcode = code
    with pytest.raises(StoreUnavailableError, match=said), store._database.writing():
        raise error


def test_one_bad_row_does_not_block_the_store(store: WalkStore) -> None:
    walks = [make_walk(n) for n in range(3)]
    for statement, reason in (
        ("UPDATE walks SET resident = CAST(x'ff' AS TEXT) WHERE number = 1", "checksum"),
        ("UPDATE walks SET start_ns = 0 WHERE number = 1", "checksum"),
        ("UPDATE tracks SET schema = 2 WHERE number = 1", "schema 2: expected 1"),
        ("DELETE FROM tracks WHERE number = 1", "track is missing"),
    ):
        shutil.rmtree(store.path)
        WalkStore.create(store.path).add_all(walks)
        opened = damaged_by(store, statement)
        assert [w.walk_id for w in opened.walks()] == ["anna-1", "anna-2"]
        assert reason in opened.problems[0].reason


def test_a_damaged_alignment_is_said_and_the_walk_left_out(store: WalkStore) -> None:
    walks = [make_walk(1), make_walk(2)]
    store.add_all(walks)
    store.set_alignments(accept(*walks))
    opened = damaged_by(store, "UPDATE alignments SET x = 0.5 WHERE number = 1")
    with pytest.raises(DataError, match="checksum"):
        opened.alignment("anna-1")
    assert [w.walk_id for w in opened.aligned_walks()] == ["anna-2"]
    assert [p.walk_id for p in opened.problems] == ["anna-1"]


def test_a_store_that_cannot_be_written_can_be_read(store: WalkStore) -> None:
    store.add(make_walk(1))
    (store.path / "walks.sqlite-shm").mkdir()  # nobody can open this as a file
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
    (placed,) = store.aligned_walks()
    np.testing.assert_allclose(placed.poses, walk.in_house(Pose2(5.0, 2, 0.5)).poses)


def test_walks_that_were_not_placed_are_left_out(store: WalkStore) -> None:
    store.add_all([make_walk(n) for n in range(3)])
    store.set_alignment(Alignment("anna-0", Pose2(), None, False, "too few points"))
    store.set_alignment(Alignment("anna-1", Pose2(), None, True, ""))
    assert [w.walk_id for w in store.aligned_walks()] == ["anna-1"]
    with pytest.raises(DataError, match="'ben-1'"):
        store.set_alignment(Alignment("ben-1", Pose2(), None, True, ""))


def test_deleting_a_resident_leaves_no_trace_of_them(store: WalkStore) -> None:
    anna, ben = [make_walk(n, points=900) for n in range(30)], [make_walk(n, "ben") for n in range(30, 35)]
    store.add_all(anna + ben)
    store.set_alignments(accept(*anna, *ben))
    track = anna[3].poses.tobytes()
    assert track in bytes_of(store.path)
    deleted = store.delete_resident("anna")
    assert (deleted.walks, deleted.erased) == (30, True)
    assert_holds(store.path, ben)
    assert not [w for w in (b"anna", track, *(w.poses[0].tobytes() for w in anna)) if w in bytes_of(store.path)]
    with pytest.raises(DataError, match="expected a resident among ben, got 'anna'"):
        store.delete_resident("anna")
    store.add_all(anna)  # and they may come back
    assert_holds(store.path, anna + ben)


def test_csv_goes_in_and_comes_out(store: WalkStore, tmp_path: Path) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("walk_id,t,x,y,resident\na,1,0,0,ben\na,2,1,0,ben\nb,5,2,2,anna\nb,6.5,2,3,anna\n")
    assert store.import_walks(read_walks_csv(source)).new == 2
    again = store.import_walks(read_walks_csv(source))
    assert (again.new, again.duplicates) == (0, 2)
    assert store.residents == ("anna", "ben")
    assert store.export_csv(target).walks == 2
    for one, other in zip(read_walks_csv(source), read_walks_csv(target), strict=True):
        assert_same(one, other)


def test_an_export_leaves_out_walks_that_are_not_aligned(store: WalkStore, tmp_path: Path) -> None:
    store.add(make_walk(1))
    assert store.export_csv(tmp_path / "out.csv").walks == 0


def test_a_bad_csv_changes_nothing(store: WalkStore, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("walk_id,t,x,y\na,1,0,0\na,2,1,0\nb,5,2,2\n")
    with pytest.raises(DataError, match="one point"):
        store.import_walks(read_walks_csv(source))
    assert_holds(store.path, [])


def test_an_export_while_walks_are_deleted_counts_what_is_missing(store: WalkStore, tmp_path: Path) -> None:
    walks = [make_walk(n, "anna" if n < 50 else "ben") for n in range(100)]
    store.add_all(walks)
    store.set_alignments(accept(*walks))
    placed = WalkStore.open(store.path)
    original = placed.aligned_walks

    def deleted_meanwhile(resident: str | None = None) -> Iterator[Walk]:
        for n, walk in enumerate(original(resident)):
            if n == 10:
                store.delete_resident("ben")
            yield walk

    placed.aligned_walks = deleted_meanwhile  # type: ignore[method-assign]
    done = placed.export_csv(tmp_path / "out.csv")
    assert done.expected == 100
    assert 50 <= done.walks < 100
    assert len(read_walks_csv(tmp_path / "out.csv")) == done.walks


def test_an_export_holds_what_another_program_has_added(tmp_path: Path) -> None:
    here = WalkStore.create(tmp_path / "store")
    WalkStore.open(here.path).import_walks([make_walk(1)])
    done = here.export_csv(tmp_path / "out.csv")
    assert (done.walks, done.expected) == (1, 1)


# --- other folders and formats ---------------------------------------------------------------------------------------


def test_a_folder_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    (tmp_path / "file").touch()
    for call, name, sentence in (
        (WalkStore.open, "nothing", "got no folder"),
        (WalkStore.open, "photos", "which has a file walks.sqlite"),
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
    for setting, sentence in (("user_version = 2", "schema 2: expected 1"), ("application_id = 0", "another SQLite")):
        with pytest.raises(DataError, match=sentence):
            damaged_by(store, f"PRAGMA {setting}")
    with pytest.raises(DataError, match="another SQLite"):
        WalkStore.create(store.path)


def test_only_the_owner_can_look_into_a_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "new" / "store"
    WalkStore.create(path).add(make_walk(1))
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, path / "walks.sqlite", path.parent)]
    assert modes == [0o700, 0o600, 0o700]
    assert "others" not in caplog.text
    path.chmod(0o755)
    (path / "walks.sqlite").chmod(0o644)
    WalkStore.open(path)
    assert f"chmod -R go= {path}" in caplog.text


def old_store(folder: Path, walks: list[Walk], alignments: list[Alignment]) -> Path:
    """A store as it was before: a folder of files."""
    for name in ("walks", "alignments", "aside", "parts"):
        (folder / name).mkdir(parents=True)
    (folder / "store.json").write_text(json.dumps({"format": "svfm_ros walk store", "schema": 1, "frame": "attic"}))
    (folder / "catalogue").write_bytes(b"anything")
    for walk in walks:
        arrays = [("stamps_ns", "<i8"), ("poses", "<f8"), ("points", "<f4")]
        shapes = [[name, kind, list(getattr(walk, name).shape)] for name, kind in arrays]
        head = {"schema": 1, "walk_id": walk.walk_id, "resident": walk.resident, "start_ns": 0, "end_ns": 1}
        data = b"".join(np.ascontiguousarray(getattr(walk, name), kind).tobytes() for name, kind in arrays)
        body = b"svfm_ros walk\n" + json.dumps({**head, "arrays": shapes}).encode() + b"\n" + data
        (folder / "walks" / f"{walk.walk_id}.walk").write_bytes(body + zlib.crc32(body).to_bytes(4, "little"))
    for a in alignments:
        pose = a.T_house_walk.as_array().tolist()
        content = {"schema": 1, "walk_id": a.walk_id, "T_house_walk": pose, "match": None}
        content |= {"accepted": a.accepted, "reason": a.reason}
        crc32 = zlib.crc32(json.dumps(content, sort_keys=True).encode())
        text = json.dumps({"alignment": content, "crc32": crc32}, indent=1)
        (folder / "alignments" / f"{a.walk_id}.json").write_text(text)
    return folder


def test_a_store_of_the_earlier_format_is_imported(tmp_path: Path) -> None:
    walks = [make_walk(n) for n in range(4)]
    old = old_store(tmp_path / "old", walks, accept(*walks[:3], x=2.0))
    for call in (WalkStore.open, WalkStore.create):
        with pytest.raises(DataError, match=f"earlier format: .* svfm store NEW --import {old}"):
            call(old)
    damaged = old / "walks" / "anna-1.walk"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (old / "alignments" / "anna-2.json").write_text("[" * 100_000)
    before = bytes_of(old)
    store = WalkStore.create(tmp_path / "new", "attic")
    added = store.import_store(old)
    assert (added.new, added.duplicates) == (3, 0)
    assert [text.partition(" is damaged")[0] for text in added.problems] == [
        str(damaged),
        str(old / "alignments" / "anna-2.json"),
    ]
    assert_holds(store.path, [walks[0], walks[2], walks[3]])
    (placed,) = store.aligned_walks()
    np.testing.assert_allclose(placed.xy, walks[0].xy + np.array([2.0, 0.0]))
    assert store.import_store(old).duplicates == 3
    assert bytes_of(old) == before


def test_walks_of_another_store_are_imported_with_their_alignments(store: WalkStore, tmp_path: Path) -> None:
    walks = [with_covariance(make_walk(n)) for n in range(3)]
    store.add_all(walks)
    store.set_alignments(accept(*walks[:2]))
    other = WalkStore.create(tmp_path / "other")
    other.add(walks[0])
    added = other.import_store(store.path)
    assert (added.new, added.duplicates) == (2, 1)
    assert_holds(other.path, walks)
    assert other.ids_by_alignment(True) == ("anna-0", "anna-1")
    assert other.ids_by_alignment(None) == ("anna-2",)


def test_the_file_can_be_read_with_a_few_lines(store: WalkStore) -> None:
    """As the documentation says."""
    walk = make_walk(1)
    store.add(walk)
    with closing(sqlite3.connect(store.path / "walks.sqlite")) as db:
        query = "SELECT resident, tracks.poses FROM walks JOIN tracks USING (number) WHERE walk_id = 'anna-1'"
        resident, poses = db.execute(query).fetchone()
    assert resident == "anna"
    np.testing.assert_array_equal(np.frombuffer(poses, "<f8").reshape(-1, 3), walk.poses)


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    store = WalkStore.create(tmp_path / "walks", "house")
    with pytest.raises(DataError), StoreDatabase(store.path).reading() as db:
        db.execute("CREATE TABLE other (x)")
