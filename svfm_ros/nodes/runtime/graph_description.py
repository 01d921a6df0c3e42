"""The graph, described once: which nodes run, with which parameters, for which arguments.

``launch/forecast.launch.py`` starts one process per node from it, ``svfm run`` puts the same nodes into one process.
No ROS is imported here, so that both can read it before anything starts.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.errors import UsageError
from svfm_ros.installed_files import share_file

__all__ = [
    "ARGUMENTS",
    "FINAL_CODES",
    "RESPAWN_S",
    "Argument",
    "GraphPlan",
    "NodePlan",
    "has_screen",
    "make_plan",
    "parse_pairs",
]

FINAL_CODES = frozenset({0, 2})
"""Exit codes after which a node is not started again: it is done, or its input is not usable."""
RESPAWN_S = 0.25
PARENT_VARIABLE = "SVFM_PARENT"
"""Names, in the environment of a node's process, the one that started it: the node ends when that one goes."""

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
    """Nodes may run in another folder, so paths are made whole here."""
    return str(Path(text).expanduser().absolute())


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the launch file and of ``svfm run``; empty means not given."""

    name: str
    help: str
    parse: Callable[[str], Any] = str
    default: str = ""

    def value(self, text: str) -> Any:
        """The text as what it stands for; ``None`` where it is empty."""
        try:
            return self.parse(text) if text else None
        except ValueError as error:
            raise UsageError(f"{self.name}: expected {error}, got {text!r}") from error


ARGUMENTS = (
    Argument("bag", "replay this bag: a rosbag2 folder, an .mcap or a .db3 file", _path),
    Argument("rate", "times faster than real time, for a bag and for the simulated house (1)", _number),
    Argument("loop", "true: begin the bag again at its end", _flag),
    Argument("start", "how far into the bag to begin, s (0)", _number),
    Argument("end_with_bag", "true: end everything when the bag has ended", _flag, "false"),
    Argument("live", "true: a LiDAR driver publishes scan; false and no bag: a house is simulated", _flag, "false"),
    Argument("scan", "topic of the scans: LaserScan", default="scan"),
    Argument("map", "a map to find oneself in, map_server YAML; without it a map is made", _path),
    Argument("store", "folder of the recorded walks; without it and without a params_file a new one in /tmp", _path),
    Argument("model", "checkpoint of the model: read at start, replaced when a better one is trained", _path),
    Argument(
        "places", "places.yaml with the places of the house, in the frame of its map; without it they are found", _path
    ),
    Argument("device", "where the model runs: auto, cpu or cuda:N (auto)"),
    Argument("resident", "whose walks these are"),
    Argument("what_if_hour", "also forecast as if it were this hour, 0 to 24", _number),
    Argument("params_file", "parameters of the nodes; arguments win over it (config/svfm.yaml)", _path),
    Argument("namespace", "puts all nodes, topics and frames under this name: one per wearable"),
    Argument("use_sim_time", "true or false; left out: true for a bag and for the simulated house", _flag),
    Argument("rviz", "true: open RViz where there is a screen", _flag, "true"),
    Argument("record", "also record all topics into this new bag", _path),
)

# Which parameters an argument sets when it is given.
_SETS = {
    "bag": ("player.bag",),
    "rate": ("player.rate", "sim_node.rate"),
    "loop": ("player.loop",),
    "start": ("player.start_s",),
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
    """Everything to start."""

    nodes: tuple[NodePlan, ...]
    namespace: str
    params_file: Path
    rviz: bool
    rviz_config: Path
    fixed_frame: str
    record: Path | None
    use_sim_time: bool
    end_with_bag: bool


def has_screen() -> bool:
    """Whether a window could be opened."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """``bag:=walks rate:=2`` as texts by name."""
    texts: dict[str, str] = {}
    for pair in pairs:
        name, assigned, text = pair.partition(":=")
        if not assigned:
            raise UsageError(f"expected NAME:=VALUE, got {pair!r}")
        texts[name] = text
    return texts


def make_plan(texts: Mapping[str, str]) -> GraphPlan:
    """What to start for these arguments (texts by name); contradictions and wrong values are refused."""
    known = {a.name: a for a in ARGUMENTS}
    unknown = [name for name in texts if name not in known]
    if unknown:
        raise UsageError(f"unknown argument {unknown[0]!r}; expected some of {', '.join(known)}")
    values = {a.name: a.value(texts.get(a.name, a.default)) for a in ARGUMENTS}
    _refuse_contradictions(values)
    if not values["store"] and not values["params_file"]:  # without walks there would be nothing to learn from
        values["store"] = str(Path(tempfile.gettempdir()) / f"svfm_walks_{os.getpid()}")
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
    )


def _node(name: str, values: Mapping[str, Any], frames: Mapping[str, str], sim_time: bool) -> NodePlan:
    parameters = {"use_sim_time": sim_time, **_frames_of(name, frames), **_given(name, values)}
    if name == "player":  # or the first scans would be gone before they can be used
        parameters |= {"wait_for": [values["scan"]], "wait_for_node": "slam_node"}
    scans = (("scan", values["scan"]),) if name == "slam_node" and values["scan"] != "scan" else ()
    return NodePlan(name, parameters, scans)


def _refuse_contradictions(values: Mapping[str, Any]) -> None:
    if values["bag"] and values["live"]:
        raise UsageError("expected either bag:= or live:=true, got both")
    for name in ("loop", "start", "end_with_bag"):
        if values[name] and not values["bag"]:
            raise UsageError(f"{name}:= goes with bag:=, and there is none")
    if values["end_with_bag"] and values["loop"]:
        raise UsageError("a bag that loops has no end: expected either loop:= or end_with_bag:=, got both")


def _source(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the scans come from: a bag, a driver that runs already, or the simulated house."""
    if values["bag"]:
        return ("player",)
    return () if values["live"] else ("sim_node",)


def _namespace(values: Mapping[str, Any]) -> str:
    name = str(values["namespace"] or "").strip("/")
    return f"/{name}" if name else ""


def _frames(values: Mapping[str, Any]) -> dict[str, str]:
    """Two wearables need frames of their own, but share the map when both find themselves in a given one."""
    prefix = _namespace(values).lstrip("/")
    shared = {"map_frame"} if values["map"] else set()
    own = {name: getattr(SlamNodeConfig(), name) for name in _FRAMES}
    return {k: f"{prefix}/{n}" if prefix and k not in shared else n for k, n in own.items()}


def _frames_of(node: str, frames: Mapping[str, str]) -> dict[str, str]:
    used = {"slam_node": _FRAMES, "sim_node": ("map_frame",)}.get(node, ())
    # Only what differs from the nodes' own defaults, so that a parameters file keeps its say.
    return {name: frames[name] for name in used if frames[name] != getattr(SlamNodeConfig(), name)}


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
