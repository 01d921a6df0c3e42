"""Habits of made-up residents: a change of routine is found and dated, and nothing is found where nothing changes."""

import numpy as np
import pytest

from svfm_ros.forecasting.fit.habit_fit import FittedHabits, fit_habits
from svfm_ros.forecasting.habits import is_weekend

FIRST_DAY = 20_759  # 2026-11-02, a Monday
HERE = np.zeros((1, 2))


def habits_of(share_by_day, days: int, seed: int, per_day: int = 4) -> FittedHabits:  # type: ignore[no-untyped-def]
    """Walks from one start at ten in the morning; ``share_by_day(day)`` of them to the first of two destinations."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), per_day)
    first = rng.random(len(day)) < [share_by_day(d) for d in day]
    starts, hour = 0.1 * rng.standard_normal((len(day), 2)), 10.0 + 0.2 * rng.random(len(day))
    choice = np.where(first[:, None], [1.0, 0.0], [0.0, 1.0])
    return fit_habits(starts, hour, FIRST_DAY + day, choice, np.zeros(len(day)), apart_m=1.0, near_m=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_a_changed_routine_is_found_and_dated(seed: int) -> None:
    fitted = habits_of(lambda day: 0.9 if day < 20 else 0.1, 40, seed)
    assert fitted.change_probability > 0.95
    assert abs(fitted.change_day - (FIRST_DAY + 20)) <= 2
    shares, _ = fitted.habits.at(HERE, 10.1, FIRST_DAY + 42)
    assert shares[0] == pytest.approx([0.1, 0.9], abs=0.1)
    assert fitted.alive[0] < 0.05
    assert fitted.alive[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_changes_where_nothing_changes(seed: int) -> None:
    fitted = habits_of(lambda _: 0.7, 40, seed)
    assert fitted.change_probability < 0.5
    assert fitted.weekend_probability < 0.5
    assert fitted.habits.at(HERE, 10.1, FIRST_DAY + 42)[0][0, 0] == pytest.approx(0.7, abs=0.12)


def test_weekends_may_differ() -> None:
    fitted = habits_of(lambda day: 0.05 if is_weekend(FIRST_DAY + day) else 0.95, 35, 0)
    assert fitted.weekend_probability > 0.95
    assert fitted.change_probability < 0.5  # a weekend is no change of routine
    assert fitted.habits.at(HERE, 10.1, FIRST_DAY)[0][0, 0] > 0.8
    assert fitted.habits.at(HERE, 10.1, FIRST_DAY + 5)[0][0, 0] < 0.2


def test_the_first_of_january_1970_was_a_thursday() -> None:
    assert is_weekend(np.arange(7)).tolist() == [False, False, True, True, False, False, False]


def test_an_hour_without_walks_rests_on_none() -> None:
    habits = habits_of(lambda _: 0.7, 20, 0).habits
    assert habits.walks_at(HERE[0], 10.1, FIRST_DAY) > 50.0
    assert habits.walks_at(HERE[0], 22.0, FIRST_DAY) < 0.01
    assert habits.walks_at(HERE[0] + 20.0, 10.1, FIRST_DAY) < 0.01
