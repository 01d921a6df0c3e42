"""What can be set about SLAM. The defaults serve a house, an office and a hall alike; few will need to touch them.

The handful that matter: ``range_max_m`` (trust in far echoes), ``keyframe_distance_m`` (a denser map costs time),
``local_keyframes`` (how much of the past a scan is laid onto), ``max_turn_rate_rad_s`` (how fast the wearer may turn)
and ``loop_min_score`` (how sure a loop closure must be).
"""

from dataclasses import dataclass

from svfm_ros.config.options import check, option

__all__ = ["SlamConfig"]


@dataclass(frozen=True, slots=True)
class SlamConfig:
    """Options of LiDAR-only SLAM and of localisation in a given map."""

    range_min_m: float = option(0.1, "echoes nearer than this are the wearer (m)", low=0.0)
    range_max_m: float = option(30.0, "echoes farther than this are not used (m)", low=1.0)
    thinning_m: float = option(0.05, "echoes closer together than this are averaged (m)", low=0.001, high=1.0)
    max_points: int = option(250, "points kept of a scan at most; thinning grows until they fit", low=20, high=5000)

    keyframe_distance_m: float = option(0.3, "a new keyframe after this much travel (m)", low=0.01)
    keyframe_turn_rad: float = option(0.5, "or after this much turning (rad)", low=0.01)
    familiar_views: int = option(
        3,
        "where so many keyframes saw the same, none is added: a map that is known stops growing; 0 adds all",
        low=0,
    )
    local_keyframes: int = option(80, "keyframes a scan is laid onto: recent ones, and old ones near by", low=1)

    max_speed_m_s: float = option(
        1.5, "how much speed may change from scan to scan; sets the search window (m/s)", low=0.1
    )
    max_turn_rate_rad_s: float = option(3.0, "the same for turning (rad/s)", low=0.1)
    min_inlier_ratio: float = option(
        0.33, "a scan is lost when a smaller share of it lies on the map", low=0.0, high=1.0
    )

    submap_keyframes: int = option(40, "keyframes in a submap; the next one opens when half of them are there", low=4)
    loop_every: int = option(5, "look for loop closures every so many keyframes; 0 never does", low=0)
    loop_group: int = option(12, "newest keyframes that are looked up together", low=1)
    loop_candidates: int = option(3, "submaps tried each time at most", low=1)
    loop_alike: int = option(10, "submaps tried by their looks, where drift may be large or tracking was lost", low=0)
    loop_min_score: float = option(0.65, "share of the search score that a closure needs at least", low=0.0, high=1.0)
    loop_min_inliers: float = option(0.7, "share of points that must lie on the old map", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        check(self)
