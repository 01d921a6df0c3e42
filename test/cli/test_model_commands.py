"""The commands train, forecast and evaluate: from a file of walks to figures, and what they say to bad input."""

import contextlib
import io
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svfm_ros.cli.main import main
from svfm_ros.forecasting.model_file import SCHEMA
from svfm_ros.sim.house import load_house
from svfm_ros.sim.walker import ANCHOR, simulate_protocol
from svfm_ros.walks.places import save_places
from svfm_ros.walks.walk_csv import read_walks_csv, write_walks_csv
from svfm_ros.walks.walk_store import WalkStore

COUNT = 12
TIME = "2026-11-16T10:15"  # a Monday, at the hour of the walks
KEYS = {"times_s", "samples_xy", "shares", "entropy", "walks", "known", "model_id", "resident", "unfamiliar"}


def answer(*argv: object) -> dict[str, Any]:
    """What a command that must succeed prints with --json; nothing else may be printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*map(str, argv), "--json"]) == 0
    return dict(json.loads(out.getvalue()))


def refusal(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """The one sentence of a command that must refuse its input."""
    assert main([str(a) for a in argv]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Walks of the paper's protocol, places with names, and a model of them."""
    folder = tmp_path_factory.mktemp("commands")
    house = load_house()
    walks = [w.walk for w in simulate_protocol(house, seed=1, repeats=COUNT // 4)]
    assert write_walks_csv(walks, folder / "walks.csv") == COUNT
    save_places(house.places, folder / "places.yaml")
    summary = answer(
        *("train", folder / "walks.csv", "--out", folder / "model.pt"),
        *("--places", folder / "places.yaml", "--time-zone", "Europe/London"),
    )
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture(scope="module")
def couch() -> str:
    x, y = load_house().place(ANCHOR).xy
    return f"{x},{y}"


def test_training_tells_what_it_learned_from(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["walks"] == COUNT
    assert summary["walks_new"] == COUNT
    assert summary["free_share"] == 0.0  # every walk leads where others lead
    assert summary["fields"] >= 4
    assert np.isfinite(summary["held_out_nll"])
    assert summary["time_zone"] == "Europe/London"
    assert {"kitchen", "study", "landing", "front_door"} <= set(summary["places"])


def test_a_forecast_has_the_promised_shape(folder: Path, couch: str) -> None:
    got = answer(
        *("forecast", "--model", folder / "model.pt", "--at", couch, "--time", TIME),
        *("--horizon", 3, "--samples", 30, "--what-if", "23:00"),
    )
    trained = json.loads((folder / "summary.json").read_text())
    assert set(got) == KEYS | {"what_if"}
    assert set(got["what_if"]) == KEYS
    for one in (got, got["what_if"]):
        samples, times = np.array(one["samples_xy"]), np.array(one["times_s"])
        assert samples.shape == (30, len(times), 2)
        assert np.isfinite(samples).all()
        assert times[0] == 0.0
        assert times[-1] == pytest.approx(3.0)
        assert np.allclose(samples[:, 0], [float(v) for v in couch.split(",")])
        assert sum(one["shares"].values()) == pytest.approx(1.0)
        assert one["model_id"] == trained["model_id"]
    assert got["walks"] == COUNT  # they all begin here, at about this hour
    assert got["known"] is True
    assert got["entropy"] >= 0.0
    assert got["what_if"]["walks"] == 0  # nobody walked at that hour
    assert got["what_if"]["known"] is False
    assert got["what_if"]["entropy"] is None


def test_the_seed_decides(folder: Path, couch: str) -> None:
    ask = ("forecast", "--model", folder / "model.pt", "--at", couch, "--time", TIME, "--horizon", 2, "--samples", 10)
    assert answer(*ask, "--seed", 3) == answer(*ask, "--seed", 3)
    assert answer(*ask, "--seed", 3)["samples_xy"] != answer(*ask, "--seed", 4)["samples_xy"]


def test_a_place_nobody_came_near_is_unknown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    far = ("forecast", "--model", folder / "model.pt", "--at", "-40.5,2", "--time", TIME, "--samples", 5)
    got = answer(*far)
    assert got["known"] is False
    assert got["walks"] == 0
    assert main([str(a) for a in far]) == 0
    assert capsys.readouterr().out.startswith("Unknown")


def test_the_walk_so_far_says_where_they_are(folder: Path, tmp_path: Path) -> None:
    rows = (folder / "walks.csv").read_text().splitlines()
    walk = [rows[0], *(row for row in rows[1:] if row.split(",")[0] == rows[1].split(",")[0])]
    seen = walk[: len(walk) // 2]
    (tmp_path / "seen.csv").write_text("\n".join(seen) + "\n")
    got = answer("forecast", "--model", folder / "model.pt", "--walk-so-far", tmp_path / "seen.csv", "--samples", 5)
    last = [float(v) for v in seen[-1].split(",")[2:4]]
    assert np.allclose(np.array(got["samples_xy"])[:, 0], last, atol=1e-3)


def test_a_picture_and_a_table(folder: Path, couch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "new" / "forecast.png"
    ask = ["forecast", "--model", str(folder / "model.pt"), "--at", couch, "--time", TIME, "--samples", "10"]
    assert main([*ask, "--what-if", "23:00", "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "kitchen" in capsys.readouterr().out


def test_only_walks_never_seen_are_scored(folder: Path, tmp_path: Path) -> None:
    """Where the model has seen some of the walks, the others are scored; the model itself is."""
    others = [w.walk for w in simulate_protocol(load_house(), seed=2, repeats=1)]
    renamed = [replace(w, walk_id=f"other-{w.walk_id}") for w in others]
    both = [*read_walks_csv(folder / "walks.csv"), *renamed]
    write_walks_csv(both, tmp_path / "both.csv")
    got = answer("evaluate", "--model", folder / "model.pt", tmp_path / "both.csv", "--samples", 20)
    assert got["walks"] == len(others)
    assert got["walks_trained_on"] == COUNT
    assert got["relearnt"] is False


def test_a_model_that_has_seen_all_walks_is_learnt_again_without_a_fifth_of_them(folder: Path) -> None:
    got = answer("evaluate", "--model", folder / "model.pt", folder / "walks.csv", "--samples", 20)
    assert got["relearnt"] is True
    assert 1 <= got["walks"] < COUNT / 2
    assert got["walks"] + got["walks_trained_on"] == COUNT
    assert got["nll_per_step"] < 0.0


def test_calibration_is_drawn(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "new" / "calibration.png"
    ask = ("evaluate", "--model", folder / "model.pt", folder / "walks.csv", "--samples", 20)
    answer(*ask, "--png", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert ".png" in refusal(capsys, *ask, "--png", tmp_path / "calibration.doc")


def test_scores_of_other_walks(folder: Path, tmp_path: Path) -> None:
    walks = [w.walk for w in simulate_protocol(load_house(), seed=2, repeats=1)]
    write_walks_csv(walks, tmp_path / "others.csv")
    got = answer("evaluate", "--model", folder / "model.pt", tmp_path / "others.csv", "--samples", 40)
    assert got["walks"] == len(walks)
    assert 0.0 <= got["share_tv"] <= 1.0
    assert 0.0 <= got["coverage_50"] <= got["coverage_90"] <= 1.0
    assert 0.0 < got["min_ade20_m"] < 3.0
    assert 0.0 < got["min_fde20_m"] < 6.0
    assert -1.0 < got["energy_distance_m"] < 6.0


def test_training_goes_on_from_a_model_with_walks_from_a_store(folder: Path, tmp_path: Path) -> None:
    WalkStore.create(tmp_path / "store").import_walks(read_walks_csv(folder / "walks.csv"))
    before = json.loads((folder / "summary.json").read_text())
    again = ("train", tmp_path / "store", "--out", tmp_path / "model.pt", "--continue-from", folder / "model.pt")
    after = answer(*again)
    assert after["walks"] == COUNT  # the same walks: none of them is learnt twice
    assert after["walks_new"] == 0
    assert after["fields"] == before["fields"]
    assert after["held_out_nll_before"] == pytest.approx(before["held_out_nll"], abs=1e-5)
    assert after["places"] == before["places"]
    assert after["time_zone"] == "Europe/London"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("walk_id,t,x\na,0,1\na,1,2\n", "y is not in"),
        ("walk_id,t,x,y\na,0,1,one\na,1,2,2\n", "expected a number in column y"),
        ("walk_id,t,x,y\na,1,1,1\na,0,2,2\n", "to increase"),
        ("walk_id,t,x,y\na,0,1,1\nb,0,1,1\nb,1,1,2\n", "has one point"),
        ("walk_id,t,x,y\na,0,1,1\na,5,1,2\nb,0,1,1\nb,5,1,2\na,9,1,1\na,10,1,1\n", "comes back"),
        ("walk_id,t,x,y\na,0,1,1\na,1,2,2\n", "two or more walks"),
    ],
    ids=["missing column", "text", "times going back", "one point", "duplicate id", "one walk"],
)
def test_bad_walks_are_refused(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "walks.csv").write_text(text)
    assert said in refusal(capsys, "train", tmp_path / "walks.csv", "--out", tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_stores_and_recordings_that_will_not_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ("--out", tmp_path / "model.pt")
    WalkStore.create(tmp_path / "store")
    assert "got none" in refusal(capsys, "train", tmp_path / "store", *out)
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / "walks.sqlite")) as database:
        database.execute("PRAGMA user_version = 99")
    assert "99" in refusal(capsys, "train", tmp_path / "store", *out)
    (tmp_path / "walk.mcap").write_bytes(b"")
    assert "walk.mcap" in refusal(capsys, "train", tmp_path / "walk.mcap", *out)
    assert "nothing at" in refusal(capsys, "train", tmp_path / "nowhere", *out)
    (tmp_path / "walks.csv").write_text("walk_id,t,x,y\na,0,1,1\na,1,2,2\n")
    assert "walks.csv among" in refusal(capsys, "train", tmp_path / "walk.mcap", tmp_path / "walks.csv", *out)
    assert "expected one" in refusal(capsys, "train", tmp_path / "walks.csv", tmp_path / "walks.csv", *out)


def test_a_store_in_another_frame_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    WalkStore.create(tmp_path / "store", frame="attic").import_walks(read_walks_csv(folder / "walks.csv"))
    assert "'attic'" in refusal(capsys, "evaluate", "--model", folder / "model.pt", tmp_path / "store")
    again = ("--out", tmp_path / "new.pt", "--continue-from", folder / "model.pt")
    assert "'attic'" in refusal(capsys, "train", tmp_path / "store", *again)


def test_bad_models_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (folder / "model.pt").read_bytes()
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    schema = b'\\"schema\\": %d'
    assert schema % SCHEMA in whole
    (tmp_path / "old.pt").write_bytes(whole.replace(schema % SCHEMA, schema % (SCHEMA - 1)))
    (tmp_path / "new.pt").write_bytes(whole.replace(schema % SCHEMA, schema % (SCHEMA + 1)))
    refused = {
        "none.pt": "cannot read",
        "half.pt": "do not fit together",
        "old.pt": "train it anew",
        "new.pt": "update",
    }
    for name, said in refused.items():
        model = ("--model", tmp_path / name)
        assert said in refusal(capsys, "forecast", *model, "--at", "1,1")
        assert said in refusal(capsys, "evaluate", *model, folder / "walks.csv")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--at", "1"), "X,Y"),
        (("--at", "inf,1"), "finite"),
        ((), "--at X,Y"),
        (("--at", "1,1", "--time", "teatime"), "teatime"),
        (("--at", "1,1", "--what-if", "25:00"), "25:00"),
        (("--at", "1,1", "--samples", "0"), "samples"),
        (("--at", "1,1", "--horizon", "-1"), "horizon"),
        (("--at", "1,1", "--places", "nowhere.yaml"), "nowhere.yaml"),
        (("--at", "1,1", "--map", "nowhere.yaml"), "nowhere.yaml"),
        (("--at", "1,1", "--png", "forecast.doc"), ".png"),
    ],
)
def test_bad_questions_are_refused(
    options: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, "forecast", "--model", folder / "model.pt", *options)
