"""The arguments of the launch file and of ``svfm run``: names, help, defaults and how their texts are read."""

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svfm_ros.clock import zone
from svfm_ros.errors import ConfigError, UsageError

__all__ = ["ARGUMENTS", "Argument", "parse_pairs"]


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
    if "\0" in text:
        raise ValueError("a path without null characters")
    try:
        return str(Path(text).expanduser().absolute())
    except RuntimeError:  # ~name of a user that is not known
        raise ValueError("a path") from None


def _web(text: str) -> int | bool:
    """A port, or whether there is a live page."""
    if not text.isdecimal() or text in ("0", "1"):
        return _flag(text)
    if int(text) > 65535:
        raise ValueError("true, false or a port up to 65535")
    return int(text)


def _host(text: str) -> str:
    """An address of this machine."""
    try:
        return text if text == "localhost" else str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("an IP address such as 127.0.0.1 or 0.0.0.0") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _network(text: str) -> str:
    if text not in ("local", "lan"):
        raise ValueError("local or lan")
    return text


def _time_zone(text: str) -> str:
    try:
        zone(text)
    except ConfigError:
        raise ValueError("an IANA time zone such as Europe/London") from None
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
    Argument("device", "where forecasts run: cpu, cuda:N or auto, the faster of both (auto)"),
    Argument("resident", "whose walks these are"),
    Argument("time_zone", "IANA name of the zone of the home, such as Europe/London (UTC)", _time_zone),
    Argument("what_if_hour", "also forecast as if it were this hour, 0 to 24", _number),
    Argument("params_file", "parameters of the nodes; arguments override it (config/svfm.yaml)", _path),
    Argument("namespace", "prefix of all nodes, topics and frames: one per wearable", _name),
    Argument("network", "local: this machine only; lan: also other machines", _network, "local"),
    Argument("use_sim_time", "true or false; left out: true for a bag and for the simulated house", _flag),
    Argument(
        "autostart", "false: nodes wait for a lifecycle manager that configures and activates them", _flag, "true"
    ),
    Argument(
        "web", "the live page in a browser: true, false or its port (8600, or the next that is free)", _web, "true"
    ),
    Argument("web_host", "address of the live page; any but 127.0.0.1 needs the token of the printed URL", _host),
    Argument("rviz", "true: open RViz where there is a screen", _flag, "true"),
    Argument("record", "also record all topics into this new bag", _path),
)


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Texts by name from ``bag:=walks rate:=2``."""
    texts: dict[str, str] = {}
    for pair in pairs:
        name, assigned, text = pair.partition(":=")
        if not assigned:
            raise UsageError(f"expected NAME:=VALUE, got {pair!r}")
        texts[name] = text
    return texts
