"""Habits by the hour: against a sum over all ways to cut a short day, and on days with a known change."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.errors import DataError
from svfm_ros.forecasting.fit import hour_shares
from svfm_ros.forecasting.fit.hour_shares import HourPosterior, counts_by_hour, fit_hours
from svfm_ros.forecasting.habits import CELLS


def posterior(hours, choice, base, cells: int = CELLS) -> HourPosterior:  # type: ignore[no-untyped-def]
    """Of walks from one origin."""
    hours = np.asarray(hours, dtype=float)
    counts = counts_by_hour(hours, np.zeros(len(hours), dtype=int), choice, 1, cells)
    return fit_hours(counts, np.tile(np.asarray(base, dtype=float), (cells, 1, 1)))


def shares_by_hour(hours, choice, base, cells: int = CELLS):  # type: ignore[no-untyped-def]
    return posterior(hours, choice, base, cells).mean[0]


def by_hand(cell: np.ndarray, choice: np.ndarray, base: np.ndarray, cells: int) -> np.ndarray:
    """Every set of changes, one by one."""
    total, mean = 0.0, np.zeros((cells, len(base)))
    for strength, changes in itertools.product(hour_shares._CONCENTRATIONS, hour_shares._CHANGES):
        rate, alpha = changes / cells, strength * base / base.sum()
        for borders in itertools.product((0, 1), repeat=cells):
            cut = [i for i, there in enumerate(borders) if there] or [0]
            prior = math.prod(rate if there else 1.0 - rate for there in borders)
            pieces = [np.arange(a, b) % cells for a, b in itertools.pairwise([*cut, cut[0] + cells])]
            weight, shares = prior, np.zeros((cells, len(base)))
            for piece in pieces:
                counts = choice[np.isin(cell, piece)].sum(0)
                weight *= math.exp(
                    math.lgamma(alpha.sum())
                    - math.lgamma(alpha.sum() + counts.sum())
                    + sum(math.lgamma(c + a) - math.lgamma(a) for c, a in zip(counts, alpha, strict=True))
                )
                shares[piece] = (counts + alpha) / (counts.sum() + alpha.sum())
            total += weight
            mean += weight * shares
    return mean / total


def test_the_recursion_is_the_sum_over_all_ways_to_cut_the_day() -> None:
    rng = np.random.default_rng(3)
    cells, base = 9, np.array([0.5, 0.3, 0.2])
    hours = rng.uniform(0.0, 24.0, 14)
    choice = np.eye(3)[rng.integers(3, size=14)]
    found = shares_by_hour(hours, choice, base, cells)
    expected = by_hand(np.floor(hours / 24.0 * cells).astype(int), choice, base, cells)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_change_at_ten_in_the_evening_is_found_where_it_is() -> None:
    rng = np.random.default_rng(0)
    hours = rng.uniform(0.0, 24.0, 400)
    night = (hours >= 22.0) | (hours < 6.0)
    choice = np.eye(2)[np.where(night, rng.random(400) < 0.1, rng.random(400) < 0.6).astype(int)]
    found = shares_by_hour(hours, choice, np.ones(2))
    middle = (np.arange(CELLS) + 0.5) * 24.0 / CELLS
    asleep, awake = (middle > 23.0) | (middle < 5.0), (middle > 7.0) & (middle < 21.0)
    assert np.abs(found[asleep, 1] - choice[night, 1].mean()).max() < 0.02
    assert np.abs(found[awake, 1] - choice[~night, 1].mean()).max() < 0.04


def test_where_nothing_changes_the_day_is_flat() -> None:
    rng = np.random.default_rng(1)
    choice = np.eye(4)[rng.integers(4, size=200)]
    found = shares_by_hour(rng.uniform(0.0, 24.0, 200), choice, np.ones(4))
    assert np.ptp(found, axis=0).max() < 0.1
    np.testing.assert_allclose(found.mean(0), choice.mean(0), atol=0.03)
    assert np.abs(found.mean(0) - 0.25).max() < np.abs(choice.mean(0) - 0.25).max()  # drawn to what is expected


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 23.99), st.integers(0, 2)), max_size=12),
    st.floats(0.0, 24.0),
)
def test_shares_add_up_and_the_clock_may_be_turned(walks: list[tuple[float, int]], turn: float) -> None:
    hours, kind = np.array([w[0] for w in walks]), [w[1] for w in walks]
    choice = np.eye(3)[kind] if walks else np.zeros((0, 3))
    steps = round(turn)
    found = shares_by_hour(hours, choice, np.ones(3), 24)
    turned = shares_by_hour((np.floor(hours) + 0.5 + steps) % 24.0, choice, np.ones(3), 24)
    np.testing.assert_allclose(found.sum(1), 1.0)
    assert found.min() > 0.0
    np.testing.assert_allclose(np.roll(found, steps, axis=0), turned, rtol=1e-6)


def test_bad_input_is_refused() -> None:
    with pytest.raises(DataError):
        shares_by_hour(np.zeros(3), np.ones((2, 2)), np.ones(2))
    with pytest.raises(DataError):
        fit_hours(np.zeros((4, 1, 2)), np.ones((4, 2, 2)))


def test_draws_have_the_mean_of_the_posterior() -> None:
    rng = np.random.default_rng(3)
    hours = rng.uniform(0.0, 24.0, 40)
    choice = np.eye(3)[np.where(hours < 12.0, 0, rng.integers(1, 3, size=40))]
    found = posterior(hours, choice, np.ones(3), 24)
    drawn = np.stack([found.draw(rng)[0] for _ in range(2000)])  # (S, cells, K)
    np.testing.assert_allclose(drawn.sum(-1), 1.0)
    assert np.abs(drawn.mean(0) - found.mean[0]).max() < 0.03


def test_origins_share_the_hour_of_a_change() -> None:
    """Ten walks from one place say when the day turns; one walk from another place then tells its habit there."""
    hours = np.concatenate([np.linspace(6.0, 13.9, 60), np.linspace(14.1, 22.0, 60), [10.0, 10.5, 11.0, 18.0]])
    origin = np.array([0] * 120 + [1] * 4)
    choice = np.eye(2)[[0] * 60 + [1] * 60 + [1, 1, 1, 0]]
    counts = counts_by_hour(hours, origin, choice, 2)
    mean = fit_hours(counts, np.full(counts.shape, 0.5)).mean
    assert mean[1, int(13.6 * CELLS / 24), 1] > 0.7
    assert mean[1, int(14.6 * CELLS / 24), 1] < 0.4


def test_only_the_shares_of_the_base_count():
    """Someone who expects two to one expects it whatever the numbers add up to."""
    hours = np.array([1.0, 9.0, 9.5, 14.0, 22.0])
    choice = np.eye(3)[[0, 1, 1, 2, 0]]
    base = np.array([2.0, 1.0, 1.0])
    assert np.allclose(shares_by_hour(hours, choice, base), shares_by_hour(hours, choice, base / 40.0))


def test_without_walks_the_base_is_all_there_is():
    found = shares_by_hour(np.empty(0), np.empty((0, 3)), np.array([2.0, 1.0, 1.0]))
    assert np.allclose(found, [0.5, 0.25, 0.25])
