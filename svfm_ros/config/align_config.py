"""What can be set about placing walks in the house."""

from dataclasses import dataclass

from svfm_ros.config.options import check, option

__all__ = ["AlignConfig"]


@dataclass(frozen=True, slots=True)
class AlignConfig:
    """Options of placing walks; the gates are on the careful side: a walk that is refused can be placed later."""

    resolution_m: float = option(0.05, "cell of the reference map (m)", low=0.01, high=0.2)
    search_points: int = option(300, "points of the walk that the global search looks at", low=50, high=5000)
    candidates: int = option(10, "places that are looked at closely", low=2, high=100)
    icp_reach_m: float = option(0.3, "points are paired up to this distance at first (m)", low=0.05, high=2.0)
    icp_scale_m: float = option(0.08, "scale of the robust kernel: larger residuals fade out (m)", low=0.005, high=0.5)
    icp_iterations: int = option(60, "steps of ICP at most", low=1, high=1000)

    inlier_m: float = option(0.10, "a point lies on the map when a wall is this near (m)", low=0.02, high=0.5)
    min_points: int = option(150, "a walk that saw less is not placed", low=10)
    min_overlap: float = option(
        0.5, "share of the points that must lie where the map knows something", low=0.0, high=1.0
    )
    min_inliers: float = option(0.8, "share of these that must lie on walls", low=0.0, high=1.0)
    max_inside: float = option(0.12, "share of all points that may lie in free space", low=0.0, high=1.0)
    max_through: float = option(0.12, "share of the lines of sight that may go through walls", low=0.0, high=1.0)
    max_path_in_walls: float = option(0.01, "share of the path that may lie within walls", low=0.0, high=1.0)
    min_margin: float = option(0.10, "how much better than the next best place the place must be", low=0.0, high=1.0)
    apart_m: float = option(0.5, "places nearer than this to each other are the same (m)", low=0.05)
    apart_rad: float = option(0.3, "and turned by less than this (rad)", low=0.01)

    def __post_init__(self) -> None:
        check(self)
