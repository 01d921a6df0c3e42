"""Description of the ROS graph: which nodes run with which parameters for which launch arguments.

``launch/forecast.launch.py`` starts one process per node from it, ``svfm run`` all nodes in one process. No ROS is
imported here, so that both can check arguments before they start anything.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svfm_ros.config.node_config import NODE_CONFIGS, SimNodeConfig, SlamNodeConfig
from svfm_ros.errors import UsageError
from svfm_ros.installed_files import share_file
from svfm_ros.pipeline.live.state_folder import default_store

__all__ = [
    "ARGUMENTS",
    "FINAL_CODES",
    "NETWORK_VARIABLE",
    "NETWORK_VARIABLES",
    "RESPAWN_S",
    "UNUSABLE",
    "Argument",
    "GraphPlan",
    "NodePlan",
    "has_screen",
    "make_plan",
    "parse_pairs",
]

UNUSABLE = 2
"""Exit code of a node whose input is not usable."""
FINAL_CODES = frozenset({0, UNUSABLE})
"""Exit codes after which a node is not started again."""
RESPAWN_S = 0.25
NETWORK_VARIABLE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
NETWORK_VARIABLES = (
    NETWORK_VARIABLE,
    "ROS_LOCALHOST_ONLY",
    "ROS_DISCOVERY_SERVER",
    "FASTRTPS_DEFAULT_PROFILES_FILE",
    "FASTDDS_DEFAULT_PROFILES_FILE",
    "CYCLONEDDS_URI",
)
"""Environment variables that configure the network of ROS; where one is set it is respected."""

_FRAMES = ("map_frame", "odom_frame", "base_frame")


def _flag(text: str) -> bool:
    if text.lower() in ("true", "1", "yes", "on"):
        return True
    if text.lower() in ("false", "0", "no", "off"):
        return False
    raise ValueError("true or false")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def _path(text: str) -> str:
    """An absolute path, because nodes may run in another folder."""
    return str(Path(text).expanduser().absolute())


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _network(text: str) -> str:
    if text not in ("local", "lan"):
        raise ValueError("local or lan")
    return text


def _name(text: str) -> str:
    """A ROS namespace without outer slashes."""
    name = text.strip("/")
    if not all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", part) for part in name.split("/")) or "__" in name:
        raise ValueError("a ROS name of letters, digits and single underscores that begins with a letter")
    return name


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the launch file and of ``svfm run``; an empty text means not given."""

    name: str
    help: str
    parse: Callable[[str], Any] = str
    default: str = ""

    def value(self, text: str) -> Any:
        """The parsed text; ``None`` where it is empty."""
        try:
            return self.parse(text) if text else None
        except ValueError as error:
            raise UsageError(f"{self.name}: expected {error}, got {text!r}") from error


ARGUMENTS = (
    Argument("bag", "replay this bag: a rosbag2 folder, an .mcap or a .db3 file", _path),
    Argument("rate", "times faster than real time, for a bag and for the simulated house (1)", _number),
    Argument("loop", "true: start the bag again at its end", _flag),
    Argument("start", "start at so many seconds into the bag (0)", _number),
    Argument("topics", "topics of the bag to replay, separated by commas, or all (the inputs)", _names),
    Argument("end_with_bag", "true: end everything when the bag has ended", _flag, "false"),
    Argument("live", "true: a LiDAR driver publishes scan; false and no bag: a house is simulated", _flag, "false"),
    Argument("scan", "topic of the scans: LaserScan", default="scan"),
    Argument("map", "a map for localisation, map_server YAML; without it a map is made", _path),
    Argument("store", "folder of walks, map and model (a folder in ~/.local/state/svfm_ros)", _path),
    Argument("model", "file of the model: read at start, replaced by a better one (model.pt in the store)", _path),
    Argument(
        "places", "places.yaml with the places of the house, in the frame of its map; without it they are found", _path
    ),
    Argument("device", "where the model runs: auto, cpu or cuda:N (auto)"),
    Argument("resident", "whose walks these are"),
    Argument("what_if_hour", "also forecast as if it were this hour, 0 to 24", _number),
    Argument("params_file", "parameters of the nodes; arguments win over it (config/svfm.yaml)", _path),
    Argument("namespace", "prefix of all nodes, topics and frames: one per wearable", _name),
    Argument("network", "local: this machine only; lan: also other machines", _network, "local"),
    Argument("use_sim_time", "true or false; left out: true for a bag and for the simulated house", _flag),
    Argument("rviz", "true: open RViz where there is a screen", _flag, "true"),
    Argument("record", "also record all topics into this new bag", _path),
)

# Parameters that an argument sets when it is given.
_SETS = {
    "bag": ("player.bag",),
    "rate": ("player.rate", "sim_node.rate"),
    "loop": ("player.loop",),
    "start": ("player.start_s",),
    "topics": ("player.topics",),
    "map": ("slam_node.map",),
    "store": ("slam_node.store", "trainer_node.store"),
    "model": ("trainer_node.model", "forecast_node.model"),
    "places": ("trainer_node.places", "forecast_node.places"),
    "device": ("trainer_node.device", "forecast_node.device"),
    "resident": ("slam_node.resident", "trainer_node.resident"),
    "what_if_hour": ("forecast_node.what_if_hour",),
}


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node to start: the executable of that name, ``svfm_ros.nodes.<name>``."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    remappings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """All nodes to start, and what to print and set before."""

    nodes: tuple[NodePlan, ...]
    namespace: str
    params_file: Path
    rviz: bool
    rviz_config: Path
    fixed_frame: str
    record: Path | None
    use_sim_time: bool
    end_with_bag: bool
    environment: Mapping[str, str] = field(default_factory=dict)  # to set before ROS is initialised
    notes: tuple[str, ...] = ()  # lines to print at start


def has_screen() -> bool:
    """Whether a window can be opened."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Texts by name from ``bag:=walks rate:=2``."""
    texts: dict[str, str] = {}
    for pair in pairs:
        name, assigned, text = pair.partition(":=")
        if not assigned:
            raise UsageError(f"expected NAME:=VALUE, got {pair!r}")
        texts[name] = text
    return texts


def make_plan(texts: Mapping[str, str]) -> GraphPlan:
    """The nodes to start for these arguments (texts by name); raises for contradictions and wrong values."""
    known = {a.name: a for a in ARGUMENTS}
    unknown = [name for name in texts if name not in known]
    if unknown:
        raise UsageError(f"unknown argument {unknown[0]!r}; expected some of {', '.join(known)}")
    values = {a.name: a.value(texts.get(a.name, a.default)) for a in ARGUMENTS}
    _refuse_contradictions(values)
    _refuse_wrong_values(values)
    if not values["store"] and not values["params_file"]:
        values["store"] = str(
            default_store("walks" if values["live"] else "replayed" if values["bag"] else "simulated")
        )
    network, environment = _network_of(values)
    sim_time = values["use_sim_time"] if values["use_sim_time"] is not None else not values["live"]
    frames = _frames(values)
    names = (*_source(values), "slam_node", "trainer_node", "forecast_node")
    return GraphPlan(
        nodes=tuple(_node(name, values, frames, sim_time) for name in names),
        namespace=_namespace(values),
        params_file=_params_file(values),
        rviz=values["rviz"],
        rviz_config=share_file("config/forecast.rviz"),
        fixed_frame=frames["map_frame"],
        record=_record(values),
        use_sim_time=sim_time,
        end_with_bag=values["end_with_bag"],
        environment=environment,
        notes=(*([f"walks, map and model are kept in {values['store']}"] if values["store"] else []), network),
    )


def _network_of(values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """A line about who can receive our messages, and the environment variables to set for it."""
    present = [name for name in NETWORK_VARIABLES if os.environ.get(name)]
    if present:
        named = ", ".join(f"{name}={os.environ[name]}" for name in present)
        return f"network: as set in the environment ({named})", {}
    if values["network"] == "lan":
        return "network: open, all machines in this network can receive positions and maps", {
            NETWORK_VARIABLE: "SUBNET"
        }
    peers = os.environ.get("ROS_STATIC_PEERS")
    who = f"this machine and ROS_STATIC_PEERS={peers}" if peers else "this machine only"
    return f"network: {who} (network:=lan opens it)", {NETWORK_VARIABLE: "LOCALHOST"}


def _node(name: str, values: Mapping[str, Any], frames: Mapping[str, str], sim_time: bool) -> NodePlan:
    parameters = {"use_sim_time": sim_time, **_frames_of(name, frames), **_given(name, values)}
    if name == "player":  # wait for the subscriber, or the first scans are lost
        parameters |= {"wait_for": [values["scan"]], "wait_for_node": "slam_node"}
    remappings = (("scan", values["scan"]),) if name == "slam_node" and values["scan"] != "scan" else ()
    if name == "forecast_node" and (folder := _model_folder(values)):
        parameters["model_folder"] = folder
    return NodePlan(name, parameters, remappings)


def _refuse_contradictions(values: Mapping[str, Any]) -> None:
    if values["bag"] and values["live"]:
        raise UsageError("expected either bag:= or live:=true, got both")
    for name in ("loop", "start", "topics", "end_with_bag"):
        if values[name] and not values["bag"]:
            raise UsageError(f"{name}:= goes with bag:=, and there is none")
    if values["end_with_bag"] and values["loop"]:
        raise UsageError("a bag that loops has no end: expected either loop:= or end_with_bag:=, got both")


def _refuse_wrong_values(values: Mapping[str, Any]) -> None:
    if values["bag"] and not Path(values["bag"]).exists():
        raise UsageError(f"bag: expected a bag, but {values['bag']} does not exist")
    if values["store"] and Path(values["store"]).is_file():
        raise UsageError(f"store: expected a folder, got the file {values['store']}")
    hour = values["what_if_hour"]
    if hour is not None and not 0.0 <= hour <= 24.0:
        raise UsageError(f"what_if_hour: expected 0 to 24, got {hour:g}")


def _model_folder(values: Mapping[str, Any]) -> str:
    """Folder of the model that the trainer announces; empty where a parameters file sets it."""
    return str(Path(values["model"]).parent) if values["model"] else values["store"] or ""


def _source(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The node that publishes scans: player, simulation, or none where a driver does."""
    if values["bag"]:
        return ("player",)
    return () if values["live"] else ("sim_node",)


def _namespace(values: Mapping[str, Any]) -> str:
    return f"/{values['namespace']}" if values["namespace"] else ""


def _frames(values: Mapping[str, Any]) -> dict[str, str]:
    """Frame names by parameter: each wearable has its own, but a given map is shared."""
    prefix = _namespace(values).lstrip("/")
    shared = {"map_frame"} if values["map"] else set()
    own = {**{name: getattr(SlamNodeConfig(), name) for name in _FRAMES}, "laser_frame": SimNodeConfig().laser_frame}
    return {k: f"{prefix}/{n}" if prefix and k not in shared else n for k, n in own.items()}


def _frames_of(node: str, frames: Mapping[str, str]) -> dict[str, str]:
    used = {"slam_node": _FRAMES, "sim_node": ("map_frame", "laser_frame")}.get(node, ())
    # Only frames that differ from the default: a parameters file may set the others.
    return {name: frames[name] for name in used if frames[name] != getattr(NODE_CONFIGS[node](), name)}


def _given(node: str, values: Mapping[str, Any]) -> dict[str, Any]:
    set_by = {target: name for name, targets in _SETS.items() for target in targets}
    mine = {target.partition(".")[2]: values[name] for target, name in set_by.items() if target.startswith(f"{node}.")}
    return {parameter: value for parameter, value in mine.items() if value is not None}


def _params_file(values: Mapping[str, Any]) -> Path:
    if not values["params_file"]:
        return share_file("config/svfm.yaml")
    path = Path(values["params_file"])
    if not os.access(path, os.R_OK):
        raise UsageError(f"params_file: expected a YAML file that can be read, got {path}")
    return path


def _record(values: Mapping[str, Any]) -> Path | None:
    if not values["record"]:
        return None
    path = Path(values["record"])
    if path.exists():
        raise UsageError(f"record: expected the name of a new bag, but {path} exists")
    return path
