"""Table of all topics and services of the nodes with type and meaning.

docs/reference.md is generated from it, and a test compares it with the running nodes. No ROS is imported here.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["LIFECYCLE_SERVICES", "PARAMETER_SERVICES", "SERVICES", "TOPICS", "TRANSITIONS", "Service", "Topic"]

_FORECAST = (
    (
        "paths",
        "visualization_msgs/msg/MarkerArray",
        "sampled paths in the colour of the place they end at, grey for the free walker; a line of text",
    ),
    ("endpoints", "visualization_msgs/msg/MarkerArray", "ellipse, name and percentage of likely places"),
    (
        "density",
        "nav_msgs/msg/OccupancyGrid",
        "share of the sampled paths through each cell, percent, on one fixed grid",
    ),
    (
        "samples",
        "sensor_msgs/msg/PointCloud2",
        "all sampled paths: one row per path, fields x y z t place component",
    ),
    ("entropy", "std_msgs/msg/Float64", "entropy of the shares of the places, nats; NaN where unknown"),
    (
        "summary",
        "std_msgs/msg/String",
        "shares, entropy, unfamiliar, walks nearby, model and places with positions as JSON",
    ),
)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of one node. ``latched``: late subscribers get the last message."""

    node: str
    way: Literal["in", "out"]
    name: str
    kind: str
    help: str
    latched: bool = False


@dataclass(frozen=True, slots=True)
class Service:
    """One service of one node, below the node's name."""

    node: str
    name: str
    kind: str
    help: str


def _topic(prefix: str, name: str, kind: str, help: str) -> Topic:
    return Topic("forecast_node", "out", f"{prefix}/{name}", kind, help, latched=True)


TOPICS = (
    Topic("slam_node", "in", "scan", "sensor_msgs/msg/LaserScan", "scans of the LiDAR, stamped at the first beam"),
    Topic(
        "slam_node",
        "in",
        "points",
        "sensor_msgs/msg/PointCloud2",
        "or point clouds, of which a horizontal slice is used",
    ),
    Topic(
        "slam_node",
        "in",
        "initialpose",
        "geometry_msgs/msg/PoseWithCovarianceStamped",
        "where the wearer is on a given map, for example from RViz: tried first",
    ),
    Topic("slam_node", "in", "imu", "sensor_msgs/msg/Imu", "turns and tilt of the LiDAR, as a hint; not needed"),
    Topic("slam_node", "in", "odom", "nav_msgs/msg/Odometry", "dead reckoning of the wearer, as a hint; not needed"),
    Topic("slam_node", "out", "map", "nav_msgs/msg/OccupancyGrid", "the map, at most every map_period_s", True),
    Topic(
        "slam_node", "out", "pose", "geometry_msgs/msg/PoseWithCovarianceStamped", "pose of the wearer for each scan"
    ),
    Topic("slam_node", "out", "odometry", "nav_msgs/msg/Odometry", "pose and velocity without jumps"),
    Topic("slam_node", "out", "track", "nav_msgs/msg/Path", "the trajectory so far, corrected by loop closures", True),
    Topic("slam_node", "out", "walk", "nav_msgs/msg/Path", "a walk that has ended and is stored", True),
    Topic(
        "slam_node",
        "out",
        "map_in_house_frame",
        "std_msgs/msg/Bool",
        "whether stored walks share the map's frame",
        True,
    ),
    Topic("slam_node", "out", "/tf", "tf2_msgs/msg/TFMessage", "map to odom to base"),
    Topic("slam_node", "out", "/tf_static", "tf2_msgs/msg/TFMessage", "base to sensor, from the parameter mount", True),
    Topic("trainer_node", "in", "walk", "nav_msgs/msg/Path", "a walk was stored"),
    Topic(
        "trainer_node", "out", "model", "std_msgs/msg/String", "file and id of the current model, as signed JSON", True
    ),
    Topic("forecast_node", "in", "pose", "geometry_msgs/msg/PoseWithCovarianceStamped", "pose of the wearer"),
    Topic(
        "forecast_node",
        "in",
        "model",
        "std_msgs/msg/String",
        "the model to use, inside model_folder and signed by the trainer",
    ),
    Topic("forecast_node", "in", "map", "nav_msgs/msg/OccupancyGrid", "whose walls paths must not cross"),
    Topic("forecast_node", "in", "map_in_house_frame", "std_msgs/msg/Bool", "false: forecasts are unknown"),
    *(_topic("forecast", *row) for row in _FORECAST),
    *(_topic("forecast/what_if", name, kind, f"{name} as if it were what_if_hour") for name, kind, _ in _FORECAST),
    Topic(
        "sim_node",
        "in",
        "pose",
        "geometry_msgs/msg/PoseWithCovarianceStamped",
        "with `places`: the frame of SLAM's map",
    ),
    Topic("sim_node", "out", "scan", "sensor_msgs/msg/LaserScan", "scans of the simulated LiDAR"),
    Topic("sim_node", "out", "ground_truth/pose", "geometry_msgs/msg/PoseStamped", "true pose of the simulated wearer"),
    Topic("sim_node", "out", "imu", "sensor_msgs/msg/Imu", "simulated IMU, with sim.imu.enabled"),
    Topic("sim_node", "out", "odom", "nav_msgs/msg/Odometry", "simulated dead reckoning, with sim.odometry.enabled"),
    Topic("sim_node", "out", "/clock", "rosgraph_msgs/msg/Clock", "simulated time"),
    Topic("player", "out", "/clock", "rosgraph_msgs/msg/Clock", "time of the recording, beside the topics of the bag"),
    Topic("web_node", "in", "map", "nav_msgs/msg/OccupancyGrid", "to draw"),
    Topic("web_node", "in", "scan", "sensor_msgs/msg/LaserScan", "to draw"),
    Topic("web_node", "in", "pose", "geometry_msgs/msg/PoseWithCovarianceStamped", "to draw"),
    Topic("web_node", "in", "walk", "nav_msgs/msg/Path", "to draw"),
    Topic("web_node", "in", "forecast/samples", "sensor_msgs/msg/PointCloud2", "to draw"),
    Topic("web_node", "in", "forecast/density", "nav_msgs/msg/OccupancyGrid", "to draw"),
    Topic("web_node", "in", "forecast/summary", "std_msgs/msg/String", "to draw"),
    Topic("web_node", "in", "forecast/what_if/samples", "sensor_msgs/msg/PointCloud2", "to draw"),
    Topic("web_node", "in", "forecast/what_if/summary", "std_msgs/msg/String", "to draw"),
    Topic(
        "web_node", "in", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "of the other nodes, to show in words"
    ),
    Topic("web_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "open pages"),
    Topic("slam_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "rates, latency, losses, walks"),
    Topic("trainer_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "walks, losses, the model"),
    Topic("forecast_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "rate, latency, the model"),
    Topic("sim_node", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "position, rate, whether paused"),
    Topic("player", "out", "/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", "position, rate, whether paused"),
)
"""Relative names follow the namespace and can be remapped; names with a slash are global."""

SERVICES = (
    Service("slam_node", "save_map", "std_srvs/srv/Trigger", "write the map to save_map_to"),
    Service("slam_node", "finish_walk", "std_srvs/srv/Trigger", "end the current walk and store it"),
    Service(
        "slam_node", "reset", "std_srvs/srv/Trigger", "start with an empty map, or search for the wearer on a given map"
    ),
    Service("trainer_node", "train_now", "std_srvs/srv/Trigger", "train without waiting for new walks"),
    Service("player", "pause", "std_srvs/srv/SetBool", "true: pause the replay; false: resume"),
    Service("sim_node", "pause", "std_srvs/srv/SetBool", "true: pause the simulation; false: resume"),
)

TRANSITIONS = "transition_event"
"""Topic of every node, below its name, with each change of its state: lifecycle_msgs/msg/TransitionEvent."""

LIFECYCLE_SERVICES = {
    "change_state": "lifecycle_msgs/srv/ChangeState",
    "get_state": "lifecycle_msgs/srv/GetState",
    "get_available_states": "lifecycle_msgs/srv/GetAvailableStates",
    "get_available_transitions": "lifecycle_msgs/srv/GetAvailableTransitions",
    "get_transition_graph": "lifecycle_msgs/srv/GetAvailableTransitions",
}
"""Services of every node, below its name, for lifecycle managers."""

PARAMETER_SERVICES = (
    "describe_parameters",
    "get_parameter_types",
    "get_parameters",
    "get_type_description",
    "list_parameters",
    "set_parameters",
    "set_parameters_atomically",
)
"""Services that rclpy gives every node."""
