"""The wandering index: known entropies, one scale for every destination, intervals that hold the truth."""

import math

import numpy as np
import pytest

from svfm_ros.errors import DataError
from svfm_ros.forecasting.wandering import NextWalks, entropy_draws


def walks(shares: np.ndarray, count: int, seed: int) -> NextWalks:
    """From place 0 at any hour of forty days, to places with these shares; the last share is elsewhere."""
    rng = np.random.default_rng(seed)
    end = rng.choice(len(shares), size=count, p=shares)
    end = np.where(end == len(shares) - 1, -1, end)
    day = np.sort(rng.integers(40, size=count))
    return NextWalks(np.zeros(count, dtype=int), end, rng.uniform(0.0, 24.0, count), day, len(shares) - 1)


def test_a_routine_leaves_nothing_open_and_a_wanderer_everything() -> None:
    mean, low, high = entropy_draws(walks(np.array([0.0, 1.0, 0.0, 0.0]), 300, 0), cells=24).interval()
    assert high < 0.1
    everywhere = np.full(4, 0.25)  # the place they are at and elsewhere count like all others
    mean, low, high = entropy_draws(walks(everywhere, 800, 0), cells=24).interval()
    assert mean == pytest.approx(math.log(4), abs=0.03)
    assert low < mean < high <= math.log(4)


def test_no_index_is_above_its_scale() -> None:
    for seed in range(5):
        draws = entropy_draws(walks(np.full(4, 0.25), 30, seed), seed=seed, cells=24)
        assert draws.each.max() <= math.log(4) + 1e-9


def test_the_interval_holds_the_true_entropy_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    held = 0
    for trial in range(40):
        shares = np.append(rng.dirichlet(np.full(4, 1.0)), 0.0)
        true = -float(np.sum(shares[:4] * np.log(shares[:4])))
        _, low, high = entropy_draws(walks(shares, 120, trial), 100, trial, 24).interval()
        held += low <= true <= high
    assert 0.75 <= held / 40 <= 1.0


def test_many_walks_tell_the_hours_of_a_change_apart() -> None:
    """Someone strict has another destination from 12:07:30 and 17:07:30 on: nothing is open, all entropy is error."""
    rng = np.random.default_rng(2)
    hour = rng.uniform(7.0, 23.0, 700)
    end = np.searchsorted([12.125, 17.125], hour)
    asked = NextWalks(np.zeros(700, dtype=int), end, hour, np.sort(rng.integers(28, size=700)), 3)
    fine, _, _ = entropy_draws(asked).interval()
    coarse, _, _ = entropy_draws(asked, cells=96).interval()
    assert fine < 0.8 * coarse


def test_bad_input_is_refused() -> None:
    nothing = np.zeros(0, dtype=int)
    with pytest.raises(DataError, match="got none"):
        entropy_draws(NextWalks(nothing, nothing, np.zeros(0), nothing, 3))
    with pytest.raises(DataError, match="from -1 to 2"):
        NextWalks(np.array([0]), np.array([3]), np.array([1.0]), np.array([1]), 3)
