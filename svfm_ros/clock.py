"""Local time of day from Unix time. The time zone is always an argument, never that of the machine."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.errors import ConfigError

__all__ = ["NS_PER_S", "days_of", "hours_of_day", "local_text", "parse_hour", "parse_local_time", "zone"]

NS_PER_S = 1_000_000_000
_HOUR_S = 3600.0
_FIRST_YEAR, _LAST_YEAR = 1970, 2199  # of times that people give; nanoseconds end in 2262


def zone(name: str) -> ZoneInfo:
    """The time zone of that IANA name, such as Europe/London."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"expected an IANA time zone such as Europe/London, got {name!r}") from error


def hours_of_day(stamps_ns: ArrayLike, zone_name: str) -> NDArray[np.float64]:
    """Local hours in [0, 24), in the shape of the stamps; daylight saving time included."""
    return np.asarray((_local_seconds(stamps_ns, zone_name) % (24 * _HOUR_S)) / _HOUR_S)


def days_of(stamps_ns: ArrayLike, zone_name: str) -> NDArray[np.int64]:
    """Local dates as days since 1970-01-01, same shape as the stamps."""
    return np.floor(_local_seconds(stamps_ns, zone_name) / (24 * _HOUR_S)).astype(np.int64)


def _local_seconds(stamps_ns: ArrayLike, zone_name: str) -> NDArray[np.float64]:
    """Unix seconds shifted by the zone's offset at that time."""
    tz = zone(zone_name)
    stamps = np.asarray(stamps_ns, dtype=np.int64)
    flat = stamps.ravel()
    # One look-up per quarter of an hour is enough: no zone changes its offset within one.
    quarter_ns = 900 * NS_PER_S
    quarters, index = np.unique(flat // quarter_ns, return_inverse=True)
    offsets_s = np.array([_offset_s(int(q) * 900, tz) for q in quarters], dtype=float).reshape(-1)
    return np.asarray(flat / NS_PER_S + offsets_s[index.reshape(-1)]).reshape(stamps.shape)


def _offset_s(unix_s: int, tz: ZoneInfo) -> float:
    offset = datetime.fromtimestamp(unix_s, tz).utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def local_text(stamp_ns: int, zone_name: str) -> str:
    """``2026-11-16 23:00`` in the zone."""
    return datetime.fromtimestamp(stamp_ns / NS_PER_S, zone(zone_name)).strftime("%Y-%m-%d %H:%M")


def parse_local_time(text: str, zone_name: str) -> int:
    """``2026-11-16T23:00`` in the zone as Unix nanoseconds; an offset in the text replaces the zone."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"expected a time such as 2026-11-16T23:00, got {text!r}") from error
    if not _FIRST_YEAR <= when.year <= _LAST_YEAR:
        raise ConfigError(f"expected a time from {_FIRST_YEAR} to {_LAST_YEAR}, got {text!r}")
    if when.tzinfo is None:
        when = when.replace(tzinfo=zone(zone_name))
    return int(when.timestamp()) * NS_PER_S + when.microsecond * 1000


def parse_hour(text: str, where: str = "") -> float:
    """``23:30`` as an hour of the day, 23.5; ``where`` it stood is named if it is none."""
    match = re.fullmatch(r"(\d{1,2}):(\d{2})", text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise ConfigError(f"expected an hour such as 23:00{where and ' '}{where}, got {text!r}")
    return int(match[1]) + int(match[2]) / 60.0
