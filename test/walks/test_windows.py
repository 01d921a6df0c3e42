"""Windows say where a walk was at each tick."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.errors import ConfigError, DataError
from svfm_ros.types import Walk
from svfm_ros.walks.windows import make_windows

S = 1_000_000_000
NOON_UTC = 1_763_294_400 * S  # 2025-11-16 12:00 UTC


def straight(
    walk_id: str, duration_s: float, start_ns: int = NOON_UTC, hz: float = 10.0, resident: str = "anna"
) -> Walk:
    """Along x at 1 m/s, along y at -0.5 m/s."""
    stamps = start_ns + (np.arange(round(duration_s * hz) + 1) / hz * S).astype(np.int64)
    t = (stamps - start_ns) / S
    return Walk(walk_id, resident, stamps, np.stack([t, -0.5 * t, np.zeros_like(t)], axis=1))


def test_positions_at_the_ticks_are_known() -> None:
    windows = make_windows([straight("a", 2.0), straight("b", 1.3)], WindowsConfig(dt_s=0.4))
    assert windows.xy.shape == (2, 6, 2)
    np.testing.assert_allclose(windows.xy[0, :, 0], [0, 0.4, 0.8, 1.2, 1.6, 2.0], atol=1e-9)
    np.testing.assert_allclose(windows.xy[1, :, 0], [0, 0.4, 0.8, 1.2, 1.2, 1.2], atol=1e-9)  # padded with the last
    np.testing.assert_allclose(windows.xy[..., 1], -0.5 * windows.xy[..., 0], atol=1e-9)
    np.testing.assert_array_equal(windows.lengths, [6, 4])
    np.testing.assert_allclose(windows.end_xy, [[2.0, -1.0], [1.2, -0.6]])
    assert windows.walk_ids == ("a", "b")


def with_variance(walk: Walk, growth: float) -> Walk:
    """The walk with variances of x and y that grow by ``growth`` and twice that per second."""
    t = walk.times_s
    covariance = np.zeros((len(t), 3, 3))
    covariance[:, 0, 0], covariance[:, 1, 1] = growth * t, 2 * growth * t
    return replace(walk, covariance=covariance)


def test_variances_are_interpolated_on_the_tick_and_follow_their_rows() -> None:
    known, unknown = with_variance(straight("a", 2.0), 0.01), straight("b", 1.3)
    windows = make_windows([known, unknown], WindowsConfig(dt_s=0.25))
    assert windows.variance is not None
    assert windows.variance.shape == windows.xy.shape
    ticks = np.arange(9) * 0.25
    np.testing.assert_allclose(windows.variance[0], np.stack([0.01 * ticks, 0.02 * ticks], axis=1), atol=1e-12)
    np.testing.assert_array_equal(windows.variance[1], 0.0)
    chosen = windows.select([1, 0]).variance
    assert chosen is not None
    np.testing.assert_array_equal(chosen[1], windows.variance[0])
    assert make_windows([unknown]).variance is None


@pytest.mark.parametrize(("zone", "hour"), [("UTC", 12.0), ("Europe/London", 12.0), ("Asia/Kolkata", 17.5)])
def test_the_hour_is_told_in_the_zone_asked_for(zone: str, hour: float) -> None:
    windows = make_windows([straight("a", 2.0)], WindowsConfig(time_zone=zone))
    assert windows.start_hour[0] == pytest.approx(hour)
    assert windows.time_zone == zone


def test_a_walk_with_a_gap_becomes_two_rows_of_one_id() -> None:
    whole = straight("a", 6.0)
    keep = np.r_[0:21, 51:61]  # three seconds are missing
    walk = Walk("a", "anna", whole.stamps_ns[keep], whole.poses[keep])
    windows = make_windows([walk], WindowsConfig(dt_s=0.5, max_gap_s=2.0))
    assert windows.walk_ids == ("a", "a")
    np.testing.assert_array_equal(windows.start_ns, [NOON_UTC, walk.stamps_ns[21]])
    np.testing.assert_allclose(windows.xy[1, 0, 0], 5.1)
    bridged = make_windows([walk], WindowsConfig(dt_s=0.5, max_gap_s=10.0))
    assert len(bridged) == 1


def test_rows_too_short_to_hold_a_step_are_dropped() -> None:
    windows = make_windows([straight("a", 0.3), straight("b", 1.0)], WindowsConfig(dt_s=0.4))
    assert windows.walk_ids == ("b",)
    assert len(make_windows([])) == 0


@settings(deadline=None)
@given(
    st.lists(st.integers(10_000_000, 900_000_000), min_size=2, max_size=40), st.floats(0.05, 1.0), st.integers(0, 99)
)
def test_resampling_stays_between_the_neighbours(steps_ns: list[int], dt_s: float, seed: int) -> None:
    stamps = NOON_UTC + np.cumsum(steps_ns)
    xy = np.random.default_rng(seed).normal(size=(len(stamps), 3))
    windows = make_windows([Walk("a", "anna", stamps, xy)], WindowsConfig(dt_s=dt_s))
    for row in range(len(windows)):
        ticks = (windows.start_ns[row] - stamps[0]) / S + windows.times_s[windows.valid[row]]
        times = (stamps - stamps[0]) / S
        assert ticks[-1] <= times[-1] + 1e-6
        assert ticks[-1] + dt_s > times[-1] - 1e-6
        after = np.clip(np.searchsorted(times, ticks), 1, len(times) - 1)
        low, high = (f(xy[after - 1, :2], xy[after, :2]) for f in (np.minimum, np.maximum))
        inside = windows.xy[row, windows.valid[row]]
        assert np.all(inside >= low - 1e-6)
        assert np.all(inside <= high + 1e-6)


def test_bad_input_is_refused() -> None:
    walk = straight("a", 2.0)
    with pytest.raises(DataError, match="'a' twice"):
        make_windows([walk, walk])
    with pytest.raises(DataError, match="increase"):
        make_windows([Walk("b", "anna", walk.stamps_ns[::-1], walk.poses)])
    with pytest.raises(DataError, match="finite"):
        make_windows([Walk("b", "anna", walk.stamps_ns, walk.poses * np.nan)])
    with pytest.raises(ConfigError, match="zone"):
        make_windows([walk], WindowsConfig(time_zone="Mars/Base"))
