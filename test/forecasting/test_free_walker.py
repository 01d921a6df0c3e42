"""The free walker: the same person at another time step, in another direction, at another position."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from svfm_ros.errors import DataError
from svfm_ros.forecasting.batched.free_walker_torch import next_move
from svfm_ros.forecasting.fit.free_walker_fit import _rests, _set_off, adapt, with_sway
from svfm_ros.forecasting.free_walker import (
    FEATURES,
    FREE_ANY,
    FREE_COLUMNS,
    GOING,
    HIDDEN,
    MEMORY,
    OUTPUTS,
    PARTS,
    FreeWalkerPrior,
    free_log_densities,
    free_predict,
)


@pytest.fixture(scope="module")
def weights():  # type: ignore[no-untyped-def]
    return FreeWalkerPrior.load().free.parts


@pytest.fixture(scope="module")
def track():  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    return np.cumsum([0.4, 0.05] + 0.03 * rng.standard_normal((10, 2)), axis=0)


def log_densities(xy, weights, variance=0.0, ticks=1.0):  # type: ignore[no-untyped-def]
    out = np.empty((len(xy) - 1, FREE_COLUMNS))
    free_log_densities(np.ascontiguousarray(xy), np.full(len(out), variance), weights, ticks, out)
    return out[:, FREE_ANY]


def test_a_longer_time_step_scales_moves_and_their_noise(track, weights) -> None:  # type: ignore[no-untyped-def]
    """Twice the step: moves are twice as long, variances four times as large, densities in 2D a quarter."""
    ours = log_densities(track, weights, 0.01)
    theirs = log_densities(2.0 * track, weights, 0.04, ticks=2.0)
    assert theirs == pytest.approx(ours - 2.0 * np.log(2.0))


def test_position_and_direction_do_not_matter(track, weights) -> None:  # type: ignore[no-untyped-def]
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    moved = log_densities(track @ turn + [7.0, -3.0], weights)
    assert moved[1:] == pytest.approx(log_densities(track, weights)[1:], abs=1e-9)


def test_steady_walking_is_likelier_than_a_jump(track, weights) -> None:  # type: ignore[no-untyped-def]
    jump = track.copy()
    jump[-1] += [0.0, 1.5]
    assert log_densities(track, weights)[-1] > log_densities(jump, weights)[-1] + 3.0


def test_uncertain_positions_widen_the_density(track, weights) -> None:  # type: ignore[no-untyped-def]
    jump = track.copy()
    jump[-1] += [0.0, 0.5]
    assert log_densities(jump, weights, 0.1)[-1] > log_densities(jump, weights)[-1]


def test_a_wrong_file_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "prior").write_bytes(b"something")
    with pytest.raises(DataError, match="population prior"):
        FreeWalkerPrior.load(tmp_path / "prior")


def test_numbers_of_the_population_come_back_from_the_file(tmp_path: Path) -> None:
    shipped = FreeWalkerPrior.load()
    prior = replace(shipped, numbers={"pace_var": np.array([-4.0, 25.0])})
    prior.save(tmp_path / "prior.pt")
    assert FreeWalkerPrior.load(tmp_path / "prior.pt").numbers["pace_var"] == pytest.approx([-4.0, 25.0])
    replace(shipped, numbers={"pace_var": np.array([-4.0, -1.0])}).save(tmp_path / "bad.pt")
    with pytest.raises(DataError, match="mean and precision"):
        FreeWalkerPrior.load(tmp_path / "bad.pt")


def parts_after(moves, weights, known=MEMORY):  # type: ignore[no-untyped-def]
    """Direction (2) and parts (PARTS, 5) of the next move after moves (MEMORY, 2), newest first."""
    parts = np.zeros((PARTS, 5))
    scratch = np.zeros(FEATURES), np.zeros((2, HIDDEN)), np.zeros(OUTPUTS)
    ux, uy, _, _ = free_predict(np.ascontiguousarray(moves), known, weights, *scratch, parts)
    return np.array([ux, uy]), parts


def test_who_stands_mostly_stays_and_who_walks_mostly_goes_on(weights) -> None:  # type: ignore[no-untyped-def]
    _, standing = parts_after(np.full((MEMORY, 2), 0.001), weights)
    _, walking = parts_after(np.tile([0.5, 0.0], (MEMORY, 1)), weights)
    assert standing[GOING, 0] > 0.5
    assert walking[GOING, 0] < 0.05
    for parts in (standing, walking):
        assert parts[:, 0].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("step_m", [0.4, 0.0])
@pytest.mark.parametrize("known", [1, 3, MEMORY])
def test_torch_and_compiled_agree(known: int, step_m: float) -> None:
    rng = np.random.default_rng(known)
    spread_m = 0.1 if step_m else 0.02
    moves = np.where(np.arange(MEMORY)[:, None] < known, step_m + spread_m * rng.standard_normal((MEMORY, 2)), 0.0)
    free = replace(FreeWalkerPrior.load().free, sway=np.array([0.7, 0.8]))
    direction, parts = parts_after(moves, free.parts, known)
    tensors = {n: torch.as_tensor(x) for n, x in free.arrays().items()}
    found = next_move(tensors, torch.as_tensor(moves, dtype=torch.float32), torch.tensor(known))
    assert found.direction.numpy() == pytest.approx(direction, abs=1e-5)
    assert found.log_share.exp().numpy() == pytest.approx(parts[:, 0], abs=1e-4)
    assert found.centre.numpy() == pytest.approx(parts[:, 1:3], abs=1e-4)
    assert found.scale.numpy() == pytest.approx(parts[:, 3:], abs=1e-4)


def test_leaving_a_position_is_counted_once_per_rest() -> None:
    """Ten ticks at one position, five on the way, ten at another: one left, 3 + 3 ticks of standing."""
    stands = np.zeros((11, 2))
    walks = np.column_stack([np.arange(1.0, 6.0), np.zeros(5)])
    xy = np.concatenate([stands, walks, np.full((10, 2), [5.0, 0.0])])
    assert _rests([xy]) == (1, 6)
    assert _set_off(1, 6, usual=0.06)[0] == pytest.approx((1 + 0.06 * 25) / (6 + 25))


def test_where_nobody_who_stands_leaves_the_walker_learns_to_stay() -> None:
    rng = np.random.default_rng(0)
    waiting = [0.01 * rng.standard_normal((100, 2)) for _ in range(10)]
    prior = FreeWalkerPrior.load()
    adapted = adapt(prior, waiting, strength=100.0, steps=2)
    assert adapted.set_off[0] < 0.1 * prior.free.set_off[0]
    assert adapted.sets_off(0.8) == pytest.approx(1.0 - (1.0 - adapted.set_off[0]) ** 2)


def standing(moving_m: float, noise_m: float) -> list[np.ndarray]:
    """Twenty people who stand for 40 s: positions drift by ``moving_m`` per tick, each with its own noise."""
    rng = np.random.default_rng(0)
    drift = np.cumsum(moving_m * rng.standard_normal((20, 100, 2)), axis=1)
    return list(drift + noise_m * rng.standard_normal((20, 100, 2)))


def test_noise_of_positions_is_led_back_and_drift_is_not() -> None:
    """Of independent noise of seven positions, the next is expected at their mean, with variance 8/7 instead of 2."""
    free = FreeWalkerPrior.load().free
    noisy, drifting = with_sway(free, standing(0.0, 0.02)), with_sway(free, standing(0.02, 0.0))
    assert noisy.sway == pytest.approx([1.0, np.sqrt(4.0 / 7.0)], abs=0.06)
    assert drifting.sway == pytest.approx([0.0, 1.0], abs=0.3)


def test_who_stands_with_noisy_positions_is_drawn_back_and_who_walks_is_not(weights) -> None:  # type: ignore[no-untyped-def]
    """After 0.01 m to the side, the mean of seven positions lies 6/7 of it back."""
    swaying = (*weights[:-1], np.array([0.5, 1.0]))
    aside = np.zeros((MEMORY, 2))
    aside[0] = [0.0, 0.01]
    direction, parts = parts_after(aside, swaying)
    along, across = parts[GOING, 1:3]
    back = along * direction[1] + across * direction[0]
    assert back == pytest.approx(-0.5 * 0.01 * 6.0 / 7.0, rel=1e-3)
    _, walking = parts_after(np.tile([0.5, 0.0], (MEMORY, 1)), swaying)
    assert walking[GOING, 1:3] == pytest.approx([0.0, 0.0], abs=1e-3)
