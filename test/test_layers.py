"""Imports point one way; this file holds the rules."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "svfm_ros"

TOP_ROOMS = {"nodes", "cli", "experiments", "report", "figures", "pipeline"}
"""Rooms that base modules and the core never import."""

MAY_IMPORT = {
    "sources": set(),
    "config": set(),
    "slam": {"sources"},
    "sim": {"sources"},
    "svfm": set(),
    "walks": {"slam"},
    "forecasting": {"svfm"},
    "pipeline": {"slam", "walks", "forecasting", "svfm", "sources"},
    "figures": {"slam", "walks", "forecasting", "svfm", "sim", "pipeline"},
    "report": {"slam", "walks", "forecasting", "pipeline"},
    "experiments": {"slam", "walks", "forecasting", "svfm", "sim", "pipeline", "figures"},
    "nodes": {"slam", "walks", "forecasting", "svfm", "sim", "pipeline", "sources"},
    "api": {"slam", "walks", "forecasting", "sim", "pipeline", "sources", "figures", "report"},
    "cli": {
        "slam",
        "walks",
        "forecasting",
        "svfm",
        "sim",
        "pipeline",
        "sources",
        "figures",
        "report",
        "experiments",
        "nodes",
    },
}
"""For each room the other rooms it may import; every room may import base modules and ``config``."""

BASE = {"atomic_files", "clock", "compiled", "config", "errors", "geometry", "installed_files", "mapio"}
BASE |= {"progress", "targets", "types", "version"}
ROS = {"rclpy", "rcl_interfaces", "builtin_interfaces", "sensor_msgs", "nav_msgs", "geometry_msgs", "std_msgs"}
ROS |= {"std_srvs", "visualization_msgs", "diagnostic_msgs", "rosgraph_msgs", "tf2_msgs", "sensor_msgs_py"}
ROS |= {"launch", "launch_ros", "ament_index_python"}


def imports_of(path: Path) -> set[str]:
    """Every module a file imports, at its top or inside a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room_of(path: Path) -> str:
    """The first folder below the package, or the name of a base module."""
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else path.stem


def rooms_imported(path: Path) -> set[str]:
    prefix = "svfm_ros."
    return {name[len(prefix) :].split(".")[0] for name in imports_of(path) if name.startswith(prefix)}


def roots_imported(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


FILES = sorted(ROOT.rglob("*.py"))


def files_outside(*rooms: str) -> list[Path]:
    return [f for f in FILES if room_of(f) not in rooms]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    allowed = MAY_IMPORT.get(room, set()) | BASE | {room}
    assert not rooms_imported(path) - allowed - {"__version__"}


@pytest.mark.parametrize(
    ("libraries", "homes"),
    [
        (ROS, {"nodes"}),
        ({"torch", "torchdiffeq"}, {"svfm", "forecasting", "experiments", "figures"}),
        ({"matplotlib"}, {"experiments", "figures"}),
        ({"open3d"}, {"walks"}),
    ],
    ids=["ros", "torch", "matplotlib", "open3d"],
)
def test_a_library_stays_in_its_room(libraries: set[str], homes: set[str]) -> None:
    strays = {f"{f.relative_to(ROOT)}" for f in files_outside(*homes) if roots_imported(f) & libraries}
    assert not strays


def test_only_commands_print() -> None:
    def prints(path: Path) -> bool:
        tree = ast.walk(ast.parse(path.read_text()))
        return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "print" for n in tree)

    assert not [f.name for f in files_outside("cli") if prints(f)]
