"""The prior over numbers that homes share: sums over homes, few of which say little."""

import numpy as np
import pytest
from two_destinations import model_file

from svfm_ros.pipeline.population import HomeStatistics, home_statistics, population_prior


def homes(values: list[float]) -> HomeStatistics:
    walker = home_statistics(model_file()).walker
    each = [HomeStatistics(walker, 1, {"pace_var": np.array([1.0, x, x * x])}) for x in values]
    return sum(each[1:], start=each[0])


def test_the_mean_and_the_spread_of_homes_come_out() -> None:
    rng = np.random.default_rng(0)
    mean, precision = population_prior(homes((-4.0 + 0.3 * rng.standard_normal(400)).tolist())).numbers["pace_var"]
    assert mean == pytest.approx(-4.0, abs=0.05)
    assert precision**-0.5 == pytest.approx(0.3, abs=0.05)


def test_few_homes_say_little() -> None:
    assert "pace_var" not in population_prior(homes([-4.0, -4.0])).numbers
    _, few = population_prior(homes([-4.0] * 3)).numbers["pace_var"]
    _, many = population_prior(homes([-4.0] * 100)).numbers["pace_var"]
    assert few < 10.0 < many


def test_a_home_gives_every_number_of_its_model() -> None:
    found = home_statistics(model_file())
    assert found.numbers["pace_var"] == pytest.approx(
        [1.0, *np.log(model_file().model.steps.pace_var) ** np.array([1, 2])]
    )


def test_a_home_gives_how_people_set_off_pause_end_and_stay() -> None:
    found = home_statistics(model_file()).numbers
    assert {"ramp0", "steady0", "pauses", "goes_on", "ends", "ends_standing"} <= found.keys()
    per_step = 1.0 / (1.0 + np.exp(-found["ends"][1]))
    rows = np.bincount(model_file().footprints.row)
    assert per_step == pytest.approx(len(rows) / (rows - 1).sum(), rel=0.5)  # a walk ends once
