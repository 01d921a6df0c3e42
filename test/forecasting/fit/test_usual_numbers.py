"""Numbers that homes share: without walks they are the population's, with many the home's own."""

import numpy as np
import pytest

from svfm_ros.forecasting.fit.hour_shares import counts_by_hour, fit_hours
from svfm_ros.forecasting.fit.usual_numbers import logit, prior_counts, shrunk_log, shrunk_median


def test_a_population_counts_for_as_many_steps_as_it_is_sure() -> None:
    assert prior_counts({}, "pauses", 0.01, 2.0) == (0.02, 2.0)
    known = {"pauses": np.array([logit(0.02), 4.0])}
    seen, steps = prior_counts(known, "pauses", 0.01, 2.0)
    assert seen / steps == pytest.approx(0.02)
    # the log odds of a Beta distribution have about this variance
    drawn = np.random.default_rng(0).beta(seen, steps - seen, 20_000)
    assert np.var(np.log(drawn / (1.0 - drawn))) == pytest.approx(0.25, rel=0.25)
    _, most = prior_counts({"pauses": np.array([logit(0.02), 1e6])}, "pauses", 0.01, 2.0)
    assert most == pytest.approx(1000.0)


@pytest.mark.parametrize(("walks", "low", "high"), [(1, 0.6, 0.7), (1000, 0.79, 0.81)])
def test_a_ramp_is_drawn_to_the_population_by_how_few_walks_there_are(walks: int, low: float, high: float) -> None:
    values = np.random.default_rng(0).normal(0.8, 0.1, walks).tolist() if walks > 1 else [0.8]
    known = {"ramp0": np.array([np.log(0.4), 100.0])}
    assert low < shrunk_median(values, known, "ramp0") < high
    assert shrunk_median(values, {}, "ramp0") == pytest.approx(np.median(values))


def test_without_walks_a_ramp_is_the_populations() -> None:
    assert shrunk_median([], {"ramp0": np.array([np.log(0.4), 100.0])}, "ramp0") == pytest.approx(0.4)
    assert shrunk_median([], {}, "ramp0") == 1.0


def test_stays_start_from_those_of_other_homes() -> None:
    known = {"stays": np.array([np.log(600.0), 4.0])}
    assert shrunk_log([], {}, "stays") is None
    assert shrunk_log([], known, "stays") == pytest.approx(np.log(600.0))
    assert shrunk_log([60.0] * 4, known, "stays") == pytest.approx(np.log(np.sqrt(600.0 * 60.0)))
    assert shrunk_log([60.0] * 4, {}, "stays") == pytest.approx(np.log(60.0))


def test_the_rhythm_of_the_day_in_other_homes_decides_where_walks_do_not() -> None:
    counts = counts_by_hour([9.0, 15.0], np.zeros(2, dtype=int), np.eye(3)[[0, 1]], 1, 24)
    base = np.full(counts.shape, 1.0 / 3.0)
    steady = {"day_changes": np.array([np.log(1.0), 100.0]), "habit_strength": np.array([np.log(0.5), 100.0])}
    lively = {"day_changes": np.array([np.log(8.0), 100.0]), "habit_strength": np.array([np.log(0.5), 100.0])}
    few, many = fit_hours(counts, base, steady), fit_hours(counts, base, lively)
    assert few.rhythm["day_changes"] < 0.1 < 1.9 < many.rhythm["day_changes"]
    assert few.mean[0, 9, 1] > many.mean[0, 9, 1]  # what is done at 15:00 is done at 9:00 where nothing changes
