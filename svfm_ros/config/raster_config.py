"""What can be set about the occupancy grid."""

from dataclasses import dataclass

from svfm_ros.config.options import check, option

__all__ = ["RasterConfig"]


@dataclass(frozen=True, slots=True)
class RasterConfig:
    """Options of the occupancy grid."""

    resolution_m: float = option(0.05, "side of a cell (m)", low=0.005, high=1.0)
    range_max_m: float = option(30.0, "echoes farther than this are not drawn (m)", low=0.5)
    hit: float = option(0.8, "probability that a cell is occupied, after one echo in it", low=0.5, high=0.999)
    miss: float = option(0.35, "the same after one beam went through it", low=0.001, high=0.5)
    clamp: float = option(0.98, "no cell becomes surer than this", low=0.5, high=0.9999)

    def __post_init__(self) -> None:
        check(self)
