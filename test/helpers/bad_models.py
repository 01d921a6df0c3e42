"""Bad model files, population priors and recordings: how each is made and what is said about it."""

import io
import json
import os
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from tinymodel import save_tiny

Make = Callable[[Path], object]


def model_with(change: Callable[[dict[str, Any]], None]) -> Make:
    """The good model with another header."""

    def make(path: Path) -> None:
        save_tiny(path)
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])

    return make


def about_with(**changes: Any) -> Make:
    def change(header: dict[str, Any]) -> None:
        about = json.loads(header["__metadata__"]["about"])
        header["__metadata__"]["about"] = json.dumps({**about, **changes})

    return model_with(change)


def array_with(name: str, **changes: Any) -> Make:
    return model_with(lambda header: header[name].update(changes))


def many_rows(header: dict[str, Any]) -> None:
    """Let every array of the walks claim 2^40 rows."""
    header["walks.xy"]["shape"][0] = header["walks.row"]["shape"][0] = 1 << 40


def first_bytes_twice(header: dict[str, Any]) -> None:
    """Let two arrays of one size share their bytes."""
    header["free.first"]["data_offsets"] = header["free.nu"]["data_offsets"]


def values_with(name: str, value: float) -> Make:
    """The good model with one array full of a number."""

    def make(path: Path) -> None:
        from safetensors.numpy import load_file, save

        save_tiny(path)
        data, arrays = path.read_bytes(), load_file(path)
        about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        path.write_bytes(save({**arrays, name: np.full_like(arrays[name], value)}, about))

    return make


def metrics_with(places: Any) -> Make:
    return about_with(metrics={"places": places})


CELL = {"name": "a", "x": 1.0, "y": 1.0, "radius_m": 0.5, "colour": "#112233"}
NO_MODEL, NOT_WHOLE = "expected a walk model at .*, got something else", "whose parts do not fit together"
MODEL_FILES: list[tuple[str, str | bytes | Make, str]] = [
    ("empty", b"", NO_MODEL),
    ("text", "hello " * 100, NO_MODEL),
    ("zeros", bytes(4096), NO_MODEL),
    ("pickle", b"\x80\x04cos\nsystem\n(S'true'\ntR.", NO_MODEL),
    ("an older one", b"PK\x03\x04" + bytes(100), "train it anew"),
    ("a header of 2^60 bytes", (1 << 60).to_bytes(8, "little") + b"{}", NO_MODEL),
    ("deep JSON", (100_000).to_bytes(8, "little") + b"{" + b"[" * 99_999, NO_MODEL),
    ("half", lambda path: os.truncate(save_tiny(path), 3000), NO_MODEL),
    ("cut by one byte", lambda path: os.truncate(path, save_tiny(path).stat().st_size - 1), NOT_WHOLE),
    ("no description", model_with(lambda header: header.pop("__metadata__")), NO_MODEL),
    ("description that is no JSON", model_with(lambda h: h["__metadata__"].update(about="{")), NO_MODEL),
    ("description that is deep", model_with(lambda h: h["__metadata__"].update(about="[" * 100_000)), NO_MODEL),
    ("description that is a list", model_with(lambda h: h["__metadata__"].update(about="[]")), NO_MODEL),
    ("another kind", about_with(kind="cat"), NO_MODEL),
    ("schema 3", about_with(schema=3), "got 3: train it anew"),
    ("schema 99", about_with(schema=99), "got 99: update svfm_ros"),
    ("schema of text", about_with(schema="new"), "expected a walk model of schema"),
    *(
        (f"{key} {value!r}", about_with(**{key: value}), NOT_WHOLE)
        for key, value in (
            ("frame", 3),
            ("frame", None),
            ("time_zone", 3),
            ("time_zone", None),
            ("metrics", 3),
            ("metrics", []),
            ("metrics", None),
            ("names", 3),
            ("names", [3]),
        )
    ),
    ("a place twice", metrics_with([CELL, CELL]), "expected at most 1000 places in the model, each name once, got 2"),
    (
        "100,000 places",
        metrics_with([{**CELL, "name": str(n)} for n in range(100_000)]),
        "expected at most 1000 places in the model",
    ),
    ("a frame of 1 MB", about_with(frame="x" * 1_000_000), NOT_WHOLE),
    ("a score of text", about_with(metrics={"held_out_nll": "low"}), NOT_WHOLE),
    ("walks of text", about_with(metrics={"walks_seen": "many"}), NOT_WHOLE),
    ("a resident twice", about_with(residents=["a", "a"]), NOT_WHOLE),
    ("residents of text", about_with(residents="ab"), NOT_WHOLE),
    ("no residents", about_with(residents=[]), NOT_WHOLE),
    ("a number of 6,000 digits", model_with(lambda h: h["__metadata__"].update(about="9" * 6000)), NO_MODEL),
    ("time zone of 10 kB", about_with(time_zone="a/" * 5000), "expected a known time zone"),
    ("time zone with a null character", about_with(time_zone="a\0b"), "expected a known time zone"),
    ("time zone outside", about_with(time_zone="../../../etc/passwd"), "expected a known time zone"),
    ("fewer names than walks", about_with(names=[]), NOT_WHOLE),
    ("time zone Mars", about_with(time_zone="Mars/Olympus"), "expected a known time zone"),
    *(
        (f"places {value!r}", metrics_with(value), "expected places with name, x, y")
        for value in (
            3,
            "here",
            [3],
            [{}],
            [{**CELL, "x": "far"}],
            [{**CELL, "x": None}],
            [{**CELL, "radius_m": float("nan")}],
            [{**CELL, "colour": 3}],
            [{**CELL, "colour": "#xyzxyz"}],
            [{**CELL, "name": 3}],
            [{**CELL, "name": ""}],
            [{**CELL, "x": 1e300}],
            [{**CELL, "radius_m": -1}],
            [{**CELL, "radius_m": 1e300}],
        )
    ),
    *(
        (f"{name} of {value:g}", values_with(name, value), NOT_WHOLE)
        for name, value in (
            ("dt_s", 1e-30),
            ("dt_s", 1e5),
            ("still", 0.0),
            ("steps", -1e5),
            ("habits.base", 1e3),
            ("habits.scalars", -1.0),
            ("habits.support", -1.0),
            ("set_off", 2.0),
            ("free.sway", 0.0),
        )
    ),
    ("a weight of NaN", values_with("free.w1", np.nan), "expected numbers up to"),
    ("claimed shapes", array_with("walks.xy", shape=[1 << 40, 2]), NOT_WHOLE),
    ("claimed shapes that agree", model_with(many_rows), NOT_WHOLE),
    ("shape of text", array_with("walks.xy", shape="big"), NOT_WHOLE),
    ("shape of two letters", array_with("walks.xy", shape="ab"), NOT_WHOLE),
    ("shape of lists", array_with("walks.xy", shape=[[1], [2]]), NOT_WHOLE),
    ("shape true", array_with("dt_s", shape=[True]), NOT_WHOLE),
    ("no shape", model_with(lambda header: header["walks.xy"].pop("shape")), NOT_WHOLE),
    ("negative shape", array_with("walks.xy", shape=[-1, 2]), NOT_WHOLE),
    ("type of another kind", array_with("walks.row", dtype="F64"), NOT_WHOLE),
    ("unknown type", array_with("walks.row", dtype="Q7"), NOT_WHOLE),
    ("type that is a list", array_with("walks.row", dtype=["I64"]), NOT_WHOLE),
    ("an array is missing", model_with(lambda header: header.pop("walks.row")), NOT_WHOLE),
    ("an array that is a number", model_with(lambda header: header.update({"walks.row": 3})), NOT_WHOLE),
    ("offsets beyond the end", array_with("walks.row", data_offsets=[0, 1 << 40]), NOT_WHOLE),
    ("offsets of text", array_with("walks.row", data_offsets="ab"), NOT_WHOLE),
    ("offsets that overlap", model_with(first_bytes_twice), NOT_WHOLE),
]


def prior(**changes: Any) -> Make:
    """The population prior that ships, with other arrays; None leaves one out."""

    def make(path: Path) -> None:
        from safetensors.numpy import load_file, save

        from svfm_ros.forecasting import free_walker

        shipped = load_file(Path(free_walker.__file__).with_name("population.safetensors"))
        path.write_bytes(save({n: x for n, x in {**shipped, **changes}.items() if x is not None}))

    return make


NO_PRIOR = "expected a population prior at .*, got something else"
PRIORS: list[tuple[str, str | bytes | Make, str]] = [
    ("empty", b"", NO_PRIOR),
    ("zeros", bytes(4096), NO_PRIOR),
    ("a model", save_tiny, NO_PRIOR),
    ("another shape", prior(w1=np.zeros((3, 3), np.float32)), NO_PRIOR),
    ("no weights", prior(w1=None), NO_PRIOR),
    ("more weights", prior(w9=np.zeros(3, np.float32)), NO_PRIOR),
    ("NaN", prior(b1=np.full(24, np.nan, np.float32)), NO_PRIOR),
    ("a number of another shape", prior(**{"number.a": np.zeros(3, np.float32)}), "expected mean and precision"),
    ("a number of negative precision", prior(**{"number.a": -np.ones(2, np.float32)}), "expected mean and precision"),
    (
        "claimed shapes",
        (70).to_bytes(8, "little") + b'{"w1":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,40]}}'.ljust(70),
        NO_PRIOR,
    ),
]


def npz(**changes: Any) -> bytes:
    """An archive of scans with other arrays."""
    arrays = {"stamps_ns": np.arange(3) * 10**8, "ranges": np.ones((3, 60)), "angle_min": -3.0, "angle_step": 0.1}
    arrays |= {"range_min": 0.1, "range_max": 9.0, **changes}
    buffer = io.BytesIO()
    np.savez(buffer, **{name: value for name, value in arrays.items() if value is not None})  # type: ignore[arg-type]
    return buffer.getvalue()


def zip_bomb() -> bytes:
    """An archive that says it unpacks to a terabyte."""
    buffer = io.BytesIO(npz())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.infolist()[0].file_size = 1 << 40
        archive.comment = b"so that the directory is written again"
    return buffer.getvalue()


def endless_bag(path: Path) -> None:
    """A bag whose topics are a view that never ends."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE messages (id, topic_id, timestamp, data)")
        db.execute("CREATE VIEW topics AS WITH RECURSIVE c(i) AS (SELECT 1 UNION SELECT i + 1 FROM c) SELECT i FROM c")
        db.commit()


RECORDINGS: list[tuple[str, str, str | bytes | Make, str]] = [
    ("empty", "a.log", b"", "is empty"),
    ("text", "a.log", "hello\n" * 100, "expected a rosbag2 folder"),
    ("zeros", "a.log", bytes(10_000), "expected a rosbag2 folder"),
    ("CARMEN without scans", "a.log", "# CARMEN Logfile\nPARAM a b\n", "got none of them"),
    ("CARMEN with words", "a.log", "FLASER 3 a b c 0 0 0 0 0 0 0 host 0\n" * 9, "no scan|FLASER"),
    ("CARMEN that claims 10^9 beams", "a.log", "FLASER 1000000000 1 1 1 0 0 0 0 0 0 1 host 1\n" * 9, "no scan|FLASER"),
    ("gzip that is cut off", "a.log.gz", b"\x1f\x8b\x08\x00" + bytes(6), "none of these|damaged|empty|cut off"),
    ("MCAP magic alone", "a.mcap", b"\x89MCAP0\r\n", "no messages|no scans|not a bag|damaged"),
    ("MCAP with another name", "a.bin", b"\x89MCAP0\r\n", "name it"),
    ("SQLite magic alone", "a.db3", b"SQLite format 3\0", "no messages|no scans|not a bag|damaged|no topics"),
    ("ROS 1 magic alone", "a.bag", b"#ROSBAG V2.0\n", "is not a bag that can be read"),
    ("npz that is no archive", "a.npz", b"PK\x03\x04" + bytes(50), "is not a NumPy archive"),
    ("npz of nothing", "a.npz", npz(ranges=None), "ranges is missing"),
    ("npz of objects", "a.npz", npz(ranges=np.array([{}, 1], dtype=object)), "is not a NumPy archive"),
    ("npz of text", "a.npz", npz(ranges=np.full((3, 60), "far")), "expected"),
    ("npz with other lengths", "a.npz", npz(stamps_ns=np.arange(7)), "expected stamps"),
    ("npz of stamps of text", "a.npz", npz(stamps_ns=np.array(["a", "b", "c"])), "expected"),
    ("npz of stamps of NaN", "a.npz", npz(stamps_ns=np.full(3, np.nan)), "expected stamps in nanoseconds"),
    ("npz of stamps of 10^300", "a.npz", npz(stamps_ns=np.full(3, 1e300)), "expected stamps in nanoseconds"),
    ("npz with an angle of text", "a.npz", npz(angle_min="left"), "expected"),
    ("npz with many angles", "a.npz", npz(angle_min=np.zeros(9)), "expected"),
    ("zip bomb", "a.npz", zip_bomb(), "expected at most .* bytes when unpacked"),
    ("folder that is no bag", "a/letter.txt", "x", "is not a rosbag2 folder"),
    ("a view that never ends", "a.db3", endless_bag, "expected tables alone, got views"),
    ("a view that never ends in a folder", "a/b.db3", endless_bag, "expected tables alone, got views"),
    ("folder with a pipe", "a/b.mcap", os.mkfifo, "b.mcap: expected a file, got a pipe"),
    (
        "folder with a device",
        "a/b.db3",
        lambda path: path.symlink_to("/dev/zero"),
        "b.db3: expected a file, got a device",
    ),
    ("bag with a deep metadata.yaml", "a/metadata.yaml", "[" * 5_000, "is not a rosbag2 folder"),
]
