"""Pieces of tracks have equal length, and splits never cut a walk in two."""

import numpy as np
import pytest
from benchlib.forecasts.track_pieces import fixed_length, split_by_time
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.errors import DataError
from svfm_ros.types import Walk
from svfm_ros.walks.windows import make_windows

S = 1_000_000_000
NOON_UTC = 1_763_294_400 * S  # 2025-11-16 12:00 UTC


def straight(walk_id: str, duration_s: float, start_ns: int = NOON_UTC) -> Walk:
    """Along x at 1 m/s, with variances that grow with time."""
    stamps = start_ns + (np.arange(round(duration_s * 10) + 1) / 10 * S).astype(np.int64)
    t = (stamps - start_ns) / S
    poses = np.stack([t, np.zeros_like(t), np.zeros_like(t)], axis=1)
    return Walk(walk_id, "anna", stamps, poses, covariance=0.01 * t[:, None, None] * np.eye(3))


def test_fixed_length_pieces_are_cut_as_benchmarks_do() -> None:
    windows = make_windows([straight("a", 4.0), straight("b", 1.0)], WindowsConfig(dt_s=0.5))  # 9 and 3 positions
    pieces = fixed_length(windows, steps=4, stride=2)
    assert pieces.walk_ids == ("a", "a", "a")
    np.testing.assert_allclose(pieces.xy[:, 0, 0], [0.0, 1.0, 2.0], atol=1e-9)
    np.testing.assert_allclose(pieces.xy[:, -1, 0], [1.5, 2.5, 3.5], atol=1e-9)
    np.testing.assert_array_equal(pieces.start_ns - NOON_UTC, [0, S, 2 * S])
    assert pieces.valid.all()
    assert len(fixed_length(windows, steps=10, stride=1)) == 0


def gappy(count: int) -> list[Walk]:
    """Walks with a gap each, so that every walk has two rows."""
    keep = np.r_[0:21, 51:61]
    wholes = [straight(f"w{n}", 6.0, NOON_UTC + n * 3600 * S) for n in range(count)]
    return [Walk(w.walk_id, w.resident, w.stamps_ns[keep], w.poses[keep]) for w in wholes]


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 30), st.floats(0.05, 0.9))
def test_no_walk_is_on_both_sides_of_a_split(count: int, share: float) -> None:
    windows = make_windows(gappy(count))
    split = split_by_time(windows, share)
    train, held_out = set(split.train.walk_ids), set(split.held_out.walk_ids)
    assert train
    assert held_out
    assert not train & held_out
    assert len(split.train) + len(split.held_out) == len(windows)


def test_held_out_walks_come_after_all_others() -> None:
    windows = make_windows(gappy(20)[::-1])
    split = split_by_time(windows, 0.25)
    assert len(set(split.held_out.walk_ids)) == 5
    assert split.train.start_ns.max() < split.held_out.start_ns.min()


def test_pieces_keep_the_variance_of_their_positions() -> None:
    windows = make_windows([straight("a", 4.0)], WindowsConfig(dt_s=0.5))
    assert windows.variance is not None
    pieces = fixed_length(windows, 3, 2).variance
    assert pieces is not None
    np.testing.assert_array_equal(pieces[1], windows.variance[0, 2:5])


def test_shares_and_strides_that_mean_nothing_are_refused() -> None:
    windows = make_windows([straight("a", 2.0)])
    with pytest.raises(DataError, match="share"):
        split_by_time(windows, 1.5)
    with pytest.raises(DataError, match="stride"):
        fixed_length(windows, 3, 0)
