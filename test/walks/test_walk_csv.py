"""Walks as CSV: what is written comes back, and what is wrong is said in one sentence with its line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svfm_ros.errors import DataError
from svfm_ros.types import Walk
from svfm_ros.walks.walk_csv import headings, read_walks_csv, write_walks_csv

GOOD = "walk_id,t,x,y\na,1.5,0,0\na,2.5,1,0\nb,1.0,5,5\nb,2.0,5,6\n"


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "walks.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_plain_file_reads_as_written(tmp_path: Path) -> None:
    a, b = read_walks_csv(write(tmp_path, GOOD), resident="anna")
    assert (a.walk_id, a.resident, b.walk_id) == ("a", "anna", "b")
    np.testing.assert_array_equal(a.stamps_ns, [1_500_000_000, 2_500_000_000])
    np.testing.assert_allclose(a.poses, [[0, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(b.poses, [[5, 5, np.pi / 2], [5, 6, np.pi / 2]])


@pytest.mark.parametrize(
    "text",
    [
        "﻿" + GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\n\n"),
        GOOD.replace(",", ", "),
        "walk_id,y,comment,x,t\n" + "a,0,hello,0,1.5\na,0,,1,2.5\nb,5,,5,1\nb,6,,5,2\n",
        GOOD.replace("a,1.5", '"a",15e-1'),
    ],
    ids=["byte order mark", "windows", "blank lines", "spaces", "other columns and order", "quotes and exponents"],
)
def test_usual_variations_read_the_same(tmp_path: Path, text: str) -> None:
    expected = read_walks_csv(write(tmp_path, GOOD))
    got = read_walks_csv(write(tmp_path, text))
    assert [w.walk_id for w in got] == [w.walk_id for w in expected]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
        np.testing.assert_array_equal(one.poses, other.poses)


def test_residents_are_read_and_empty_cells_take_the_default(tmp_path: Path) -> None:
    path = write(tmp_path, "walk_id,t,x,y,resident\na,1,0,0,ben\na,2,1,0,ben\nb,1,0,0,\nb,2,1,0,\n")
    assert [w.resident for w in read_walks_csv(path, resident="anna")] == ["ben", "anna"]


BAD = {
    "missing column": ("walk_id,t,x\na,1,0\n", "line 1: .*y is not in walk_id,t,x"),
    "semicolons": ("walk_id;t;x;y\na;1;0;0\n", "line 1: .*walk_id is not in walk_id;t;x;y"),
    "column twice": ("walk_id,t,x,y,x\na,1,0,0,0\n", "line 1: expected each column once, got 'x' 2 times"),
    "text in numbers": ("walk_id,t,x,y\na,1,0,0\na,2,left,0\n", "line 3: expected a number in column x, got 'left'"),
    "text in times": ("walk_id,t,x,y\na,noon,0,0\na,2,0,0\n", "line 2: expected a number in column t, got 'noon'"),
    "empty cell": ("walk_id,t,x,y\na,1,0,0\na,2,,0\n", "line 3: expected a number in column x, got ''"),
    "nan": ("walk_id,t,x,y\na,1,0,0\na,2,0,nan\n", "line 3: expected a finite number in column y, got 'nan'"),
    "infinity": ("walk_id,t,x,y\na,inf,0,0\na,2,0,0\n", "line 2: expected a finite number in column t"),
    "times going back": ("walk_id,t,x,y\na,1,0,0\na,3,1,0\na,2,2,0\n", "line 4: .*walk 'a' to increase, got 2 after 3"),
    "time standing": ("walk_id,t,x,y\na,1,0,0\na,1,1,0\n", "line 3: .*increase, got 1 after 1"),
    "milliseconds": ("walk_id,t,x,y\na,1763330000000,0,0\na,1763330000100,0,0\n", "line 2: expected t in Unix seconds"),
    "one point": ("walk_id,t,x,y\na,1,0,0\na,2,0,0\nb,3,0,0\n", "line 4: walk 'b' has one point"),
    "duplicate id": (GOOD + "a,7,0,0\na,8,0,0\n", "line 6: walk 'a' comes back after another walk"),
    "two residents": (
        "walk_id,t,x,y,resident\na,1,0,0,ben\na,2,1,0,anna\n",
        "line 3: walk 'a' belongs to 'ben', got 'anna'",
    ),
    "no id": ("walk_id,t,x,y\n,1,0,0\n,2,0,0\n", "line 2: expected a walk_id"),
    "ragged": ("walk_id,t,x,y\na,1,0,0\na,2,0\n", "line 3: expected 4 values, got 3"),
    "after a blank line": ("walk_id,t,x,y\n\na,1,0,0\n\na,2,zero,0\n", "line 5: expected a number"),
    "empty file": ("", "expected the columns walk_id,t,x,y"),
    "header only": ("walk_id,t,x,y\n", "expected at least one walk"),
    "not text": (b"\xff\xfe\x00w", "not a CSV file in UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_with_its_line(tmp_path: Path, name: str) -> None:
    text, sentence = BAD[name]
    with pytest.raises(DataError, match=sentence) as caught:
        read_walks_csv(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*No such file"):
        read_walks_csv(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match=r"cannot write .*No such file"):
        write_walks_csv([], tmp_path / "nowhere" / "walks.csv")


names = st.text(min_size=1, max_size=12).filter(lambda s: s == s.strip() and s.isprintable())


@st.composite
def walks(draw: st.DrawFn) -> list[Walk]:
    ids = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    return [draw(one_walk(i)) for i in ids]


@st.composite
def one_walk(draw: st.DrawFn, walk_id: str) -> Walk:
    steps = draw(st.lists(st.integers(1, 10**12), min_size=2, max_size=6))
    stamps = draw(st.integers(-(10**18), 10**18)) + np.cumsum(steps, dtype=np.int64)
    coordinate = st.floats(-1e9, 1e9, allow_subnormal=False)
    xy = np.array(draw(st.lists(st.tuples(coordinate, coordinate), min_size=len(steps), max_size=len(steps))))
    return Walk(walk_id, draw(names), stamps, np.column_stack([xy, headings(xy)]))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(walks())
def test_what_is_written_comes_back_to_the_last_digit(tmp_path: Path, written: list[Walk]) -> None:
    path = tmp_path / "round.csv"
    assert write_walks_csv(written, path) == len(written)
    for one, other in zip(read_walks_csv(path), written, strict=True):
        assert (one.walk_id, one.resident) == (other.walk_id, other.resident)
        np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
        np.testing.assert_array_equal(one.poses, other.poses)


def test_walks_without_a_name_are_written_without_the_column(tmp_path: Path) -> None:
    walk = Walk("w", "unknown", np.array([0, 10**9]), np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]))
    write_walks_csv([walk], tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_text() == "walk_id,t,x,y\nw,0.000000000,0.0,0.0\nw,1.000000000,0.5,0.0\n"


def test_the_same_walk_twice_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    walk = read_walks_csv(path)[0]
    with pytest.raises(DataError, match="'a' twice"):
        write_walks_csv([walk, walk], path)
    assert path.read_text() == GOOD
    assert list(tmp_path.iterdir()) == [path]


def test_headings_follow_the_path_and_hold_while_standing() -> None:
    xy = [[0, 0], [0, 0], [1, 0], [1, 0], [1, 1], [1, 1]]
    np.testing.assert_allclose(headings(xy), [0, 0, 0, np.pi / 2, np.pi / 2, np.pi / 2])
    np.testing.assert_allclose(headings([[2, 2], [2, 2]]), [0, 0])
