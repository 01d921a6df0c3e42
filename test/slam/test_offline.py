"""A whole recording from the command line: a drive round a room, with a bag as input and files as output."""

import json
from pathlib import Path

import numpy as np
import pytest
from flats import CORRIDOR, polygon
from flats import scan_at as wall_scan_at
from tum import read_tum

from svfm_ros.cli.main import main
from svfm_ros.config.slam_config import SlamConfig
from svfm_ros.mapio import load_map
from svfm_ros.slam.offline import run_slam
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.sources.open_scans import save_scans
from svfm_ros.types import Pose2, Scan

# An L-shaped room, so that no turn of it looks like another: corners in order.
CORNERS = np.array([[-3.0, -2.5], [4.0, -2.5], [4.0, 0.5], [1.0, 0.5], [1.0, 3.0], [-3.0, 3.0]])


def scan_at(pose: Pose2, stamp_ns: int, beams: int = 360) -> Scan:
    """Exact ranges to the walls of the room."""
    angles = pose.theta + np.linspace(-np.pi, np.pi, beams, endpoint=False)
    d = np.stack([np.cos(angles), np.sin(angles)], axis=-1)[:, None]  # (beams, 1, 2)
    a, edge = CORNERS - [pose.x, pose.y], np.roll(CORNERS, -1, axis=0) - CORNERS
    cross = d[..., 0] * edge[:, 1] - d[..., 1] * edge[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (a[:, 0] * edge[:, 1] - a[:, 1] * edge[:, 0]) / cross
        u = (a[:, 0] * d[..., 1] - a[:, 1] * d[..., 0]) / cross
    t = np.where((t > 0) & (u >= 0) & (u <= 1), t, np.inf)
    return Scan(stamp_ns, t.min(axis=1).astype(np.float32), -np.pi, 2 * np.pi / beams, 0.05, 20.0)


def drive(count: int = 150) -> list[Pose2]:
    phase = np.linspace(0, 2 * np.pi, count)
    return [Pose2(-1.0 + 1.2 * np.cos(p), 0.2 + 1.2 * np.sin(p), p + np.pi / 2) for p in phase]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "drive.npz"
    save_scans([scan_at(p, 10**9 + k * 10**8) for k, p in enumerate(drive())], path)
    return path


def test_a_recording_becomes_a_map_and_a_trajectory(recording: Path, tmp_path: Path, capsys) -> None:
    assert main(["slam", str(recording), "--out", str(tmp_path / "deep" / "out"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["scans"] == summary["scans_placed"] == 150
    assert summary["covered_s"] == pytest.approx(14.9)
    out = tmp_path / "deep" / "out"
    assert json.loads((out / "summary.json").read_text())["path_m"] == pytest.approx(summary["path_m"])
    stamps, poses = read_tum(out / "trajectory.tum")
    assert stamps[3] == 10**9 + 3 * 10**8
    truth = np.array([p.as_array() for p in drive()])
    error = absolute_error(poses, truth)
    assert error.rmse_m < 0.02
    assert error.rmse_deg < 0.5
    assert summary["path_m"] == pytest.approx(2 * np.pi * 1.2, rel=0.05)
    grid = load_map(out / "map.yaml")
    laid = error.T_truth_estimate.inverse()
    for (x, y), wanted in {(-1.0, 0.2): 0.0, (3.0, -1.0): 0.0}.items():
        cell = (grid.T_map_grid.inverse().apply(laid.apply([[x, y]]))[0] / grid.resolution_m).astype(int)
        assert grid.prob[cell[1], cell[0]] == wanted
    assert (out / "map.png").stat().st_size > 5000


def test_the_options_reach_the_map(recording: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "slam.yaml").write_text("max_points: 100\n")
    args = ["--out", str(tmp_path), "--resolution", "0.1", "--config", str(tmp_path / "slam.yaml")]
    assert main(["slam", str(recording), *args]) == 0
    assert "150 of 150" in capsys.readouterr().out
    assert load_map(tmp_path / "map.yaml").resolution_m == pytest.approx(0.1)
    assert json.loads((tmp_path / "summary.json").read_text())["options"]["max_points"] == 100


def test_bad_input_ends_in_one_sentence(recording: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "bad.yaml").write_text("speed_of_light: 3\n")
    empty = tmp_path / "empty.npz"
    save_scans([Scan(k, np.full(50, np.inf, dtype=np.float32), 0.0, 0.1, 0.1, 9.0) for k in range(5)], empty)
    cases = {
        "there is no such file": [str(tmp_path / "nothing.bag"), "--out", str(tmp_path / "out")],
        "cannot write": [str(recording), "--out", str(tmp_path / "file" / "out")],
        "unknown option": [str(recording), "--out", str(tmp_path), "--config", str(tmp_path / "bad.yaml")],
        "--resolution": [str(recording), "--out", str(tmp_path), "--resolution", "-1"],
        "no map could be made": [str(empty), "--out", str(tmp_path / "out")],
    }
    for sentence, args in cases.items():
        assert main(["slam", *args]) == 2
        told = capsys.readouterr().err
        assert sentence in told
        assert told.count("\n") == 1


def corridor_log() -> tuple[list[Scan], np.ndarray]:
    """A metre at a time, first along 12 m of a bare corridor, then past pillars: a scan every three seconds."""
    rng, walls = np.random.default_rng(0), [CORRIDOR]
    for x in np.arange(14.0, 34.0, 1.7):
        for side in (-1.0, 1.0):
            left, wide, inner = x + rng.uniform(0.0, 0.6), rng.uniform(0.2, 0.7), side * rng.uniform(0.5, 0.9)
            walls.append(polygon((left, side), (left + wide, side), (left + wide, inner), (left, inner)))
    poses = np.stack([np.arange(0.0, 33.0), np.zeros(33), np.zeros(33)], axis=-1)
    scans = [wall_scan_at(np.concatenate(walls), p, 10**9 * (1 + 3 * k), noise_m=0.01) for k, p in enumerate(poses)]
    return scans, poses


def test_the_steps_of_a_thinned_recording_are_known_from_its_first_scan_on() -> None:
    """Along a bare corridor standing still matches as well as a step."""
    scans, truth = corridor_log()
    run = run_slam(scans, SlamConfig(range_max_m=6.0))
    steps_m = np.diff(run.live.poses[:, 0])
    assert len(run.trajectory) == len(truth)
    assert np.abs(steps_m[:8] - 1.0).max() < 0.4
