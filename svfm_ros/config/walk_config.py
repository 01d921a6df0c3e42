"""Defaults for cutting walks, finding places and making windows."""

from dataclasses import dataclass

from svfm_ros.config.options import CheckedOptions, option

__all__ = ["PlacesConfig", "RecorderConfig", "WindowsConfig"]


@dataclass(frozen=True, slots=True)
class RecorderConfig(CheckedOptions):
    """When a walk starts and ends."""

    dwell_time_s: float = option(5.0, "standing this long ends a walk, seconds", low=0.5, high=600.0)
    dwell_radius_m: float = option(0.4, "moving no further than this is standing, metres", low=0.05, high=5.0)
    trim_radius_m: float = option(
        0.1, "a walk starts and ends this close to where the wearer stood, metres", low=0.0, high=5.0
    )
    min_duration_s: float = option(1.5, "shorter walks are dropped, seconds", low=0.0, high=600.0)
    min_extent_m: float = option(
        1.0, "walks that stay this close to their start are dropped, metres", low=0.0, high=50.0
    )
    max_gap_s: float = option(1.0, "no pose for longer than this ends a walk, seconds", low=0.01, high=60.0)
    longest_s: float = option(600.0, "a walk longer than this goes on as a new walk, seconds", low=10.0, high=86400.0)
    point_spacing_m: float = option(
        0.05, "side of the squares the walk's points are thinned to, metres", low=0.005, high=1.0
    )


@dataclass(frozen=True, slots=True)
class PlacesConfig(CheckedOptions):
    """How places are found from where walks end."""

    reach_m: float = option(1.0, "walk ends within this of a common middle are one place, metres", low=0.1, high=10.0)
    min_visits: int = option(4, "as many walks must end there to make it a place", low=1, high=100000)
    min_share: float = option(0.01, "and at least this share of all walks", low=0.0, high=1.0)
    min_radius_m: float = option(0.5, "a found place is at least this large, metres", low=0.05, high=10.0)


@dataclass(frozen=True, slots=True)
class WindowsConfig(CheckedOptions):
    """How walks become rows of positions at equal time steps."""

    dt_s: float = option(0.4, "time between two positions, seconds", low=0.01, high=10.0)
    time_zone: str = option("UTC", "IANA name of the time zone of the home, such as Europe/London")
    max_gap_s: float = option(
        2.0, "a walk is split where no position was recorded for longer than this, seconds", low=0.01, high=3600.0
    )
    min_steps: int = option(2, "rows with fewer positions are dropped", low=2, high=100000)
