"""Forecasters behind one door: on walks with a known answer, and the judge that compares them."""

from pathlib import Path

import numpy as np
import pytest
from benchlib.comparators import (
    Bootstrap,
    ConstantVelocity,
    Question,
    flattened,
)
from benchlib.forecast_scores import ask_from_start, ask_from_within, kernel_nll, score
from benchlib.paper_forecasters import paper_forecasters
from benchlib.real_walks import Egocentric, as_windows, load_edinburgh, load_eth_ucy, load_thor
from benchlib.step_density import kernel_step_nll, straight_step_nll

from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

DT = 0.4


def straight(count: int, steps: int = 12, seed: int = 0, noise_m: float = 0.0) -> WalkWindows:
    """From near the origin eastwards, 0.5 m a step."""
    rng = np.random.default_rng(seed)
    line = np.arange(steps)[:, None] * [0.5, 0.0]
    xy = line + rng.normal(0.0, 0.1, (count, 1, 2)) + noise_m * rng.standard_normal((count, steps, 2))
    ids = tuple(f"w{i}" for i in range(count))
    valid = np.ones((count, steps), dtype=np.bool_)
    return WalkWindows(xy, valid, DT, np.arange(count), np.full(count, 9.0), ids, ids)


def test_constant_velocity_goes_on_as_before() -> None:
    forecaster = ConstantVelocity()
    forecaster.fit(straight(5))
    paths = forecaster.sample(Question(np.array([[3.0, 1.0], [3.0, 1.5]]), 9.0, 4, samples=7))
    np.testing.assert_allclose(paths, np.broadcast_to([3.0, 1.5] + np.arange(5)[:, None] * [0.0, 0.5], (7, 5, 2)))
    unknown = forecaster.sample(Question(np.array([[0.0, 0.0]]), 9.0, 4, samples=50))
    np.testing.assert_allclose(np.linalg.norm(unknown[:, -1], axis=1), 2.0)  # the speed is known, the heading is not


def test_replay_replays() -> None:
    walks = straight(6)
    forecaster = Bootstrap()
    forecaster.fit(walks)
    paths = forecaster.sample(Question(np.zeros((1, 2)), 9.0, 15, samples=40))
    known = flattened(walks, 15)
    assert all(np.abs(known - path).max(axis=(1, 2)).min() == 0.0 for path in paths)
    later = forecaster.sample(Question(walks.xy[2, :5], 9.0, 3, samples=5))
    np.testing.assert_allclose(later[:, 0], np.broadcast_to(walks.xy[2, 4], (5, 2)))
    with pytest.raises(DataError):
        Bootstrap().sample(Question(np.zeros((1, 2)), 9.0, 3))


def test_the_paper_s_models_learn() -> None:
    walks = straight(16, noise_m=0.02)
    asked = ask_from_start(straight(4, seed=5), 10, samples=30)
    for forecaster in paper_forecasters(ticks=10, budget_s=60.0, components=2):
        found = []
        for steps in (1, 25):
            forecaster.most_steps = steps
            forecaster.fit(walks)
            found.append(forecaster.nll(asked.truth, asked.lengths))
        assert found[1] < found[0] - 0.3, forecaster.name
        assert forecaster.sample(asked.questions[0]).shape == (30, 11, 2)


def test_own_frame_turns_with_the_walker() -> None:
    pieces = straight(10, steps=20, noise_m=0.05)
    forecaster = Egocentric(Bootstrap(kernel_m=0.5), past=8)
    forecaster.fit(pieces)
    seen = pieces.xy[0, :8]
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    here = forecaster.sample(Question(seen, 9.0, 12, samples=9))
    there = forecaster.sample(Question(2.0 * seen @ turn.T + [5.0, 7.0], 9.0, 12, samples=9))
    np.testing.assert_allclose(there, 2.0 * here @ turn.T + [5.0, 7.0], atol=1e-9)


def test_the_judge_prefers_the_truth() -> None:
    asked = ask_from_within(straight(12, steps=20, seed=3), past=8, samples=20)
    right, wrong = ConstantVelocity(), Bootstrap("stands still")
    right.fit(straight(6))
    still = straight(6)
    wrong.fit(
        WalkWindows(still.xy * 0.0, still.valid, DT, still.start_ns, still.start_hour, still.walk_ids, still.residents)
    )
    a, b = score(right, asked, 0.0), score(wrong, asked, 0.0)
    assert a.nll < b.nll - 1.0
    assert a.energy_m < b.energy_m
    assert a.min_ade20_m == pytest.approx(0.0, abs=1e-9)
    assert b.min_fde20_m == pytest.approx(6.0, abs=1e-6)


def test_kernel_density_of_samples_integrates_to_one() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(0.0, 0.3, (50, 1, 2))
    side = np.linspace(-2.5, 2.5, 101)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 1, 2)
    density = sum(float(np.exp(-kernel_nll(samples, at)[0])) for at in grid)
    assert density * (side[1] - side[0]) ** 2 == pytest.approx(1.0, abs=0.01)


def test_densities_of_steps() -> None:
    train, same, other = (
        straight(30, noise_m=0.02),
        straight(20, seed=9, noise_m=0.02),
        straight(20, seed=9, noise_m=0.2),
    )
    for nll in (straight_step_nll, kernel_step_nll):
        assert nll(train, same) < nll(train, other) - 1.0


def test_real_tracks_are_read(tmp_path: Path) -> None:
    (tmp_path / "eth_ucy").mkdir()
    (tmp_path / "thor").mkdir()
    (tmp_path / "eth_ucy" / "biwi_hotel.txt").write_text("0\t1.0\t0.0\t0.0\n10\t1.0\t0.5\t0.0\n10\t2.0\t9.0\t9.0\n")
    (tmp_path / "thor" / "thor1_exp-1-run-2.csv").write_text("0.0,7,1,1,0,0\n0.4,7,1.5,1,0,0\n0.8,7,2,1,0,0\n")
    (tmp_path / "tracks.01Aug.txt").write_text("% two\nProperties.R1=[1 2];\n TRACK.R1=[[100 0 9];[200 0 18]];\n")
    hotel, thor, forum = load_eth_ucy(tmp_path, "hotel"), load_thor(tmp_path), load_edinburgh(tmp_path)
    assert [len(w.stamps_ns) for w in hotel] == [2]
    assert hotel[0].times_s[-1] == pytest.approx(0.4)
    assert as_windows(thor).xy.shape == (1, 3, 2)
    assert forum[0].xy[-1, 0] - forum[0].xy[0, 0] == pytest.approx(2.47)
    assert forum[0].times_s[-1] == pytest.approx(1.0)
    with pytest.raises(DataError, match="mars"):
        load_eth_ucy(tmp_path, "mars")
    with pytest.raises(DataError, match="cannot read"):
        load_thor(tmp_path / "nowhere")
