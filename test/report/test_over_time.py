"""Wandering index, baseline, changes of habit and sentences, for people whose habits are known exactly."""

import math
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from svfm_ros.report.calibration import REGIONS, Calibration
from svfm_ros.report.habit_changes import change_days
from svfm_ros.report.over_time import SpeedTrend, over_time
from svfm_ros.report.summary import calibration_words, day_text, sentences
from svfm_ros.report.walk_table import WalkTable

FIRST = date(2026, 9, 7).toordinal()  # a Monday
MORNINGS = {8: 1, 10: 2, 13: 3, 16: 1, 19: 2, 21: 3}
OTHERS = {8: 2, 10: 3, 13: 1, 16: 3, 19: 1, 21: 2}


def table(days: list[dict[int, int]], speed: float = 0.8, slower: float = 0.0, first: int = FIRST) -> WalkTable:
    """One walk from place 0 at each hour to a place, day after day; ``slower`` m/s less each day."""
    rows = [(d, hour, end) for d, habits in enumerate(days) for hour, end in sorted(habits.items())]
    day, hour, end = (np.array(column) for column in zip(*rows, strict=True))
    night = np.where(hour >= 22, first + day, np.where(hour < 6, first + day - 1, -1))
    wiggle = 0.01 * np.sin(np.arange(len(day)))
    return WalkTable(first + day, night, hour + 0.5, np.zeros_like(end), end, speed - slower * day + wiggle)


def anywhere(days: int, seed: int = 0) -> list[dict[int, int]]:
    rng = np.random.default_rng(seed)
    return [{hour: int(rng.integers(1, 5)) for hour in MORNINGS} for _ in range(days)]


def summary_of(walks: WalkTable):
    return over_time(walks, 5, np.full(len(walks), np.nan))


NAMES = ("couch", "kitchen", "study", "bed", "toilet")


def index_of(walks: WalkTable) -> list[float]:
    return [p.index.value for p in summary_of(walks).periods if p.index is not None]


def test_a_routine_is_foreseen_and_a_random_choice_is_not() -> None:
    assert max(index_of(table([MORNINGS] * 28))) < 0.25
    assert np.mean(index_of(table(anywhere(56)))) == pytest.approx(math.log(4), abs=0.15)


def test_two_routines_are_a_routine_before_and_after_the_change() -> None:
    """One model for all of it would see a wanderer: two destinations at every hour."""
    shown = summary_of(table([MORNINGS] * 20 + [OTHERS] * 20))
    assert shown.changes == [date.fromordinal(FIRST + 20).isoformat()]
    known = [p.index.value for p in shown.periods if p.index is not None]  # one day of a week is too little
    assert len(known) >= 6
    assert max(known) < 0.3
    said = " ".join(sentences(shown, 240, NAMES, None))
    assert said.count("Habits changed: since 27 September, 100 % of the walks at about ") == 1
    new = shown.described[0]
    assert OTHERS[new.hour] == new.place  # or the hour before: walks begin half past
    assert (new.before, new.since) == (0.0, 1.0)


def test_no_change_is_found_where_there_is_none() -> None:
    assert change_days(table([MORNINGS] * 40), 5) == []
    found = [change_days(table(anywhere(40, seed)), 5) for seed in range(20)]
    assert sum(map(bool, found)) <= 1


def test_two_changes_are_found() -> None:
    found = change_days(table([MORNINGS] * 15 + [OTHERS] * 15 + anywhere(20)), 5)
    assert FIRST + 15 in found
    assert any(abs(day - FIRST - 30) <= 2 for day in found)


@pytest.mark.parametrize(("days", "unit"), [(14, "day"), (60, "week"), (170, "week"), (800, "month")])
def test_long_records_are_shown_by_week_or_month(days: int, unit: str) -> None:
    shown = summary_of(table([{8: 1, 16: 2}] * days))
    assert shown.unit == unit
    assert len(shown.periods) <= 60
    assert sum(p.walks for p in shown.periods) == 2 * days
    assert all(a.last < b.first for a, b in zip(shown.periods, shown.periods[1:], strict=False))


def test_days_without_walks_are_left_out() -> None:
    walks = table([MORNINGS] * 4)
    apart = WalkTable(
        np.where(walks.day >= FIRST + 2, walks.day + 6, walks.day), *(getattr(walks, n) for n in walks.__slots__[1:])
    )
    shown = summary_of(apart)
    assert [p.first for p in shown.periods] == [date.fromordinal(FIRST + d).isoformat() for d in (0, 1, 8, 9)]
    assert [w is not None for w in shown.weekdays] == [True, True, True, False, False, False, False]


def test_counts_by_hour_and_weekday() -> None:
    shown = summary_of(table([MORNINGS] * 14))
    assert [hour for hour, count in enumerate(shown.hours) if count] == list(MORNINGS)
    assert shown.hours[8] == 1.0
    assert all(w is not None and w.value == 6.0 for w in shown.weekdays)


def test_more_night_walks_and_slower_steps_are_marked_against_the_own_baseline() -> None:
    restless = MORNINGS | {2: 4, 23: 4}
    shown = summary_of(table([MORNINGS] * 28 + [restless] * 28, slower=0.005))
    assert shown.baseline is not None
    assert shown.baseline.last < date.fromordinal(FIRST + 28).isoformat()
    assert "night_walks" in shown.periods[-1].unusual
    assert "speed_m_s" in shown.periods[-1].unusual
    assert shown.periods[0].unusual == ()
    assert shown.speed_trend is not None
    assert shown.speed_trend.per_month == pytest.approx(-0.152, abs=0.01)
    said = " ".join(sentences(shown, 392, NAMES, None))
    assert "more than at first" in said
    assert "falling by 0.15 m/s a month" in said


@pytest.mark.parametrize(
    ("per_month", "said"),
    [
        (-0.152, "falling by 0.15 m/s a month."),
        (-0.004, "falling by 0.05 m/s a year."),
        (5e-4, "without a clear trend."),
    ],
)
def test_a_slow_trend_is_given_by_the_year_and_a_tiny_one_is_none(per_month: float, said: str) -> None:
    trend = SpeedTrend(per_month, per_month - 1e-4, per_month + 1e-4)
    shown = replace(summary_of(table([MORNINGS] * 42)), speed_trend=trend)
    assert sentences(shown, 252, NAMES, None)[2].endswith(said)


def test_the_sentences_of_a_steady_person() -> None:
    shown = summary_of(table([MORNINGS] * 42))
    said = sentences(shown, 252, NAMES, Calibration(list(REGIONS), list(REGIONS), list(REGIONS), list(REGIONS), 20))
    assert said[0] == "252 walks on 42 days, 6.0 a day, about as at first."
    assert "without a clear trend" in said[2]
    assert "choice between 1.2 equally likely places" in said[3]
    assert said[4] == "No change of habits was found."
    assert "can be relied on" in said[5]


def test_one_place_has_no_index_and_no_nonsense() -> None:
    shown = over_time(table([{8: 0, 12: 0, 20: 0}] * 12), 1, np.full(36, np.nan))
    assert all(p.index is None for p in shown.periods)
    assert "only one place" in " ".join(sentences(shown, 36, NAMES[:1], None))


def test_unfamiliar_walks_are_averaged_by_period() -> None:
    walks = table([MORNINGS] * 28)
    strange = np.where(walks.day >= FIRST + 21, 0.5, 0.0)
    shown = over_time(walks, 5, strange)
    assert [p.unfamiliar.value for p in shown.periods if p.unfamiliar] == [0.0, 0.0, 0.0, 0.5]
    assert "50 % of the latest walking follows no habit" in " ".join(sentences(shown, len(walks), NAMES, None))


def test_sentences_about_forecasts_that_are_too_sure() -> None:
    held = [0.5 * r for r in REGIONS]
    bad = Calibration(list(REGIONS), held, held, held, 20)
    assert "too sure" in sentences(summary_of(table([MORNINGS] * 3)), 18, NAMES, bad)[-1]


@pytest.mark.parametrize(
    ("held_50", "held_90", "said"),
    [
        (0.48, 0.92, "The forecasts can be relied on:"),
        (0.41, 0.89, "can roughly be relied on, but are somewhat too sure:"),
        (0.58, 0.88, "can roughly be relied on, but are somewhat more careful than they need to be:"),
        (0.38, 0.905, "The forecasts are too sure:"),
        (0.7, 0.89, "The forecasts are more careful than they need to be:"),
    ],
)
def test_how_far_forecasts_can_be_relied_on(held_50: float, held_90: float, said: str) -> None:
    assert said in calibration_words(held_50, held_90, 10)
    assert "too few" in calibration_words(held_50, held_90, 9)


def test_dates_are_written_out() -> None:
    assert day_text("2026-11-02") == "2 November 2026"


def test_the_first_day_of_a_week_does_not_stand_for_the_latest_week() -> None:
    shown = summary_of(table([*[MORNINGS] * 42, {8: 3}]))
    assert shown.periods[-1].walks == 1
    said = sentences(shown, 253, NAMES, None)
    assert said[0].endswith("about as at first.")
    assert "choice between 1.2 equally likely places, about as at first" in said[3]
