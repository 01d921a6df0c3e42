from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.clock import NS_PER_S, hours_of_day, local_text, parse_local_time, zone
from svfm_ros.errors import ConfigError


def ns(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * NS_PER_S


def test_summer_and_winter_in_london() -> None:
    stamps = [ns(2026, 7, 1, 12), ns(2026, 12, 1, 12)]
    np.testing.assert_allclose(hours_of_day(stamps, "Europe/London"), [13, 12])


def test_half_hour_zones_and_midnight() -> None:
    np.testing.assert_allclose(hours_of_day([ns(2026, 1, 1, 18, 30)], "Asia/Kolkata"), [0])


def test_the_clock_change_itself() -> None:
    """At 01:00 UTC on 25 October 2026 London falls back from 02:00 to 01:00."""
    stamps = [ns(2026, 10, 25, 0, 59), ns(2026, 10, 25, 1, 0)]
    np.testing.assert_allclose(hours_of_day(stamps, "Europe/London"), [1 + 59 / 60, 1])


@given(st.integers(0, 4_000_000_000))
def test_agrees_with_the_standard_library(unix_s: int) -> None:
    local = datetime.fromtimestamp(unix_s, zone("America/New_York"))
    expected = local.hour + local.minute / 60 + local.second / 3600
    assert float(hours_of_day(unix_s * NS_PER_S, "America/New_York")) == pytest.approx(expected, abs=1e-6)


def test_a_stamp_is_written_in_its_zone() -> None:
    assert local_text(ns(2026, 11, 16, 23), "Europe/Berlin") == "2026-11-17 00:00"
    assert local_text(ns(2026, 7, 1, 12), "Europe/London") == "2026-07-01 13:00"  # summer time


def test_a_local_time_is_read_in_its_zone() -> None:
    assert parse_local_time("2026-11-16T23:00", "Europe/Berlin") == ns(2026, 11, 16, 22)
    assert parse_local_time("2026-11-16T23:00+00:00", "Europe/Berlin") == ns(2026, 11, 16, 23)
    assert parse_local_time("2026-11-16T23:00:00.25", "UTC") == ns(2026, 11, 16, 23) + NS_PER_S // 4


@pytest.mark.parametrize("text", ["yesterday", "25:00", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a time such as"):
        parse_local_time(text, "UTC")


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="IANA"):
        zone(name)
