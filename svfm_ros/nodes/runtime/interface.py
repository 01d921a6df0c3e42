"""What the nodes say and hear: every topic and service with its type and its meaning, in one table.

The reference page is made from it, and a test holds it against the running nodes. No ROS is imported here.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["SERVICES", "TOPICS", "Service", "Topic"]

_FORECAST = (
    ("paths", "visualization_msgs/msg/MarkerArray", "sampled paths in the colour of where they end"),
    ("endpoints", "visualization_msgs/msg/MarkerArray", "places with name and percentage; entropy as text"),
    ("density", "nav_msgs/msg/OccupancyGrid", "how likely each cell is to be walked on"),
    (
        "samples",
        "sensor_msgs/msg/PointCloud2",
        "all paths for machines: one row per path, fields x y z t place component",
    ),
    ("entropy", "std_msgs/msg/Float64", "entropy of where the paths end, nats"),
    ("summary", "std_msgs/msg/String", "shares, entropy, number of walks and model as JSON"),
)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of one node. ``latched``: who comes late gets the last message."""

    node: str
    way: Literal["in", "out"]
    name: str
    kind: str
    help: str
    latched: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """One service of one node; its name is below the node's."""

    node: str
    name: str
    kind: str
    help: str


def _topic(prefix: str, name: str, kind: str, help: str) -> Topic:
    return Topic("forecast_node", "out", f"{prefix}/{name}", kind, help, latched=True)


TOPICS = (
    Topic("slam_node", "in", "scan", "sensor_msgs/msg/LaserScan", "sweeps of the LiDAR, stamped at the first beam"),
    Topic("slam_node", "in", "points", "sensor_msgs/msg/PointCloud2", "or clouds, of which a level slice is used"),
    Topic("slam_node", "out", "map", "nav_msgs/msg/OccupancyGrid", "the map, at most every map_period_s", True),
    Topic(
        "slam_node", "out", "pose", "geometry_msgs/msg/PoseWithCovarianceStamped", "where the wearer is, scan by scan"
    ),
    Topic("slam_node", "out", "track", "nav_msgs/msg/Path", "the way so far, as corrected by loop closures", True),
    Topic("slam_node", "out", "walk", "nav_msgs/msg/Path", "a walk that has just ended", True),
    Topic("slam_node", "out", "/tf", "tf2_msgs/msg/TFMessage", "map to odom to base"),
    Topic("slam_node", "out", "/tf_static", "tf2_msgs/msg/TFMessage", "base to sensor, from the parameter mount", True),
    Topic("trainer_node", "in", "walk", "nav_msgs/msg/Path", "tells that a walk is in the store"),
    Topic("trainer_node", "out", "model", "std_msgs/msg/String", "file and id of the model in use, as JSON", True),
    Topic("forecast_node", "in", "pose", "geometry_msgs/msg/PoseWithCovarianceStamped", "where the wearer is"),
    Topic("forecast_node", "in", "model", "std_msgs/msg/String", "which model to use from now on"),
    Topic("forecast_node", "in", "map", "nav_msgs/msg/OccupancyGrid", "whose walls paths must not cross"),
    *(_topic("forecast", *row) for row in _FORECAST),
    *(_topic("forecast/what_if", name, kind, f"{name}, had it been what_if_hour") for name, kind, _ in _FORECAST),
    Topic("sim_node", "out", "scan", "sensor_msgs/msg/LaserScan", "what the simulated LiDAR sees"),
    Topic("sim_node", "out", "ground_truth/pose", "geometry_msgs/msg/PoseStamped", "where the simulated wearer is"),
    Topic("sim_node", "out", "/clock", "rosgraph_msgs/msg/Clock", "simulated time"),
    Topic("player", "out", "/clock", "rosgraph_msgs/msg/Clock", "time of the recording, beside the topics of the bag"),
    Topic("slam_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "rates, latency, losses, walks"),
    Topic("trainer_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "walks, losses, the model"),
    Topic("forecast_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "rate, latency, the model"),
)
"""Relative names follow the namespace and can be remapped; names with a slash belong to all."""

SERVICES = (
    Service("slam_node", "save_map", "std_srvs/srv/Trigger", "write the map to save_map_to"),
    Service("slam_node", "finish_walk", "std_srvs/srv/Trigger", "end the walk under way and keep it"),
    Service("slam_node", "reset", "std_srvs/srv/Trigger", "forget the map, or where one is on a given map"),
    Service("trainer_node", "train_now", "std_srvs/srv/Trigger", "train without waiting for more walks"),
    Service("player", "pause", "std_srvs/srv/SetBool", "true: hold the replay; false: go on"),
)
