"""``svfm simulate`` as people type it."""

import csv
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml
from rooms import drawing
from rosbags.highlevel import AnyReader

from svfm_ros.cli.main import main
from svfm_ros.config.options import load_yaml
from svfm_ros.config.sim_config import SimConfig
from svfm_ros.mapio import load_map


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def raw(path: Path) -> list[tuple[str, int, bytes]]:
    with AnyReader([path]) as reader:
        return [(c.topic, t, bytes(data)) for c, t, data in reader.messages()]


@pytest.fixture
def cabin(tmp_path: Path) -> str:
    path = tmp_path / "cabin.yaml"
    path.write_text(yaml.safe_dump(drawing()))
    return str(path)


def test_the_protocol_as_bags(tmp_path: Path, cabin: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["simulate", "--house", cabin, "--repeats", "2", "--out", str(out), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["walks"] == figures["bags"] == 4
    assert figures["walks_by_destination"] == {"kitchen": 2, "landing": 2}
    bags = sorted(p.parent for p in out.glob("*/metadata.yaml"))
    assert [b.name for b in bags] == ["walk-00000", "walk-00001", "walk-00002", "walk-00003"]
    assert sum(topic == "/scan" for b in bags for topic, _, _ in raw(b)) == figures["scans"]
    assert {r["walk_id"] for r in rows_of(out / "walks.csv")} == {b.name for b in bags}
    assert [r["origin"] for r in rows_of(out / "labels.csv")] == ["couch"] * 4
    assert load_yaml(SimConfig, out / "simulation.yaml") == SimConfig()


def test_the_same_command_gives_the_same_messages(tmp_path: Path, cabin: str) -> None:
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        command = ["simulate", "--house", cabin, "--one-bag", "--repeats", "1", "--seed", seed]
        assert main([*command, "--out", str(tmp_path / name)]) == 0
    a, b, c = (raw(tmp_path / name / "recording") for name in "abc")
    assert a == b
    assert a != c


def test_minutes_of_living_are_one_bag_of_that_length(
    tmp_path: Path, cabin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--house", cabin, "--minutes", "3", "--dwell", "8", "--storage", "sqlite3", "--json"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["recorded_s"] == pytest.approx(180.0)
    messages = raw(tmp_path / "out" / "recording")
    scans = [t for topic, t, _ in messages if topic == "/scan"]
    assert len(scans) == 1800
    assert np.all(np.diff(scans) == 100_000_000)
    assert (tmp_path / "out" / "recording" / "recording.db3").is_file()


def test_walks_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, labels = tmp_path / "walks.csv", tmp_path / "labels.csv"
    command = ["simulate", "--walks", "300", "--walks-csv", str(path), "--labels-csv", str(labels), "--json"]
    assert main(command) == 0
    assert path.read_text().startswith("walk_id,t,x,y\n")
    rows = rows_of(path)
    ids = [r["walk_id"] for r in rows]
    assert len(set(ids)) == 300
    assert ids == sorted(ids)
    t = np.array([float(r["t"]) for r in rows])
    assert 1.7e9 < t[0] < 2.0e9
    begins = np.array([True] + [a != b for a, b in pairwise(ids)])
    assert np.all(np.diff(t)[~begins[1:]] > 0)
    assert np.diff(t)[~begins[1:]] == pytest.approx(0.04, abs=1e-5)
    assert [r["walk_id"] for r in rows_of(labels)] == sorted(set(ids))
    assert json.loads(capsys.readouterr().out)["walks"] == 300


def test_effects_can_be_switched_off(tmp_path: Path, cabin: str) -> None:
    def config(*options: str) -> SimConfig:
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        assert main(["simulate", "--house", cabin, "--one-bag", "--repeats", "1", "--out", str(out), *options]) == 0
        return load_yaml(SimConfig, out / "simulation.yaml")

    effects = ("noise", "quantisation", "drops", "motion", "shadow", "sway")
    assert not any(getattr(config("--ideal").lidar, e) for e in effects)
    one = config("--no-shadow", "--no-sway").lidar
    assert [e for e in effects if not getattr(one, e)] == ["shadow", "sway"]


def test_a_config_file_is_heard(tmp_path: Path, cabin: str) -> None:
    path = tmp_path / "sim.yaml"
    path.write_text("lidar: {beams: 90, rate_hz: 5.5}\nwalker: {rate_hz: 10}\n")
    command = ["simulate", "--house", cabin, "--one-bag", "--repeats", "1", "--config", str(path)]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    with AnyReader([tmp_path / "out" / "recording"]) as reader:
        connection = [c for c in reader.connections if c.topic == "/scan"]
        _, _, data = next(reader.messages(connection))
        assert len(reader.deserialize(data, connection[0].msgtype).ranges) == 90


def test_a_resident_of_a_random_house(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    walks, drawn, labels = tmp_path / "walks.csv", tmp_path / "drawn.yaml", tmp_path / "labels.csv"
    command = ["simulate", "--house", "random:7", "--resident", "3", "--weekend", "--change-day", "4", "--json"]
    assert main([*command, "--walks", "120", "--walks-csv", str(walks), "--export-house", str(drawn)]) == 0
    assert json.loads(capsys.readouterr().out)["walks"] == 120
    assert len({r["walk_id"] for r in rows_of(walks)}) == 120
    again = ["simulate", "--house", str(drawn), *command[3:], "--walks", "120", "--labels-csv", str(labels)]
    assert main(again) == 0
    assert json.loads(capsys.readouterr().out)["walks"] == 120
    assert rows_of(labels)[0]["walk_id"] == "resident-3-00000"


def test_walks_in_utm_are_the_same_walks_elsewhere(tmp_path: Path, cabin: str) -> None:
    for name, extra in (("plain", []), ("utm", ["--shift", "500000", "5700000"])):
        out = tmp_path / name
        exports = ["--export-places", str(out / "places.yaml"), "--export-map", str(out / "map.yaml")]
        assert main(["simulate", "--house", cabin, "--repeats", "1", "--out", str(out), *exports, *extra]) == 0
    a, b = (rows_of(tmp_path / name / "walks.csv") for name in ("plain", "utm"))
    moved = np.array(
        [[float(v["x"]) - float(u["x"]), float(v["y"]) - float(u["y"])] for u, v in zip(a, b, strict=True)]
    )
    assert np.abs(moved - [500000.0, 5700000.0]).max() < 2e-4
    places = [yaml.safe_load((tmp_path / n / "places.yaml").read_text())["places"][0] for n in ("plain", "utm")]
    assert places[1]["y"] - places[0]["y"] == pytest.approx(5700000.0)
    grids = [load_map(tmp_path / n / "map.yaml") for n in ("plain", "utm")]
    assert grids[1].T_map_grid.x - grids[0].T_map_grid.x == pytest.approx(500000.0)
    with AnyReader([tmp_path / "utm" / "walk-00000"]) as reader:
        connection = [c for c in reader.connections if c.topic == "/ground_truth/pose"]
        _, _, data = next(reader.messages(connection))
        assert reader.deserialize(data, connection[0].msgtype).pose.position.y > 5.6e6


def test_imu_and_odometry_are_recorded_on_demand(tmp_path: Path, cabin: str) -> None:
    command = ["simulate", "--house", cabin, "--repeats", "1", "--one-bag", "--out", str(tmp_path / "out")]
    assert main([*command, "--imu", "--odometry", "--people", "1", "--doors", "--worse-lidar", "--turn-rate", "4"]) == 0
    messages = raw(tmp_path / "out" / "recording")
    count = {topic: sum(t == topic for t, _, _ in messages) for topic in ("/imu", "/odom", "/scan")}
    stamps = [t for _, t, _ in messages]
    assert stamps == sorted(stamps)
    assert count["/imu"] == pytest.approx(100 / 5.5 * count["/scan"], rel=0.02)
    assert count["/odom"] == pytest.approx(20 / 5.5 * count["/scan"], rel=0.02)
    with AnyReader([tmp_path / "out" / "recording"]) as reader:
        for connection, _, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            if connection.topic == "/imu":
                force = message.linear_acceleration
                assert 5.0 < np.hypot(np.hypot(force.x, force.y), force.z) < 15.0
                assert message.orientation_covariance[0] == -1.0
            if connection.topic == "/odom":
                assert (message.header.frame_id, message.child_frame_id) == ("odom", "laser")


def test_map_and_places_are_exported(tmp_path: Path, cabin: str) -> None:
    command = ["simulate", "--house", cabin, "--export-map", str(tmp_path / "map.yaml")]
    assert main([*command, "--export-places", str(tmp_path / "places.yaml")]) == 0
    assert np.nanmax(load_map(tmp_path / "map.yaml").prob) == 1.0
    places = yaml.safe_load((tmp_path / "places.yaml").read_text())["places"]
    assert [p["name"] for p in places] == ["couch", "kitchen", "landing"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "expected something to write"),
        (["--house", "castle", "--walks-csv", "x.csv"], "castle"),
        (["--one-bag", "--minutes", "3", "--out", "x"], "--one-bag with the protocol alone"),
        (["--minutes", "0.1", "--out", "x"], "expected time for at least one walk"),
        (["--export-map", "map.pgm"], "ends in .yaml"),
        (["--house", "random:x", "--walks-csv", "x.csv"], "whole number after random:"),
        (["--export-house", "x.yaml"], "a house drawn at random"),
        (["--resident", "3", "--out", "x"], "--walks, --days or --minutes with --resident"),
        (["--weekend", "--walks", "3", "--out", "x"], "expected --resident with --weekend"),
        (["--config", "missing.yaml", "--out", "x"], "cannot read missing.yaml"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_older_bags_stay_unless_overwriting_is_asked_for(
    tmp_path: Path, cabin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["simulate", "--house", cabin, "--repeats", "1", "--out", str(out)]
    assert main([*command, "--seed", "1"]) == 0
    before, truth = raw(out / "walk-00000"), (out / "walks.csv").read_text()
    assert main([*command, "--seed", "2"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (raw(out / "walk-00000"), (out / "walks.csv").read_text()) == (before, truth)
    assert main([*command, "--seed", "2", "--overwrite"]) == 0
    assert raw(out / "walk-00000") != before
