"""From recordings of scans to a model: SLAM, cutting, aligning, keeping, and what is said about what will not do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from svfm_ros.cli.main import main
from svfm_ros.config.sim_config import HabitConfig, SimConfig
from svfm_ros.sim.house import load_house
from svfm_ros.sim.sim_recording import Recorder
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.types import Walk
from svfm_ros.walks.walk_csv import read_walks_csv
from svfm_ros.walks.walk_store import WalkStore

COUNT = 4


def answer(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[dict[str, Any], str]:
    """What a command prints with --json, and what it says beside it."""
    code = main([*map(str, argv), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return dict(json.loads(printed.out)), printed.err


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four walks of the home, one bag each, and one of another house."""
    folder = tmp_path_factory.mktemp("bags")
    assert main(["simulate", "--out", str(folder / "home"), "--repeats", "1", "--seed", "31"]) == 0
    house = load_house("bungalow")
    recorder = Recorder(house, SimConfig())
    walks = simulate_protocol(house, seed=31, repeats=1, habits=HabitConfig(first_day="2026-11-09"))[:1]
    recorder.write(recorder.one_per_walk(walks, 31)[0], folder / "stranger")
    return folder


def test_bags_become_walks_in_one_frame_and_a_model(
    bags: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model.pt"
    got, said = answer(capsys, "train", bags / "home", bags / "stranger", "--out", model)
    assert got["walks"] == COUNT
    assert [r["name"] for r in got["refused"]] == [r.split(": ")[1] for r in said.splitlines()]
    assert len(got["refused"]) == 1
    store = WalkStore.open(tmp_path / "model.walks")
    assert len(store) == COUNT + 1  # the stranger is kept, and not placed
    _check_places(list(store.aligned_walks()), read_walks_csv(bags / "home" / "walks.csv"))

    scored, _ = answer(capsys, "evaluate", "--model", model, bags / "home", "--samples", 20)
    assert scored["walks"] + scored["walks_trained_on"] == COUNT


def _check_places(placed: list[Walk], truth: list[Walk]) -> None:
    """All walks begin at the couch and end where they should, seen from the first of them."""
    true = {int(w.stamps_ns[0] // 10**10): w for w in truth}
    pairs = [(w, true[int((w.stamps_ns[0] + 10**9) // 10**10)]) for w in placed]
    ends = np.array([a.xy[-1] for a, _ in pairs])
    wanted = np.array([b.xy[-1] for _, b in pairs])
    apart = np.linalg.norm(ends[:, None] - ends, axis=-1)
    assert np.allclose(apart, np.linalg.norm(wanted[:, None] - wanted, axis=-1), atol=0.25)


def test_recordings_need_a_house_to_be_judged_in(
    bags: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walks = bags / "home" / "walks.csv"
    answer(capsys, "train", walks, "--out", tmp_path / "model.pt")
    assert main(["evaluate", "--model", str(tmp_path / "model.pt"), str(bags / "stranger")]) == 2
    assert "--map" in capsys.readouterr().err
