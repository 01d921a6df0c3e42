"""Files of every kind that hypothesis writes: each command answers with a sentence or a result, and loses no file.

A minute in all, a part of it for each kind of file. Sound files are changed at random places, cut off and joined,
because files of random bytes alone are refused at their first line.
"""

import io
import itertools
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ask_svfm import ask, contents, put
from bad_files import CSV, HOUSE, PICTURE, place, sheet
from bagmaker import scans, write_bag
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from tinymodel import fill_store, save_tiny, walks

pytestmark = pytest.mark.slow

SECONDS = 60.0

WORDS = ("", "null", "[]", "x", "1e400")
Change = tuple[list[tuple[float, bytes]], float, bytes]
Changed = st.tuples(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8)), max_size=8),
    st.floats(0, 1),
    st.binary(max_size=20),
)
"""Bytes to write at places of a file, the share of it that is kept, and what is appended."""


def change(data: bytes, how: Change) -> bytes:
    changed = bytearray(data)
    for at, piece in how[0]:
        begin = int(at * len(data))
        changed[begin : begin + len(piece)] = piece
    kept = len(changed) if how[1] > 0.5 else int(2 * how[1] * len(changed))
    return bytes(changed[:kept]) + how[2]


def text_with(data: bytes, number: float, word: str, at: float) -> bytes:
    """A text file in which one number is another one or a word."""
    found = list(re.finditer(rb"-?\d[\d.]*", data))
    hit = found[int(at * len(found))]
    return data[: hit.start()] + (word.encode() if word else repr(number).encode()) + data[hit.end() :]


def mcap(folder: Path) -> bytes:
    write_bag(folder / "bag", scans(6))
    return next((folder / "bag").glob("*.mcap")).read_bytes()


def store_file(folder: Path) -> bytes:
    return (fill_store(folder / "made", walks(3)).path / "walks.sqlite").read_bytes()


def model_file(folder: Path) -> bytes:
    return save_tiny(folder / "made.pt").read_bytes()


def npz(_: Path) -> bytes:
    buffer = io.BytesIO()
    shared = {"angle_min": -3.0, "angle_step": 0.1, "range_min": 0.1, "range_max": 9.0}
    np.savez(buffer, stamps_ns=np.arange(3) * 10**8, ranges=np.ones((3, 60), np.float32), **shared)  # type: ignore[arg-type]
    return buffer.getvalue()


KINDS: dict[str, tuple[str, str, bytes | Callable[[Path], bytes]]] = {
    "CSV": ("a.csv", "store {here}/new --import {here}/a.csv", CSV.encode()),
    "map": ("a.yaml", "forecast --model {good}/model.pt --at 1,0 --map {here}/a.yaml", sheet().encode()),
    "picture": ("a.pgm", "forecast --model {good}/model.pt --at 1,0 --map {here}/map.yaml", PICTURE),
    "places": ("a.yaml", "forecast --model {good}/model.pt --at 1,0 --places {here}/a.yaml", place().encode()),
    "house": ("a.yaml", "simulate --house {here}/a.yaml --export-map {here}/m.yaml", HOUSE.encode()),
    "model": ("a.pt", "forecast --model {here}/a.pt --at 1,0 --time 2026-11-16T10:00", model_file),
    "walks": ("s/walks.sqlite", "store {here}/s --export {here}/out.csv", store_file),
    "bag": ("a.mcap", "slam {here}/a.mcap --out {here}/m", mcap),
    "archive": ("a.npz", "slam {here}/a.npz --out {here}/m", npz),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    save_tiny(folder / "model.pt")
    fill_store(folder / "store", walks(3))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_no_traceback_no_hang_no_file_lost(
    kind: str, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    name, command, source = KINDS[kind]
    sound = source(tmp_path) if callable(source) else source
    end_s, kept = time.monotonic() + SECONDS / len(KINDS), contents(good)
    asked = 0

    def ask_once(how: Change, number: float, word: str, at: float) -> None:
        nonlocal asked
        is_text = name.endswith((".csv", ".yaml"))
        data = change(
            text_with(sound, number, word, at) if is_text and at > 0.3 else sound, how if at < 0.6 else ([], 1.0, b"")
        )
        here = tmp_path / str(asked)
        asked += 1
        put(here, {name: data, **({"map.yaml": sheet()} if kind == "picture" else {})})
        code, _, err = ask(command.replace("{good}", str(good)).replace("{here}", str(here)))
        assert code in (0, 1, 2), (err, json.dumps(data.decode("latin-1")))
        assert "Traceback" not in err
        if kind != "walks":  # SQLite may put a damaged log in order
            assert (here / name).read_bytes() == data

    draws = given(how=Changed, number=st.floats(), word=st.sampled_from(WORDS), at=st.floats(0, 0.999))
    some = settings(max_examples=20, phases=(Phase.generate,), database=None)
    for batch in itertools.count():
        if time.monotonic() > end_s:
            break

        @seed(batch)
        @some
        @draws
        def ask_some(how: Change, number: float, word: str, at: float) -> None:
            ask_once(how, number, word, at)

        ask_some()
    assert asked > 5
    assert contents(good) == kept
