"""Options of SLAM and of the occupancy grid. The defaults are the same for homes, offices and halls.

The most useful ones: ``range_max_m`` (longest range used), ``keyframe_distance_m`` (a denser map costs time),
``local_keyframes`` (size of the local map), ``max_turn_rate_rad_s`` (how fast the wearer may turn) and
``loop_min_score`` (score that a loop closure needs).
"""

from dataclasses import dataclass

from svfm_ros.config.options import CheckedOptions, option

__all__ = ["RasterConfig", "SlamConfig"]


@dataclass(frozen=True, slots=True)
class SlamConfig(CheckedOptions):
    """Options of LiDAR-only SLAM and of localisation in a given map."""

    range_min_m: float = option(0.1, "nearer echoes are the wearer and are left out (m)", low=0.0)
    range_max_m: float = option(30.0, "echoes farther than this are not used (m)", low=1.0)
    thinning_m: float = option(0.05, "echoes closer together than this are averaged (m)", low=0.001, high=1.0)
    max_points: int = option(250, "points kept of a scan at most; thinning grows until they fit", low=20, high=5000)

    keyframe_distance_m: float = option(0.3, "a new keyframe after this much travel (m)", low=0.01)
    keyframe_turn_rad: float = option(0.5, "or after this much turning (rad)", low=0.01)
    familiar_views: int = option(
        3,
        "where so many keyframes have a similar pose, none is added and the map stops growing; 0 adds all",
        low=0,
    )
    local_keyframes: int = option(80, "keyframes of the local map that scans are matched against", low=1)

    max_speed_m_s: float = option(1.5, "largest change of speed between scans; sets the search window (m/s)", low=0.1)
    max_turn_rate_rad_s: float = option(3.0, "the same for turning (rad/s)", low=0.1)
    min_inlier_ratio: float = option(0.33, "a scan with a smaller share of inliers is lost", low=0.0, high=1.0)

    use_imu: bool = option(True, "use an IMU, where there is one and the scans agree with it")
    use_odometry: bool = option(True, "use odometry, where there is any and the scans agree with it")
    imu_mount: tuple[float, float, float] = option(
        (0.0, 0.0, 0.0), "roll, pitch and yaw of the IMU in the axes of the LiDAR, x ahead, z up (rad)"
    )
    sensor_height_m: float = option(1.2, "height of the LiDAR; tilted beams end at the floor (m)", low=0.05, high=5.0)
    room_height_m: float = option(2.4, "height of the rooms; tilted beams end at the ceiling (m)", low=0.5, high=100.0)

    submap_keyframes: int = option(40, "keyframes in a submap; the next one opens when half of them are there", low=4)
    loop_every: int = option(5, "look for loop closures every so many keyframes; 0 never does", low=0)
    loop_group: int = option(12, "newest keyframes that are looked up together", low=1)
    loop_candidates: int = option(3, "nearby submaps searched each time at most", low=1)
    loop_alike: int = option(10, "submaps searched by similarity, where drift may be large or tracking was lost", low=0)
    loop_min_score: float = option(0.65, "least score of a loop closure in the coarse search", low=0.0, high=1.0)
    loop_min_inliers: float = option(0.7, "least share of inliers of a loop closure", low=0.0, high=1.0)


@dataclass(frozen=True, slots=True)
class RasterConfig(CheckedOptions):
    """Options of the occupancy grid."""

    resolution_m: float = option(0.05, "side of a cell (m)", low=0.005, high=1.0)
    range_max_m: float = option(30.0, "echoes farther than this are not drawn (m)", low=0.5)
    hit: float = option(0.8, "probability that a cell is occupied, after one echo in it", low=0.5, high=0.999)
    miss: float = option(0.35, "the same after one beam went through it", low=0.001, high=0.5)
    clamp: float = option(0.98, "largest probability of a cell", low=0.5, high=0.9999)
