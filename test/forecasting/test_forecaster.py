"""Forecasts: from the start, from the middle of a walk, at another hour, with walls, far from everything."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from svfm_ros.config.forecast_config import ForecastConfig, PathTrainConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.forecasting.fit import as_batch, train_paths
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.model_file import Footprints, WalkModelFile, load_walk_model, save_walk_model
from svfm_ros.forecasting.sampler import PathSampler
from svfm_ros.forecasting.tabulate import tabulate
from svfm_ros.forecasting.visit_density import density_grid
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.forecasting.walls import Walls
from svfm_ros.forecasting.wandering import wandering_index
from svfm_ros.types import OccupancyGrid, Place, Places, Pose2, Walk, WalkWindows

DT = 0.4
NOON_NS = 12 * 3600 * 10**9  # 1970-01-01, UTC
PLACES = Places((Place("north", 2.0, 2.0, 0.9, "#ff0000"), Place("south", 2.0, -2.0, 0.9, "#00ff00")))


def tee(count: int, seed: int = 0) -> WalkWindows:
    """East, then north or south: half and half by day, always north at night."""
    rng = np.random.default_rng(seed)
    rows, hours = [], []
    for i in range(count):
        night = i % 2 == 1
        turn = np.array([0.0, 1.0 if night or i % 4 == 0 else -1.0])
        s = np.arange(0.0, 4.0, 0.4 * np.exp(0.1 * rng.standard_normal()))[:, None]
        s = 4.0 - np.maximum(4.0 - s, 0.0) ** 1.3 / 4.0**0.3  # they slow down towards the end
        line = np.minimum(s, 2.0) * [1.0, 0.0] + np.maximum(s - 2.0, 0.0) * turn
        rows.append(line + rng.normal(0.0, 0.05, (1, 2)) + rng.normal(0.0, 0.01, line.shape))
        hours.append(rng.uniform(0.0, 4.0) if night else rng.uniform(10.0, 14.0))
    longest = max(map(len, rows))
    xy = np.stack([np.concatenate([r, np.repeat(r[-1:], longest - len(r), axis=0)]) for r in rows])
    valid = np.arange(longest) < np.array([len(r) for r in rows])[:, None]
    ids = tuple(f"w{i}" for i in range(count))
    return WalkWindows(xy, valid, DT, np.arange(count), np.array(hours), ids, ("r",) * count)


@pytest.fixture(scope="module")
def saved() -> WalkModelFile:
    windows = tee(48)
    trained = train_paths(as_batch(windows), DT, config=PathTrainConfig(steps=120))
    return WalkModelFile(trained.model, Footprints.of(windows), metrics={"nll": trained.nll})


@pytest.fixture(scope="module")
def forecaster(saved: WalkModelFile) -> Forecaster:
    return Forecaster(saved, PLACES)


def walk_of(xy: np.ndarray, dt: float = 0.1) -> Walk:
    stamps = NOON_NS + (np.arange(len(xy)) * dt * 1e9).astype(np.int64)
    return Walk("so-far", "r", stamps, np.column_stack([xy, np.zeros(len(xy))]))


def test_shapes_units_and_shares(forecaster: Forecaster):
    f = forecaster.forecast((0.0, 0.0), NOON_NS, horizon_s=5.0, samples=300)
    assert f.samples_xy.shape == (300, len(f.times_s), 2)
    assert f.times_s[0] == 0.0
    assert f.times_s[-1] == pytest.approx(5.0)
    np.testing.assert_allclose(f.samples_xy[:, 0], 0.0)
    assert sum(f.shares.values()) == pytest.approx(1.0)
    assert f.shares["north"] == pytest.approx(0.5, abs=0.12)
    assert f.shares["south"] == pytest.approx(0.5, abs=0.12)
    assert f.entropy == pytest.approx(np.log(2), abs=0.25)
    assert f.walks == 48
    assert f.known


def test_another_hour_another_answer(forecaster: Forecaster):
    f = forecaster.forecast((0.0, 0.0), NOON_NS, what_if_hour=2.0, samples=300)
    assert f.shares["north"] > 0.85
    assert f.entropy < 0.5


def test_the_walk_so_far_counts(forecaster: Forecaster):
    s = np.arange(0.0, 3.0, 0.1)[:, None]
    turned = np.minimum(s, 2.0) * [1.0, 0.0] + np.maximum(s - 2.0, 0.0) * [0.0, -1.0]
    f = forecaster.forecast(turned[-1], NOON_NS, walk_so_far=walk_of(turned), samples=200)
    assert f.shares["south"] > 0.85


def test_the_same_walk_asked_about_at_two_hours_gives_what_each_alone_would(saved: WalkModelFile):
    one, fresh = Forecaster(saved, PLACES), Forecaster(saved, PLACES)
    walk = walk_of(np.column_stack([np.linspace(0.0, 1.6, 17), np.zeros(17)]))
    one.forecast((1.6, 0.0), NOON_NS, walk_so_far=walk)
    shared = one.forecast((1.6, 0.0), NOON_NS, walk_so_far=walk, what_if_hour=2.0)
    alone = fresh.forecast((1.6, 0.0), NOON_NS, walk_so_far=walk, what_if_hour=2.0)
    np.testing.assert_array_equal(shared.samples_xy, alone.samples_xy)
    longer = walk_of(np.column_stack([np.linspace(0.0, 1.9, 20), np.linspace(0.0, 0.3, 20)]))
    moved_on = one.forecast((1.9, 0.3), NOON_NS, walk_so_far=longer)
    assert moved_on.shares == fresh.forecast((1.9, 0.3), NOON_NS, walk_so_far=longer).shares


def test_warming_up_changes_nothing(saved: WalkModelFile):
    warm, cold = Forecaster(saved, PLACES), Forecaster(saved, PLACES)
    warm.warm_up()
    np.testing.assert_array_equal(
        warm.forecast((0.0, 0.0), NOON_NS).samples_xy, cold.forecast((0.0, 0.0), NOON_NS).samples_xy
    )


def test_same_seed_same_paths_and_another_seed_others(forecaster: Forecaster):
    one, same, other = (forecaster.forecast((0.0, 0.0), NOON_NS, seed=s, samples=20) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.samples_xy, same.samples_xy)
    assert not np.array_equal(one.samples_xy, other.samples_xy)


def test_an_uncertain_start_spreads_the_starts(forecaster: Forecaster):
    covariance = np.diag([0.09, 0.01, 0.5])
    f = forecaster.forecast((0.0, 0.0, 0.3), NOON_NS, covariance=covariance, samples=4000, horizon_s=0.4)
    np.testing.assert_allclose(np.cov(f.samples_xy[:, 0].T), covariance[:2, :2], atol=0.01)


def test_far_from_every_walk_nothing_is_known(forecaster: Forecaster):
    f = forecaster.forecast((30.0, 0.0), NOON_NS, samples=5)
    assert not f.known
    assert f.walks == 0


def test_paths_go_round_walls_and_keep_their_destination(saved: WalkModelFile):
    prob = np.zeros((80, 80), dtype=np.float32)
    prob[40:60, 60:64] = 1.0  # a wall beside the way north, at x = 2.04 m
    grid = OccupancyGrid(prob, 0.1, Pose2(-3.96, -4.0, 0.0))
    free = Forecaster(saved, PLACES).forecast((0.0, 0.0), NOON_NS, samples=400)
    kept = Forecaster(saved, PLACES, walls=grid).forecast((0.0, 0.0), NOON_NS, samples=400)
    walls = Walls.of(grid)
    assert walls.crossed_by(free.samples_xy).mean() > 0.05
    assert walls.crossed_by(kept.samples_xy).mean() < 0.5 * walls.crossed_by(free.samples_xy).mean()
    assert kept.shares["north"] == pytest.approx(free.shares["north"], abs=0.1)


def test_walls_are_hit_between_two_positions():
    prob = np.full((10, 10), np.nan, dtype=np.float32)
    prob[:, 5] = 1.0
    walls = Walls.of(OccupancyGrid(prob, 0.1, Pose2(1.0, 0.0, 0.0)))
    across, beside, outside = [[1.1, 0.5], [1.9, 0.5]], [[1.1, 0.1], [1.1, 0.9]], [[9.0, 9.0], [11.0, 9.0]]
    np.testing.assert_array_equal(walls.crossed_by([across, beside, outside]), [True, False, False])


def test_tables_say_what_the_networks_say(saved: WalkModelFile):
    sampler, model = PathSampler(tabulate(saved.model)), saved.model
    rng = np.random.default_rng(0)
    xy = rng.uniform([0.0, -2.0], [2.0, 2.0], (200, 2)).astype(np.float32)
    component = rng.integers(model.config.components, size=200)
    row = sampler.table.look_up(xy[:, 0], xy[:, 1], component)
    with torch.no_grad():
        exact = model.unit(torch.as_tensor(xy)).a[np.arange(200), component].numpy()
        speed = torch.full((200,), 0.55)
        logit = model.end_logit(torch.as_tensor(xy), speed)[np.arange(200), component].numpy()
    assert np.abs(row[:, :2] - exact).max() < 0.02
    assert np.abs(sampler.table.end_logit(row, speed.numpy()) - logit).max() < 0.3
    with torch.no_grad():
        gate = model.log_prior(torch.as_tensor(xy), torch.full((200,), 7.5)).exp().numpy()
    np.testing.assert_allclose(sampler.prior(xy.astype(float), 7.5), gate, atol=1e-4)


def test_file_round_trip_keeps_everything(saved: WalkModelFile, tmp_path):
    save_walk_model(tmp_path / "m.pt", saved)
    found = load_walk_model(tmp_path / "m.pt")
    assert found.model_id == saved.model_id
    assert found.metrics == saved.metrics
    one, two = (Forecaster(m, PLACES).forecast((0.0, 0.0), NOON_NS, samples=10) for m in (saved, found))
    np.testing.assert_array_equal(one.samples_xy, two.samples_xy)


def test_damaged_and_foreign_files_are_refused(saved: WalkModelFile, tmp_path):
    save_walk_model(tmp_path / "m.pt", saved)
    whole = (tmp_path / "m.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="expected a svfm_ros walk model"):
        load_walk_model(tmp_path / "cut.pt")
    with pytest.raises(DataError):
        load_walk_model(tmp_path / "none.pt")
    with pytest.raises(UsageError, match="frame"):
        Forecaster(replace(saved, frame="house"), PLACES)


@pytest.mark.parametrize(
    "ask",
    [
        {"start": (np.nan, 0.0)},
        {"horizon_s": 0.0},
        {"samples": 0},
        {"covariance": np.diag([-1.0, 1.0])},
        {"covariance": np.eye(4)},
        {"what_if_hour": 25.0},
    ],
    ids=lambda ask: next(iter(ask)),
)
def test_bad_questions_are_refused(forecaster: Forecaster, ask: dict):
    with pytest.raises((DataError, UsageError), match="expected"):
        forecaster.forecast(**{"start": (0.0, 0.0), "stamp_ns": NOON_NS, **ask})


def test_density_counts_each_path_once_per_cell():
    paths = np.array([[[0.05, 0.05], [0.35, 0.05], [0.05, 0.05]], [[0.05, 0.05], [0.05, 0.05], [0.05, 0.05]]])
    grid = density_grid(paths, cell_m=0.1, margin_m=0.0)
    np.testing.assert_allclose(grid.prob, [[1.0, 0.5, 0.5, 0.5]])
    assert grid.T_map_grid.x == pytest.approx(0.0)


def test_config_decides_unless_asked(saved: WalkModelFile):
    f = Forecaster(saved, PLACES, ForecastConfig(samples=7, horizon_s=2.0)).forecast((0.0, 0.0), NOON_NS)
    assert f.samples_xy.shape == (7, 6, 2)


def test_more_is_left_open_by_day_than_at_night(forecaster: Forecaster) -> None:
    start = np.repeat([[0.0, 0.0]], 5, axis=0)
    walks = [replace(walk_of(start), stamps_ns=NOON_NS + h * 3600 * 10**9 + np.arange(5)) for h in (-10, -10, 0, 0)]
    far = replace(walk_of(start + 50.0), stamps_ns=NOON_NS + np.arange(5))
    report = wandering_index(forecaster, [*walks, far])
    night, noon = report.hours
    assert (night.hour, night.walks, noon.hour, noon.walks) == (2, 2, 12, 2)
    assert night.mean < noon.mean - 0.2
    assert (report.walks, report.unknown) == (4, 1)
    assert report.most == pytest.approx(np.log(2))


def test_paths_spread_wider_than_the_few_walks_they_were_learned_from(saved: WalkModelFile) -> None:
    few, many = (WalkModel(saved.model.config, DT) for _ in range(2))
    for model, walks in ((few, 20.0), (many, 2000.0)):
        model.load_state_dict(saved.model.state_dict())
        model.habit_walks[:] = 0.0
        model.habit_walks[0] = walks  # ten walks, and a thousand, for each of two fields
    start = np.tile(saved.footprints.xy[:1].astype(float), (50, 1))
    moves = []
    for model in (few, many):
        tabled = tabulate(model)
        exact = replace(tabled, config=replace(tabled.config, sensor_m=1e-4))
        sampler, rng = PathSampler(exact), np.random.default_rng(0)
        hidden = sampler.draw_start(start, 9.0, rng)
        same = replace(hidden, component=np.zeros(50, dtype=np.int64), pace=np.ones(50), pausing=np.zeros(50, bool))
        walked = sampler.sample(start, replace(same, step=10), 9.0, 1, rng)
        moves.append(walked.xy[:, 1] - walked.xy[:, 0])
    wide, narrow = (np.linalg.norm(m - m.mean(0), axis=1) for m in moves)
    np.testing.assert_allclose(wide / narrow, np.sqrt(11.0 / 9.0), rtol=0.02)
