"""Stores that somebody wrote into who knows how checksums are made: a bad walk costs only itself."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks import walk_rows
from svfm_ros.walks.walk_store import WalkStore

STAMPS_NS = 1_763_330_000_000_000_000 + np.arange(4) * 100_000_000


def make_walk(number: int) -> Walk:
    poses = np.random.default_rng(number).normal(size=(4, 3))
    return Walk(f"anna-{number}", "anna", STAMPS_NS + number * 60_000_000_000, poses)


def accept(*walks: Walk) -> list[Alignment]:
    return [Alignment(w.walk_id, Pose2(), None, True, "") for w in walks]


@pytest.fixture
def store(tmp_path: Path) -> WalkStore:
    return WalkStore.create(tmp_path / "store")


def test_a_walk_with_a_right_checksum_is_looked_at_all_the_same(store: WalkStore) -> None:
    """Whoever writes into the file knows how checksums are made."""
    walk, other = make_walk(1), make_walk(2)
    for wrong, reason in (
        (replace(walk, poses=np.full_like(walk.poses, np.nan)), "finite poses"),
        (replace(walk, stamps_ns=walk.stamps_ns[::-1].copy()), "stamps that increase"),
        (replace(walk, stamps_ns=walk.stamps_ns[:1], poses=walk.poses[:1]), "at least two stamps"),
    ):
        shutil.rmtree(store.path)
        WalkStore.create(store.path).add_all([walk, other])
        track, entry = walk_rows.track_of(wrong), walk_rows.entry_of(wrong)
        with closing(sqlite3.connect(store.path / "walks.sqlite")) as db:
            where = (walk.walk_id,)
            counts = (entry.start_ns, entry.end_ns, entry.poses, entry.points)
            db.execute("UPDATE walks SET start_ns=?, end_ns=?, poses=?, points=? WHERE walk_id=?", counts + where)
            arrays = (track.crc32, track.stamps_ns, track.poses)
            one = "(SELECT number FROM walks WHERE walk_id=?)"
            db.execute(f"UPDATE tracks SET crc32=?, stamps_ns=?, poses=? WHERE number={one}", arrays + where)
            db.commit()
        opened = WalkStore.open(store.path)
        assert [w.walk_id for w in opened.walks()] == [other.walk_id]
        assert reason in opened.problems[0].reason


@pytest.mark.parametrize("match", ["{", "[]", "null ", '{"T_target_source": "ab"}', "[" * 100_000])
def test_a_match_that_is_none_costs_only_its_walk(store: WalkStore, match: str) -> None:
    walks = [make_walk(1), make_walk(2)]
    store.add_all(walks)
    store.set_alignments(accept(*walks))
    row = (*walk_rows.alignment_row(accept(walks[0])[0])[1:-1], match)
    crc32 = walk_rows._row_checksum(walks[0].walk_id, row)
    with closing(sqlite3.connect(store.path / "walks.sqlite")) as db:
        db.execute("UPDATE alignments SET crc32=?, match=? WHERE number = 1", (crc32, match))
        db.commit()
    opened = WalkStore.open(store.path)
    assert [w.walk_id for w in opened.aligned_walks()] == [walks[1].walk_id]
    assert "cannot be read" in opened.problems[0].reason


def test_values_of_other_types_cost_only_their_walk(store: WalkStore) -> None:
    """SQLite checks types when it writes, not when it reads."""
    for statement in (
        "UPDATE tracks SET poses = 'text' WHERE number = 1",
        "UPDATE tracks SET stamps_ns = 5 WHERE number = 1",
        "UPDATE tracks SET covariance = 'text' WHERE number = 1",
        "UPDATE walks SET resident = x'00ff' WHERE number = 1",
        "UPDATE walks SET start_ns = 'soon' WHERE number = 1",
    ):
        shutil.rmtree(store.path)
        WalkStore.create(store.path).add_all([make_walk(1), make_walk(2)])
        kept = "PRAGMA writable_schema = ON"
        change = "UPDATE sqlite_schema SET sql = replace(sql, '{}', '{}') WHERE type = 'table'"
        for statements in (
            (kept, change.format(") STRICT", ")")),
            (statement,),
            (kept, change.format("\n)", "\n) STRICT")),
        ):
            with closing(sqlite3.connect(store.path / "walks.sqlite")) as db:
                for one in statements:
                    db.execute(one)
                db.commit()
        opened = WalkStore.open(store.path)
        assert [w.walk_id for w in opened.walks()] == ["anna-2"]
        assert len(opened.problems) == 1
