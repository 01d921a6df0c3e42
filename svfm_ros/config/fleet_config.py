"""Defaults of runs over many homes."""

from dataclasses import dataclass

from svfm_ros.config.options import CheckedOptions, option

__all__ = ["FleetConfig", "HomeConfig"]


@dataclass(frozen=True, slots=True)
class FleetConfig(CheckedOptions):
    """What one home's task may use, and what is made for each home."""

    cpus: float = option(1.0, "cores that Ray reserves for one home", low=0.1, high=1024.0)
    gpus: float = option(0.0, "GPUs that Ray reserves for one home", low=0.0, high=64.0)
    memory_gb: float = option(0.0, "memory that Ray reserves for one home, GB; 0 reserves none", low=0.0)
    retries: int = option(3, "a home whose worker was killed is tried again so often", low=0, high=100)
    least_homes: int = option(5, "fewer homes say too little: they start from the prior that ships", low=2)
    time_zone: str = option("UTC", "IANA name of the zone of homes whose home.yaml names none")
    reports: bool = option(True, "write a report for each home")


@dataclass(frozen=True, slots=True)
class HomeConfig(CheckedOptions):
    """What a home's own home.yaml may say."""

    time_zone: str = option("", "IANA name of the zone of the home, such as Europe/London")
    resident: str = option("", "whose walks, where there are several people's")
