"""One sentence for every bad store, CSV file and map: a table of what was given and what is said about it."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from svfm_ros.cli.main import main
from svfm_ros.errors import DataError
from svfm_ros.mapio import load_map, save_map
from svfm_ros.types import OccupancyGrid, Walk
from svfm_ros.walks.walk_csv import read_walks_csv
from svfm_ros.walks.walk_store import WalkStore

SHEET = {"image": "a.pgm", "resolution": "0.05", "origin": "[0, 0, 0]"}
PICTURE = b"P5\n2 1\n255\n\x00\xfe"
CSV = "walk_id,t,x,y\na,1,0,0\na,2,1,0\n"


def sheet(**changes: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in {**SHEET, **changes}.items())


MAPS: list[tuple[str, str, bytes, str]] = [
    *(
        (f"resolution {value}", sheet(resolution=value), PICTURE, "expected resolution as a number from 0.0001 to 100")
        for value in ("coarse", "[0.05]", "null", "1e-300", ".inf", ".nan", "-1", "{a: 1}", "1e400", "0")
    ),
    *(
        (f"{key} {value}", sheet(**{key: value}), PICTURE, f"expected {key} as a number from 0 to 1")
        for key in ("occupied_thresh", "free_thresh", "negate")
        for value in ("high", "[0.5]", "null", ".inf", ".nan", "-1", "7")
    ),
    *(
        (f"origin {value}", sheet(origin=value), PICTURE, "expected an origin")
        for value in ("here", "null", "[0, 0]", "[0, 0, x]", "[.nan, 0, 0]", "[.inf, 0, 0]", "[1e300, 0, 0]", "{a: 1}")
    ),
    *(
        (f"image {value}", sheet(image=value), PICTURE, "expected the name of a picture")
        for value in ("null", "[a.pgm]", "3", '""', '"a\\0b"')
    ),
    ("image that is a folder", sheet(image="."), PICTURE, "expected a file, got a folder"),
    ("image that is a device", sheet(image="/dev/zero"), PICTURE, "expected a file, got a device"),
    ("unsupported mode", sheet(mode="raw"), PICTURE, "expected mode trinary, got 'raw'"),
    ("mode that is a list", sheet(mode="[raw]"), PICTURE, "expected mode trinary"),
    ("deep YAML", "[" * 50_000, PICTURE, "not a map_server YAML file"),
    ("binary YAML", "\x00\x01", PICTURE, "not a map_server YAML file"),
    ("empty YAML", "", PICTURE, "image is missing"),
    ("large YAML", "# " + "x" * (1 << 20), PICTURE, "expected at most"),
    ("empty picture", sheet(), b"", "binary PGM"),
    ("header alone", sheet(), b"P5\n2 1\n255\n", "cut off"),
    ("header without its end", sheet(), b"P5\n2 1\n255", "cut off"),
    ("header that stops early", sheet(), b"P5\n2", "binary PGM"),
    ("no pixels", sheet(), b"P5\n0 0\n255\n", "with pixels, got 0 x 0"),
    ("too many digits", sheet(), b"P5\n99999999999999999999 1\n255\n", "with pixels"),
    ("more pixels than bytes", sheet(), b"P5\n99999 99999\n255\n12", "cut off"),
    ("16 bits", sheet(), b"P5\n1 1\n65535\n12", "8 bits"),
    ("plain PGM", sheet(), b"P2\n1 1\n255\n0", "binary PGM"),
    ("comment without an end", sheet(), b"P5 # 2 1 255", "binary PGM"),
]


@pytest.mark.parametrize(("text", "picture", "sentence"), [m[1:] for m in MAPS], ids=[m[0] for m in MAPS])
def test_maps(tmp_path: Path, text: str, picture: bytes, sentence: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "a.pgm").write_bytes(picture)
    with pytest.raises(DataError, match=sentence) as caught:
        load_map(tmp_path / "a.yaml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


CSVS: list[tuple[str, bytes, str]] = [
    ("empty", b"", "line 1: expected the columns"),
    ("header alone", b"walk_id,t,x,y\n", "header and nothing else"),
    ("binary", b"\xff\xfe\x00", "not a CSV file in UTF-8"),
    ("1e400", CSV.replace("1,0\n", "1e400,0\n").encode(), "line 3: expected a finite number in column x"),
    ("1e300", CSV.replace("1,0\n", "1e300,0\n").encode(), "line 3: expected x in metres"),
    ("-1e300", CSV.replace("a,1,0,0", "a,1,0,-1e300").encode(), "line 2: expected y in metres"),
    ("nan", CSV.replace("1,0\n", "nan,0\n").encode(), "expected a finite number in column x"),
    ("a word", CSV.replace("1,0\n", "left,0\n").encode(), "expected a number in column x, got 'left'"),
    ("time 1e300", CSV.replace("a,2", "a,1e300").encode(), "expected t in Unix seconds"),
    ("time backwards", CSV.replace("a,2", "a,0").encode(), "to increase, got 0 after 1"),
    ("too few cells", CSV.replace("1,0\n", "1\n").encode(), "line 3: expected 4 values, got 3"),
    ("a quote that never ends", CSV.replace("a,2", '"a,2').encode(), "not a CSV file"),
    ("NUL", CSV.replace("1,0\n", "\0,0\n").encode(), "expected a number in column x"),
    ("one point", b"walk_id,t,x,y\na,1,0,0\n", "one point"),
]


@pytest.mark.parametrize(("data", "sentence"), [c[1:] for c in CSVS], ids=[c[0] for c in CSVS])
def test_csv_files(tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(DataError, match=sentence) as caught:
        read_walks_csv(tmp_path / "a.csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (os.mkfifo, "got a pipe"),
        (os.mkdir, "got a folder"),
        (lambda path: os.symlink(path, path), "Too many levels"),
        (lambda path: os.symlink("/dev/zero", path), "got a device"),
        (lambda path: None, "No such file"),
    ],
    ids=["pipe", "folder", "loop", "device", "nothing"],
)
@pytest.mark.parametrize("read", [load_map, read_walks_csv], ids=["map", "csv"])
def test_what_is_no_file(
    tmp_path: Path, read: Callable[[Path], object], make: Callable[[Path], None], sentence: str
) -> None:
    make(tmp_path / "a")
    with pytest.raises(DataError, match=sentence):
        read(tmp_path / "a")


def rows_of_another_type(path: Path) -> None:
    (path / "walks.sqlite").unlink()
    with closing(sqlite3.connect(path / "walks.sqlite")) as db:
        db.execute("PRAGMA application_id = 1937139309")
        db.execute("PRAGMA user_version = 1")
        db.execute("CREATE TABLE walks (number, walk_id)")
        db.execute("CREATE TABLE store (frame)")
        db.execute("INSERT INTO store VALUES ('map')")
        db.commit()


def replace_file(path: Path, make: Callable[[Path], object]) -> None:
    (path / "walks.sqlite").unlink()
    make(path / "walks.sqlite")


def loop(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path)


STORES: list[tuple[str, Callable[[Path], object], str]] = [
    ("a pipe", lambda p: replace_file(p, os.mkfifo), "no file"),
    ("a folder", lambda p: replace_file(p, os.mkdir), "no file"),
    ("a device", lambda p: replace_file(p, lambda f: f.symlink_to("/dev/zero")), "no file"),
    ("text", lambda p: (p / "walks.sqlite").write_text("hello " * 2000), "damaged .*svfm store NEW --import"),
    ("zeros", lambda p: (p / "walks.sqlite").write_bytes(bytes(8192)), "damaged"),
    ("empty", lambda p: (p / "walks.sqlite").write_bytes(b""), "damaged: it holds no tables"),
    ("other tables", rows_of_another_type, "damaged .*no such column"),
    ("a symlink loop", loop, "got no folder"),
    ("nothing in it", lambda p: (p / "walks.sqlite").unlink(), "which has a file walks.sqlite"),
]


@pytest.mark.parametrize(("change", "sentence"), [s[1:] for s in STORES], ids=[s[0] for s in STORES])
def test_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object], sentence: str
) -> None:
    path = tmp_path / "store"
    WalkStore.create(path)
    change(path)
    with pytest.raises(DataError, match=sentence):
        WalkStore.open(path)
    assert main(["store", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("svfm store: ")
    assert said.count("\n") == 1


def test_a_store_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    WalkStore.create(path)

    def denied(self: Path, **named: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", denied)
    for call in (WalkStore.open, WalkStore.create):
        with pytest.raises(DataError, match=r"cannot (read|open) the store .*: Permission denied"):
            call(path)


def test_a_full_disk_while_storing_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    store = WalkStore.create(tmp_path / "store")
    with closing(sqlite3.connect(store.path / "walks.sqlite")) as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
    original = store._database.__class__._connect

    def small(self: object, mode: str, more: str = "") -> sqlite3.Connection:
        db = original(self, mode, more)  # type: ignore[arg-type]
        db.execute(f"PRAGMA max_page_count = {pages + 1}")
        return db

    big = Walk("a", "anna", np.arange(5000), np.zeros((5000, 3)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._database.__class__, "_connect", small)
        with pytest.raises(DataError, match=r"cannot write in the store .*: the disk is full"):
            store.add(big)
    assert len(WalkStore.open(store.path)) == 0
    assert store.add(big)


def test_a_map_is_not_written_over_a_device_or_into_nothing(tmp_path: Path) -> None:
    grid = OccupancyGrid(np.zeros((2, 2), np.float32), 0.05)
    (tmp_path / "a.yaml").symlink_to("/dev/null")
    (tmp_path / "file").touch()
    for path, sentence in (
        (tmp_path / "a.yaml", "got a device"),
        (tmp_path / "file" / "a.yaml", "cannot write the map"),
    ):
        with pytest.raises(DataError, match=sentence):
            save_map(grid, path)
