"""Imports point one way; this file holds the rules."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "svfm_ros"

CORE_ROOMS = {"slam", "walks", "svfm", "sim"}
TOP_ROOMS = {"nodes", "commands", "experiments", "report", "cli"}
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
    room, used = room_of(path), rooms_imported(path)
    if room in CORE_ROOMS:
        assert not used & (CORE_ROOMS - {room}), f"{room} reaches into a sibling"
        assert not used & TOP_ROOMS, f"{room} reaches up"
    elif room not in TOP_ROOMS | {"__init__"}:
        assert not used & (CORE_ROOMS | TOP_ROOMS), f"the base module {path.name} reaches up"
    if room in ("experiments", "report"):
        assert not used & {"nodes", "commands", "cli"}


@pytest.mark.parametrize(
    ("libraries", "homes"),
    [
        (ROS, {"nodes"}),
        ({"torch", "torchdiffeq"}, {"svfm", "experiments"}),
        ({"matplotlib"}, {"experiments"}),
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

    assert not [f.name for f in files_outside("commands", "cli") if prints(f)]
