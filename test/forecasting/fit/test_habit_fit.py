"""Habits of made-up residents: a change of routine is found and dated, and nothing is found where nothing changes."""

import numpy as np
import pytest

from svfm_ros.forecasting.fit.habit_fit import FittedHabits, HabitWalks, fit_habits, fit_next_place
from svfm_ros.forecasting.habits import CELLS, is_weekend

FIRST_DAY = 20_759  # 2026-11-02, a Monday
HERE = np.zeros((1, 2))
ENDS = np.array([[5.0, 0.0], [0.0, 5.0]])


def habits_of(share_by_day, days: int, seed: int, per_day: int = 4) -> FittedHabits:  # type: ignore[no-untyped-def]
    """Walks from one start at ten in the morning; ``share_by_day(day)`` of them to the first of two destinations."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), per_day)
    first = rng.random(len(day)) < [share_by_day(d) for d in day]
    starts, hour = 0.1 * rng.standard_normal((len(day), 2)), 10.0 + 0.2 * rng.random(len(day))
    choice = np.where(first[:, None], [1.0, 0.0], [0.0, 1.0])
    nobody = np.zeros(len(day), dtype=int)
    walks = HabitWalks(nobody, hour, FIRST_DAY + day, choice, nobody)
    return fit_habits(starts, walks, np.zeros(len(day)), ENDS, apart_m=1.0, near_m=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_a_changed_routine_is_found_and_dated(seed: int) -> None:
    fitted = habits_of(lambda day: 0.9 if day < 20 else 0.1, 40, seed)
    assert fitted.found.change_probability > 0.95
    assert abs(fitted.found.change_day - (FIRST_DAY + 20)) <= 2
    shares, _ = fitted.habits.at(HERE, 10.1, FIRST_DAY + 42)
    assert shares[0] == pytest.approx([0.1, 0.9], abs=0.1)
    assert fitted.found.weight[0] < 0.05
    assert fitted.found.weight[-1] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_changes_where_nothing_changes(seed: int) -> None:
    fitted = habits_of(lambda _: 0.7, 40, seed)
    assert fitted.found.change_probability < 0.5
    assert fitted.found.weekend_probability < 0.5
    assert fitted.habits.at(HERE, 10.1, FIRST_DAY + 42)[0][0, 0] == pytest.approx(0.7, abs=0.12)


def test_weekends_may_differ() -> None:
    fitted = habits_of(lambda day: 0.05 if is_weekend(FIRST_DAY + day) else 0.95, 35, 0)
    assert fitted.found.weekend_probability > 0.95
    assert fitted.found.change_probability < 0.5  # a weekend is no change of routine
    assert fitted.habits.at(HERE, 10.1, FIRST_DAY)[0][0, 0] > 0.8
    assert fitted.habits.at(HERE, 10.1, FIRST_DAY + 5)[0][0, 0] < 0.2


def test_the_first_of_january_1970_was_a_thursday() -> None:
    assert is_weekend(np.arange(7)).tolist() == [False, False, True, True, False, False, False]


def test_an_hour_without_walks_rests_on_none() -> None:
    habits = habits_of(lambda _: 0.7, 20, 0).habits
    assert habits.walks_at(HERE[0], 10.1, FIRST_DAY) > 50.0
    assert habits.walks_at(HERE[0], 22.0, FIRST_DAY) < 0.01
    assert habits.walks_at(HERE[0] + 20.0, 10.1, FIRST_DAY) < 0.01


def test_an_hour_without_walks_widens_to_what_is_expected_anywhere() -> None:
    """Walks from here go to one place at ten in the morning; walks from there go to both, at any hour."""
    rng = np.random.default_rng(0)
    count = 120
    there = np.arange(count) >= 60
    starts = np.where(there[:, None], [8.0, 8.0], [0.0, 0.0]) + 0.1 * rng.standard_normal((count, 2))
    hour = np.where(there, rng.uniform(0.0, 24.0, count), 10.0 + 0.2 * rng.random(count))
    choice = np.eye(2)[np.where(there, rng.integers(2, size=count), 0)]
    nobody = np.zeros(count, dtype=int)
    walks = HabitWalks(nobody, hour, FIRST_DAY + np.arange(count) // 6, choice, nobody)
    habits = fit_habits(starts, walks, np.zeros(count), ENDS, 1.0, 0.5).habits
    at_ten, at_night = (habits.at(HERE, hour, FIRST_DAY)[0][0] for hour in (10.1, 23.0))
    assert at_ten[0] > 0.95
    reached = np.array([7.5, 6.5]) / 14.0  # from here in one block of hours, from there in all six; half a one for each
    assert at_night == pytest.approx(reached, abs=0.01)
    nowhere, _ = habits.at(np.array([[-20.0, 3.0]]), 10.1, FIRST_DAY)
    assert nowhere[0] == pytest.approx(habits.base[int(10.1 * CELLS / 24.0)], abs=1e-6)  # what all walks say


def test_habits_that_drift_are_forgotten_and_steady_ones_are_not() -> None:
    steady = habits_of(lambda _: 0.7, 120, 1, per_day=8).found
    drifting = habits_of(lambda day: 0.05 + 0.9 * day / 120, 120, 1, per_day=8)
    assert steady.weight.mean() > 0.8
    assert drifting.found.weight.mean() < 0.6
    assert drifting.habits.at(HERE, 10.1, FIRST_DAY + 120)[0][0, 0] == pytest.approx(0.95, abs=0.15)


@pytest.mark.parametrize("seed", range(3))
def test_open_habits_that_are_steady_neither_change_nor_fade(seed: int) -> None:
    """Anywhere is as likely as anywhere else, at any hour of any day: old walks say as much as new ones."""
    rng = np.random.default_rng(seed)
    day = np.repeat(FIRST_DAY + np.arange(28), 20)
    origin, end = rng.integers(5, size=(2, len(day)))
    nobody = np.zeros_like(day)
    walks = HabitWalks(origin, rng.uniform(0.0, 24.0, len(day)), day, np.eye(5)[end], nobody)
    found = fit_next_place(walks, np.zeros((5, 5), dtype=bool), cells=24)
    assert found.change_probability < 0.5
    assert found.weekend_probability < 0.5
    assert found.forget_per_day < 0.005
    assert found.weight.mean() > 0.75


def test_a_resident_is_fitted_around_the_home() -> None:
    home = habits_of(lambda _: 0.9, 40, 0).habits
    hour, day, nobody = np.full(2, 10.1), np.full(2, FIRST_DAY), np.zeros(2, dtype=int)
    walks = HabitWalks(nobody, hour, day, np.eye(2)[[1, 1]], nobody)
    own = fit_habits(np.zeros((2, 2)), walks, np.zeros(2), ENDS, 1.0, 0.5, home).habits
    assert own.origin_xy == pytest.approx(home.origin_xy)
    assert 0.15 < own.at(HERE, 10.1, FIRST_DAY)[0][0, 0] < 0.9  # two walks move them towards their own
    assert own.at(HERE, 20.0, FIRST_DAY)[0] == pytest.approx(home.at(HERE, 20.0, FIRST_DAY)[0], abs=0.05)
