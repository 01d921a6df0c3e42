"""``svfm slam``: mapping a recording, and localising another one in the map."""

import json
from pathlib import Path

import numpy as np
import pytest
from flats import FLAT, OTHER, scans_along, walk
from tum import read_tum

from svfm_ros import geometry
from svfm_ros.cli.main import main
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.sources.open_scans import save_scans

ROUND = walk((1.5, 1.2), (2.8, 3.2), (5.2, 3.2), (5.4, 1.5), (5.2, 3.2), (2.8, 3.2), (1.5, 1.2))
AGAIN = walk((5.3, 1.8), (5.2, 3.2), (2.8, 3.2), (1.5, 1.2))


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mapped")
    save_scans(scans_along(FLAT, ROUND), folder / "round.npz")
    assert main(["slam", str(folder / "round.npz"), "--out", str(folder)]) == 0
    return folder


def test_a_recording_is_mapped(mapped: Path) -> None:
    _, poses = read_tum(mapped / "trajectory.tum")
    assert absolute_error(poses, ROUND).rmse_m < 0.03
    assert (mapped / "map.yaml").is_file()


def test_another_recording_is_localised_in_the_map(mapped: Path, tmp_path: Path) -> None:
    save_scans(scans_along(FLAT, AGAIN), tmp_path / "again.npz")
    out = tmp_path / "out"
    assert main(["slam", str(tmp_path / "again.npz"), "--map", str(mapped / "map.yaml"), "--out", str(out)]) == 0
    stamps_ns, poses = read_tum(out / "trajectory.tum")
    assert len(poses) > 0.7 * len(AGAIN)
    row = np.rint((stamps_ns - 10**9) / 125e6).astype(int)
    wanted = geometry.relative(ROUND[0], AGAIN[row])  # the map's frame is that of the first scan mapped
    assert np.hypot(*(poses - wanted)[:, :2].T).max() < 0.1
    assert json.loads((out / "summary.json").read_text())["map"] == str(mapped / "map.yaml")
    assert not (out / "map.yaml").exists()


def test_pieces_that_stay_apart_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a pause of ten minutes the sensor is in another flat, which no loop closure joins to the first."""
    elsewhere = walk((1.0, 1.2), (3.3, 0.5), (7.4, 0.6), (7.2, 2.6))
    scans = [*scans_along(FLAT, ROUND), *scans_along(OTHER, elsewhere, start_ns=700 * 10**9)]
    save_scans(scans, tmp_path / "both.npz")
    assert main(["slam", str(tmp_path / "both.npz"), "--out", str(tmp_path / "out")]) == 0
    assert "pieces apart" in capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["counters"]["pieces_left_out"] >= 1
    assert len(read_tum(tmp_path / "out" / "trajectory.tum")[1]) <= len(ROUND)


def test_a_map_that_is_not_there_is_refused(mapped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["slam", str(mapped / "round.npz"), "--map", str(tmp_path / "no.yaml"), "--out", str(tmp_path / "o")]
    assert main(arguments) != 0
    assert "no.yaml" in capsys.readouterr().err
