"""Where walks end: a resident's with their last row, passers-by only where they slow down."""

from dataclasses import replace

import numpy as np
import pytest
from two_destinations import MONDAY_NS, walks

from svfm_ros.forecasting.fit.walk_steps import are_passers_by, comes_to_rest, joined, walk_rows
from svfm_ros.forecasting.footprints import Footprints
from svfm_ros.types import Walk
from svfm_ros.walks.windows import make_windows


def track(number: int, start_s: float, speeds_mps: list[float]) -> Walk:
    """Straight on, one position every 0.4 s."""
    x = np.append(0.0, 0.4 * np.cumsum(speeds_mps))
    stamps = MONDAY_NS + np.round((start_s + 0.4 * np.arange(len(x))) * 1e9).astype(np.int64)
    return Walk(f"track-{number}", "", stamps, np.column_stack([x, np.full(len(x), number), np.zeros(len(x))]))


def crowd() -> list[Walk]:
    """Ten people, one a second, of whom every other one slows down and stops."""
    stops, goes_on = [1.2] * 8 + [0.6, 0.1], [1.2] * 10
    return [track(i, float(i), stops if i % 2 else goes_on) for i in range(10)]


def test_walks_one_after_the_other_are_a_residents() -> None:
    windows = make_windows(walks())
    assert not are_passers_by(windows)
    assert walk_rows(windows).ended.all()


def test_tracks_at_the_same_time_are_of_passers_by() -> None:
    windows = make_windows(crowd())
    assert are_passers_by(windows)
    assert walk_rows(windows).ended.tolist() == [False, True] * 5
    assert walk_rows(windows, passers_by=False).ended.all()


def test_residents_who_walk_at_the_same_time_are_no_passers_by() -> None:
    two = [replace(track(i, 10.0 * (i // 2), [1.2] * 10), resident=("ada", "ben")[i % 2]) for i in range(10)]
    assert not are_passers_by(make_windows(two))
    assert walk_rows(make_windows(two)).ended.all()
    named = [replace(walk, resident=f"pedestrian {i}") for i, walk in enumerate(crowd())]
    assert are_passers_by(make_windows(named))


@pytest.mark.parametrize(("last_m", "rests"), [(0.4, False), (0.3, False), (0.2, True), (0.0, True)])
def test_rest_is_a_last_move_shorter_than_the_others(last_m: float, rests: bool) -> None:
    x = np.append(np.arange(0.0, 3.0, 0.4), 2.8 + last_m)
    assert comes_to_rest(np.column_stack([x, np.zeros(len(x))])) is rests


def test_rows_that_a_model_was_learnt_from_and_new_ones_are_those_of_all_walks_together() -> None:
    every = walks()
    together = walk_rows(make_windows(every))
    first, later = (walk_rows(make_windows(some)) for some in (every[:5], every[5:]))
    known = Footprints.of(first, tuple(w.walk_id for w in every[:5]))
    for rows, count in (
        (joined(known, None, first.dt_s, "UTC"), 5),
        (joined(known, later, first.dt_s, "UTC"), len(every)),
    ):
        assert len(rows) == count
        for xy, wanted in zip(rows.xy, together.xy, strict=False):
            np.testing.assert_allclose(xy + rows.origin, wanted + together.origin, atol=1e-5)  # kept as 32 bit floats
        for name in ("hour", "day", "start_ns", "end_ns", "ended", "walk"):
            np.testing.assert_array_equal(getattr(rows, name), getattr(together, name)[:count])
        assert rows.resident == together.resident[:count]
