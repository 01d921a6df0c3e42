"""The entropy of forecasts by hour and day: known means, honest intervals, a known model at work."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.clock import NS_PER_S, parse_local_time
from svfm_ros.errors import DataError
from svfm_ros.forecasting.wandering import auc, summarise

ZONE = "Europe/London"


def at(text: str) -> int:
    return parse_local_time(text, ZONE)


def test_hours_and_days_are_local() -> None:
    stamps = [at("2026-07-01T23:30"), at("2026-07-02T00:10"), at("2026-07-02T23:50")]
    report = summarise(stamps, [0.0, 1.0, 0.5], ZONE, most=1.5)
    assert [(h.hour, h.mean, h.walks) for h in report.hours] == [(0, 1.0, 1), (23, 0.25, 2)]
    assert [(d.day, d.mean, d.walks) for d in report.days] == [(date(2026, 7, 1), 0.0, 1), (date(2026, 7, 2), 0.75, 2)]
    assert report.mean == pytest.approx(0.5)
    assert report.days[0].low is None  # one walk says nothing about a spread
    assert report.hours[1].low is not None


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    day_s, held = 86400, 0
    begin = at("2026-03-01T12:00")
    for trial in range(60):
        days = rng.normal(1.0, 0.2, size=12)  # days differ; walks of one day are alike
        stamps = [begin + (d * day_s + 600 * i) * NS_PER_S for d in range(12) for i in range(5)]
        values = [day + 0.05 * rng.standard_normal() for day in days for _ in range(5)]
        report = summarise(stamps, values, ZONE, most=2.0, seed=trial)
        assert report.low is not None
        assert report.high is not None
        held += report.low <= 1.0 <= report.high
    assert 0.8 <= held / 60 <= 1.0


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.lists(st.floats(-5, 5), min_size=1, max_size=20))
def test_auc_of_two_kinds_and_of_the_kinds_swapped_add_up(a: list[float], b: list[float]) -> None:
    assert auc(a, b) + auc(b, a) == pytest.approx(1.0)


def test_auc_tells_apart_what_can_be_told_apart() -> None:
    assert auc([0.1, 0.2], [0.3, 0.4]) == 1.0
    assert auc([0.1, 0.2], [0.1, 0.2]) == 0.5
    with pytest.raises(DataError):
        auc([], [1.0])
