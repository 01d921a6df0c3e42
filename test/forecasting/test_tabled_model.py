"""A model as tables: what the walk so far says, and the file beside the model."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from svfm_ros.config.forecast_config import WalkModelConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.footprints import Footprints
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import WalkModelFile, save_walk_model
from svfm_ros.forecasting.step_evidence import see_steps
from svfm_ros.forecasting.table_file import ForecastFile, open_model, tables_path
from svfm_ros.forecasting.tabled_model import see_in_table
from svfm_ros.forecasting.tabulate import tabulate
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.types import Walk

DT_S = 0.5
NOON_NS = 12 * 3600 * 10**9


def model_of(seed: int = 0, ends: bool = True) -> WalkModel:
    """Networks of no particular meaning, on a small floor."""
    model = WalkModel(WalkModelConfig(components=3, ends=ends), DT_S, seed=seed)
    with torch.no_grad():
        model.low.fill_(-2.0)
        model.high.fill_(2.0)
    return model.eval()


def file_of(model: WalkModel) -> WalkModelFile:
    xy = np.random.default_rng(0).uniform(-1.5, 1.5, (60, 2)).astype(np.float32)
    return WalkModelFile(model, Footprints(xy, np.arange(60) // 20), "map", "UTC", {"walks_seen": 3, "nll": -1.5})


@pytest.mark.parametrize("ends", [False, True])
def test_tables_say_what_networks_say(ends: bool) -> None:
    """At the nodes of the table there is nothing between them to guess; the speeds of ends have six nodes of theirs."""
    model = model_of(ends=ends)
    tabled = tabulate(model)
    low, cell_m = tabled.table.low.astype(float), tabled.table.cell_m
    nodes = np.array([[20, 20], [24, 22], [30, 22], [30, 23], [30, 23], [33, 30], [36, 38], [40, 44]])
    xy = low + cell_m * nodes
    by_networks, by_tables = see_steps(model, xy), see_in_table(tabled, xy)
    for name in ("eps_v", "eps_u"):
        np.testing.assert_allclose(getattr(by_tables, name), getattr(by_networks, name), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(by_tables.log_says, by_networks.log_says, rtol=2e-3, atol=0.05 if ends else 5e-3)


def test_between_the_nodes_they_differ_by_little() -> None:
    model = model_of()
    xy = np.cumsum(np.random.default_rng(1).normal(0.05, 0.06, (12, 2)), axis=0) - 0.4
    by_networks, by_tables = see_steps(model, xy), see_in_table(tabulate(model), xy)
    assert np.abs(by_tables.log_says - by_networks.log_says).max() < 0.1


def test_bad_positions_are_refused() -> None:
    tabled = tabulate(model_of())
    for bad in (np.zeros((1, 2)), np.zeros((3, 3)), np.full((3, 2), np.nan)):
        with pytest.raises(DataError, match="walk so far"):
            see_in_table(tabled, bad)


def asked(file: ForecastFile | WalkModelFile) -> np.ndarray:
    stamps = NOON_NS + np.arange(6) * 5 * 10**8
    poses = np.column_stack([np.linspace(-0.5, 0.5, 6), np.zeros(6), np.zeros(6)])
    found = Forecaster(file).forecast(
        (0.5, 0.0), int(stamps[-1]), walk_so_far=Walk("w", "r", stamps, poses), samples=50
    )
    return found.samples_xy


def test_tables_are_made_once_and_forecast_the_same(tmp_path: Path) -> None:
    path, saved = tmp_path / "model.pt", file_of(model_of())
    save_walk_model(path, saved)
    made = open_model(path)
    assert tables_path(path).exists()
    read = open_model(path)
    assert isinstance(read, ForecastFile)
    assert (read.model_id, read.frame, read.time_zone) == (saved.model_id, saved.frame, saved.time_zone)
    assert read.metrics == saved.metrics
    assert read.model.config == saved.model.config
    assert read.footprints.walks == 3
    wanted = asked(saved)
    assert np.array_equal(asked(made), wanted)
    assert np.array_equal(asked(read), wanted)


def test_tables_of_another_model_and_damaged_ones_are_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_walk_model(path, file_of(model_of(seed=1)))
    first = open_model(path).model_id
    save_walk_model(path, file_of(model_of(seed=2)))
    second = open_model(path)
    assert second.model_id != first
    for damage in (b"", b"nonsense", tables_path(path).read_bytes()[:-100]):
        tables_path(path).write_bytes(damage)
        assert open_model(path).model_id == second.model_id
        assert len(tables_path(path).read_bytes()) > 1000


def test_a_missing_or_damaged_model_is_refused_tables_or_not(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_walk_model(path, file_of(model_of()))
    open_model(path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match="damaged"):
        open_model(path)
    path.unlink()
    with pytest.raises(DataError, match="got no file"):
        open_model(path)


def test_a_forecast_from_tables_needs_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save_walk_model(path, file_of(model_of()))
    open_model(path)
    program = (
        "import sys; from svfm_ros.forecasting.forecaster import Forecaster; "
        f"Forecaster({str(path)!r}).forecast((0.0, 0.0), 0, samples=10); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
