"""Description of the ROS graph: which nodes run with which parameters for which launch arguments.

``launch/forecast.launch.py`` starts one process per node from it, ``svfm run`` all nodes in one process. No ROS is
imported here, so that both can check arguments before they start anything.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from svfm_ros.atomic_files import check_output_folder, check_regular, previous_of, read_yaml
from svfm_ros.config.node_config import NODE_CONFIGS, SimNodeConfig, SlamNodeConfig, WebNodeConfig
from svfm_ros.errors import UsageError
from svfm_ros.installed_files import share_file
from svfm_ros.nodes.runtime.launch_arguments import ARGUMENTS
from svfm_ros.pipeline.live.state_folder import default_store
from svfm_ros.walks.places import beside_map, places_file
from svfm_ros.web.page_address import free_port, page_address, page_token

__all__ = [
    "FINAL_CODES",
    "NETWORK_VARIABLE",
    "NETWORK_VARIABLES",
    "RESPAWN_S",
    "UNUSABLE",
    "WEB_TOKEN_VARIABLE",
    "GraphPlan",
    "NodePlan",
    "has_screen",
    "loopback_environment",
    "make_plan",
]

UNUSABLE = 2
"""Exit code of a node whose input is not usable."""
FINAL_CODES = frozenset({0, UNUSABLE})
"""Exit codes after which a node is not started again."""
RESPAWN_S = 0.25
WEB_TOKEN_VARIABLE = "SVFM_WEB_TOKEN"
"""Environment variable with the token of the live page: it stays the same when its node is started again."""
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

_PROFILE_VARIABLE = "FASTRTPS_DEFAULT_PROFILES_FILE"
_TOPIC = "[~/]?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*"
_FRAMES = ("map_frame", "odom_frame", "base_frame")


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
    "device": ("forecast_node.device",),
    "resident": ("slam_node.resident", "forecast_node.resident"),
    "time_zone": ("trainer_node.windows.time_zone", "web_node.time_zone"),
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
    given_map: str  # map_server YAML, or empty
    fixed_frame: str
    record: Path | None
    use_sim_time: bool
    end_with_bag: bool
    time_zone: str = WebNodeConfig().time_zone  # of the printed hours
    remappings: tuple[tuple[str, str], ...] = ()  # of all programs
    environment: Mapping[str, str] = field(default_factory=dict)  # to set before ROS is initialised
    notes: tuple[str, ...] = ()  # lines to print at start


def has_screen() -> bool:
    """Whether a window can be opened."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


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
    if values["map"] and not values["places"] and (beside := places_file(None, Path(values["map"]))):
        values["places"] = str(beside)
    network, environment = _network_of(values)
    sim_time = values["use_sim_time"] if values["use_sim_time"] is not None else not values["live"]
    frames = _frames(values)
    names = (*_source(values), "slam_node", "trainer_node", "forecast_node")
    page = _live_page(values)
    return GraphPlan(
        nodes=(*(_node(name, values, frames, sim_time) for name in names), *_web_node(page, values, frames, sim_time)),
        namespace=_namespace(values),
        params_file=_params_file(values),
        rviz=values["rviz"],
        rviz_config=share_file("config/forecast.rviz"),
        given_map=values["map"] or "",
        fixed_frame=frames["map_frame"],
        record=_record(values),
        use_sim_time=sim_time,
        end_with_bag=values["end_with_bag"],
        time_zone=values["time_zone"] or WebNodeConfig().time_zone,
        remappings=_clock_of(values, sim_time),
        environment={**environment, **({WEB_TOKEN_VARIABLE: page.token} if page and page.token else {})},
        notes=(
            *([f"live page: {page.address}"] if page else []),
            *([f"walks, map and model are kept in {values['store']}"] if values["store"] else []),
            *(
                [f"{values['model']} does not exist yet: it is written when there are walks"]
                if _is_new_model(values)
                else []
            ),
            network,
        ),
    )


@dataclass(frozen=True, slots=True)
class _LivePage:
    """Where the live page is served."""

    host: str
    port: int
    token: str

    @property
    def address(self) -> str:
        return page_address(self.host, self.port, self.token)


def _live_page(values: Mapping[str, Any]) -> _LivePage | None:
    """The live page at the wanted port, or at the first free one; None where it is turned off."""
    if values["web"] is False:
        return None
    host = values["web_host"] or WebNodeConfig().host
    port = free_port(host, WebNodeConfig().port) if values["web"] is True else values["web"]
    return _LivePage(host, port, page_token(host))


def _web_node(
    page: _LivePage | None, values: Mapping[str, Any], frames: Mapping[str, str], sim_time: bool
) -> tuple[NodePlan, ...]:
    if page is None:
        return ()
    node = _node("web_node", values, frames, sim_time)
    return (replace(node, parameters={**node.parameters, "host": page.host, "port": page.port}),)


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
    return f"network: {who} (network:=lan opens it)", loopback_environment()


def loopback_environment() -> dict[str, str]:
    """Variables that keep ROS on the loopback interface; none where the environment configures the network already.

    The discovery range alone does not: Fast DDS listens on all interfaces and responds to a machine that has this one
    as a static peer.
    """
    if any(os.environ.get(name) for name in NETWORK_VARIABLES):
        return {}
    if os.environ.get("ROS_STATIC_PEERS"):
        return {NETWORK_VARIABLE: "LOCALHOST"}
    return {NETWORK_VARIABLE: "LOCALHOST", _PROFILE_VARIABLE: str(share_file("config/loopback.xml"))}


def _node(name: str, values: Mapping[str, Any], frames: Mapping[str, str], sim_time: bool) -> NodePlan:
    parameters = {"use_sim_time": sim_time, **_frames_of(name, frames), **_given(name, values)}
    if not values["autostart"]:
        parameters["autostart"] = False
    if name == "player":  # wait for the subscriber, or the first scans are lost
        parameters |= {"wait_for": [values["scan"]], "wait_for_node": "slam_node"}
        if values["store"]:
            wearer = values["namespace"].replace("/", "-") + "." if values["namespace"] else ""
            parameters["position"] = str(Path(values["store"]) / f"{wearer}player.position")
    scan = (("scan", str(values["scan"])),) if name in ("slam_node", "web_node") and values["scan"] != "scan" else ()
    if name == "sim_node" and values["store"] and not values["map"] and not values["places"]:
        parameters["places"] = str(beside_map(Path(values["store"]) / "map.yaml"))
    remappings = (*scan, *_clock_of(values, sim_time))
    if name == "forecast_node" and (folder := _model_folder(values)):
        parameters["model_folder"] = folder
    if name == "forecast_node" and _is_new_model(values):
        del parameters["model"]  # nothing to read: the trainer announces it
    return NodePlan(name, parameters, remappings)


def _clock_of(values: Mapping[str, Any], sim_time: bool) -> tuple[tuple[str, str], ...]:
    """Each wearable that is replayed or simulated has a clock of its own."""
    own = sim_time and not values["live"] and values["namespace"]
    return (("/clock", f"{_namespace(values)}/clock"),) if own else ()


def _refuse_contradictions(values: Mapping[str, Any]) -> None:
    if values["bag"] and values["live"]:
        raise UsageError("expected either bag:= or live:=true, got both")
    for name in ("loop", "start", "topics", "end_with_bag"):
        if values[name] and not values["bag"]:
            raise UsageError(f"{name}:= goes with bag:=, and there is none")
    if values["live"] and values["rate"] is not None:
        raise UsageError("rate:= goes with bag:= or the simulated house; a LiDAR has its own")
    if values["end_with_bag"] and values["loop"]:
        raise UsageError("a bag that loops has no end: expected either loop:= or end_with_bag:=, got both")


def _refuse_wrong_values(values: Mapping[str, Any]) -> None:
    if values["bag"] and not Path(values["bag"]).exists():
        raise UsageError(f"bag: expected a bag, but {values['bag']} does not exist")
    if values["store"] and Path(values["store"]).is_file():
        raise UsageError(f"store: expected a folder, got the file {values['store']}")
    for name in ("map", "places"):
        if values[name]:
            check_regular(Path(values[name]))
    for name in ("bag", "model"):  # a bag may be a folder, a model may be made later
        if values[name] and Path(values[name]).exists() and not (name == "bag" and Path(values[name]).is_dir()):
            check_regular(Path(values[name]))
    if values["model"] and Path(values["model"]).exists() and not _can_be_replaced(Path(values["model"])):
        raise UsageError(
            f"model: expected a walk model or the name of a new one, but {values['model']} is another file"
        )
    if not re.fullmatch(_TOPIC, values["scan"] or ""):
        raise UsageError(f"scan: expected the name of a topic, got {values['scan']!r}")
    hour = values["what_if_hour"]
    if hour is not None and not 0.0 <= hour <= 24.0:
        raise UsageError(f"what_if_hour: expected 0 to 24, got {hour:g}")


def _can_be_replaced(model: Path) -> bool:
    """Whether training may replace a file: it begins as a model does, now or in version 0.1, or one was before it."""
    try:
        with model.open("rb") as file:
            head = file.read(9)
    except OSError as error:
        raise UsageError(f"model: cannot read {model}: {error.strerror}") from error
    return head.startswith(b"PK") or head[8:] == b"{" or not head or previous_of(model).exists()


def _is_new_model(values: Mapping[str, Any]) -> bool:
    """Whether the model that was named has yet to be made."""
    path = Path(values["model"]) if values["model"] else None
    return path is not None and not path.exists() and not previous_of(path).exists()


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
    if not _are_parameters(read_yaml(path, "a file of parameters")):
        raise UsageError(f"params_file: expected NODE: {{ros__parameters: ...}} in {path}, got something else")
    return path


def _are_parameters(sheet: Any) -> bool:
    """Whether rcl can read it: nodes, also below namespaces, with a mapping ``ros__parameters`` each."""
    if not isinstance(sheet, dict) or not sheet:
        return False
    return all(
        isinstance(inside, dict) if name == "ros__parameters" else _are_parameters(inside)
        for name, inside in sheet.items()
    )


def _record(values: Mapping[str, Any]) -> Path | None:
    if not values["record"]:
        return None
    path = Path(values["record"])
    if path.exists():
        raise UsageError(f"record: expected the name of a new bag, but {path} exists")
    check_output_folder(path)
    return path
