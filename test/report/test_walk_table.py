"""Columns of the report's table, from walks whose hours, places and speeds are known."""

from datetime import date

import numpy as np
import pytest

from svfm_ros.clock import parse_local_time
from svfm_ros.report.walk_table import walk_table, walking_speed
from svfm_ros.types import Place, Places, Walk

PLACES = Places((Place("bed", 0.0, 0.0, 0.5, "#808080"), Place("sink", 4.0, 0.0, 0.5, "#1f6fd0")))


def walk(when: str, seconds: float = 5.0, pause_s: float = 0.0) -> Walk:
    """From the bed to the sink, 4 m, with a pause half way."""
    times = np.linspace(0.0, seconds + pause_s, 101)
    along = np.interp(times, [0, seconds / 2, seconds / 2 + pause_s, seconds + pause_s], [0.0, 2.0, 2.0, 4.0])
    stamps = parse_local_time(when, "Europe/London") + (times * 1e9).astype(np.int64)
    return Walk(when, "ann", stamps, np.column_stack([along, np.zeros((101, 2))]))


def test_days_nights_and_hours_are_local() -> None:
    walks = [walk("2026-07-02T05:59"), walk("2026-07-01T23:30"), walk("2026-07-02T12:00")]
    table = walk_table(walks, PLACES, 0.0, "Europe/London")
    first = date(2026, 7, 1).toordinal()
    assert table.day.tolist() == [first, first + 1, first + 1]
    assert table.night.tolist() == [first, first, -1], "a night belongs to its evening"
    np.testing.assert_allclose(table.hour, [23.5, 5 + 59 / 60, 12.0])
    assert table.days.tolist() == [first, first + 1]


def test_places_of_start_and_end() -> None:
    table = walk_table([walk("2026-07-01T12:00")], PLACES, 0.0, "UTC")
    assert (table.origin[0], table.end[0]) == (0, 1)
    moved = Places((Place("bed", 9.0, 0.0, 0.5, "#808080"),))
    assert walk_table([walk("2026-07-01T12:00")], moved, 0.0, "UTC").end[0] == -1


@pytest.mark.parametrize("pause_s", [0.0, 30.0])
def test_pauses_do_not_slow_a_walk_down(pause_s: float) -> None:
    assert walking_speed(walk("2026-07-01T12:00", 5.0, pause_s)) == pytest.approx(0.8, abs=0.02)


def test_standing_still_has_no_speed() -> None:
    still = walk("2026-07-01T12:00")
    assert np.isnan(walking_speed(Walk("a", "ann", still.stamps_ns, np.zeros((101, 3)))))
