"""A model comes back from its file as it was; a file that is not one is refused with one sentence."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from two_destinations import MONDAY_NS, PLACES, model_file

from svfm_ros.errors import DataError
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import load_walk_model, places_from, save_walk_model


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "model.pt"
    save_walk_model(path, model_file())
    return path.read_bytes()


def refused(path: Path) -> str:
    with pytest.raises(DataError) as error:
        load_walk_model(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def about_of(whole: bytes) -> dict[str, Any]:
    (size,) = struct.unpack("<Q", whole[:8])
    return dict(json.loads(json.loads(whole[8 : 8 + size])["__metadata__"]["about"]))


def rewritten(whole: bytes, arrays: dict[str, Any] | None = None, **about: Any) -> bytes:
    """The same file with some arrays or entries of its header replaced."""
    return save({**load(whole), **(arrays or {})}, {"about": json.dumps({**about_of(whole), **about})})


def test_a_model_comes_back_with_the_same_forecasts(tmp_path: Path) -> None:
    save_walk_model(tmp_path / "model.pt", model_file())
    back = load_walk_model(tmp_path / "model.pt")
    assert back.model_id == model_file().model_id
    assert (back.frame, back.time_zone, back.metrics) == (
        model_file().frame,
        model_file().time_zone,
        model_file().metrics,
    )
    assert places_from(back.metrics).names[:2] == PLACES.names
    assert back.footprints.names == model_file().footprints.names
    for file in (back, model_file()):
        assert file.footprints.xy.shape == model_file().footprints.xy.shape
    ours, theirs = (Forecaster(f, PLACES).forecast((0.0, 0.0), MONDAY_NS, samples=50) for f in (model_file(), back))
    assert theirs.samples_xy == pytest.approx(ours.samples_xy, abs=1e-4)  # the free walker's weights are rounded
    assert theirs.shares == ours.shares


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    save_walk_model(tmp_path / "model.pt", model_file())
    assert (tmp_path / "model.pt").stat().st_mode & 0o077 == 0


def test_a_rewritten_file_is_still_a_model(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(rewritten(whole))
    assert load_walk_model(tmp_path / "model.pt").model_id == model_file().model_id


def _nan(x: Any) -> Any:
    x = x.copy()
    x.flat[0] = np.nan
    return x


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("tables", lambda x: x[:, :-1], "fit together"),
        ("tables", lambda x: x[..., :-1], "fit together"),
        ("tables", lambda x: x.astype(np.float16), "fit together"),
        ("tables", _nan, "NaN or infinity in tables"),
        ("ends_xy", lambda x: x.astype(float) + 1e200, "numbers up to 1e+12"),
        ("walks.xy", lambda x: x.astype(float) - 1e15, "numbers up to 1e+12"),
        ("tables", lambda x: x + 2.0, "fit together"),  # probabilities above one
        ("ends_xy", lambda x: x[:1], "fit together"),
        ("dt_s", lambda x: 0.0 * x, "fit together"),
        ("grid", lambda x: -x, "fit together"),
        ("steps", lambda x: -x, "fit together"),
        ("free.nu", lambda x: 0.0 * x, "fit together"),
        ("habits.base", _nan, "NaN or infinity"),
        ("walks.row", lambda x: x + 1000, "fit together"),
        ("walks.row", lambda x: x.astype(float), "fit together"),
        ("walks.walk", lambda x: x - 1, "fit together"),
        ("walks.xy", lambda x: x[:0], "fit together"),
        ("another", lambda _: np.zeros(3), "fit together"),
    ],
)
def test_wrong_arrays_are_refused(name: str, change: Any, said: str, whole: bytes, tmp_path: Path) -> None:
    array = change(load(whole).get(name))
    (tmp_path / "model.pt").write_bytes(rewritten(whole, {name: np.ascontiguousarray(array)}))
    assert said in refused(tmp_path / "model.pt")


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"kind": "a cake"}, "something else"),
        ({"schema": 3}, "train it anew"),
        ({"schema": 99}, "update"),
        ({"schema": "4"}, "schema"),
        ({"frame": 7}, "fit together"),
        ({"time_zone": None}, "fit together"),
        ({"time_zone": "Mars/Olympus"}, "zone"),
        ({"metrics": []}, "fit together"),
        ({"metrics": {"places": 7}}, "places"),
        ({"metrics": {"places": [{"name": "x"}]}}, "places"),
        ({"names": "all"}, "fit together"),
        ({"names": [1, 2]}, "fit together"),
        ({"names": []}, "fit together"),
    ],
)
def test_wrong_headers_are_refused(about: dict[str, Any], said: str, whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(rewritten(whole, **about))
    assert said in refused(tmp_path / "model.pt")


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.999])
def test_truncated_files_are_refused(share: float, whole: bytes, tmp_path: Path) -> None:
    kept = int(share * len(whole))
    (tmp_path / "model.pt").write_bytes(whole[:kept])
    has_header = kept >= 8 + struct.unpack("<Q", whole[:8])[0]
    assert ("fit together" if has_header else "something else") in refused(tmp_path / "model.pt")


def test_claimed_shapes_are_refused_before_they_are_read(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the library that reads the tensors would do with them."""

    def must_not_read(data: bytes) -> None:
        raise AssertionError("the tensors were read")

    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    for name in ("walks.xy", "walks.row"):
        header[name]["shape"][0] = 1 << 40
    text = json.dumps(header).encode()
    (tmp_path / "model.pt").write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + size :])
    monkeypatch.setattr("safetensors.numpy.load", must_not_read)
    assert "fit together" in refused(tmp_path / "model.pt")


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 2**63) + b"{",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 9) + b"{" * 9,
        b"walk_id,t,x,y\n",
    ],
    ids=["huge header", "no tensors", "broken header", "a table"],
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(content)
    assert "something else" in refused(tmp_path / "model.pt")


def test_models_of_the_old_format_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "old.pt").write_bytes(b"PK\x03\x04" + bytes(100))
    assert "train it anew" in refused(tmp_path / "old.pt")
    assert "got a folder" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "got a pipe" in refused(tmp_path / "pipe")
    assert "cannot read" in refused(tmp_path / "nowhere.pt")


def test_a_link_is_followed_only_where_that_is_allowed(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(whole)
    (tmp_path / "link.pt").symlink_to("model.pt")
    assert load_walk_model(tmp_path / "link.pt").model_id == model_file().model_id
    with pytest.raises(DataError, match="cannot read"):
        load_walk_model(tmp_path / "link.pt", follow_link=False)
