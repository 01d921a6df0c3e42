"""Rules of the tree: imports point one way, each name has one meaning, rooms stay small, nothing is unused."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from svfm_ros.config.node_config import NODE_CONFIGS
from svfm_ros.experiments.experiment import EXPERIMENTS

ROOT = Path(__file__).resolve().parent.parent / "svfm_ros"

TOP_ROOMS = {"nodes", "cli", "experiments", "fleet", "report", "web", "figures", "pipeline"}
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
    "web": {"walks", "report"},
    "fleet": {"walks", "forecasting", "svfm", "pipeline", "report"},
    "experiments": {"slam", "walks", "forecasting", "svfm", "sim", "pipeline", "figures"},
    "nodes": {"slam", "walks", "forecasting", "svfm", "sim", "pipeline", "sources", "report", "web"},
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
        "web",
        "fleet",
        "experiments",
        "nodes",
    },
}
"""For each room the other rooms it may import; every room may import base modules and ``config``."""

BASE = {"atomic_files", "clock", "compiled", "config", "errors", "geometry", "installed_files", "mapio"}
BASE |= {"progress", "targets", "types", "wall_angle", "wording"}
ROS = {"rclpy", "rcl_interfaces", "builtin_interfaces", "sensor_msgs", "nav_msgs", "geometry_msgs", "std_msgs"}
ROS |= {
    "lifecycle_msgs",
    "std_srvs",
    "visualization_msgs",
    "diagnostic_msgs",
    "rosgraph_msgs",
    "tf2_msgs",
}
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
        ({"aiohttp"}, {"web"}),
    ],
    ids=["ros", "torch", "matplotlib", "aiohttp"],
)
def test_a_library_stays_in_its_room(libraries: set[str], homes: set[str]) -> None:
    strays = {f"{f.relative_to(ROOT)}" for f in files_outside(*homes) if roots_imported(f) & libraries}
    assert not strays


def test_only_commands_print() -> None:
    def prints(path: Path) -> bool:
        tree = ast.walk(ast.parse(path.read_text()))
        return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "print" for n in tree)

    assert not [f.name for f in files_outside("cli") if prints(f)]


MOST_MODULES = 16  # of a folder


def modules_of(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.glob("*.py")) if p.name != "__init__.py"]


def test_no_folder_is_too_large() -> None:
    large = {
        str(folder.relative_to(ROOT)): len(modules_of(folder))
        for folder in ROOT.rglob("*")
        if folder.is_dir() and len(modules_of(folder)) > MOST_MODULES
    }
    assert not large


def twice(names: list[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def test_no_file_name_stands_twice() -> None:
    """Commands are named after what they do, which may be the name of a module."""
    assert not twice([f.name for f in FILES if f.name != "__init__.py" and room_of(f) != "cli"])


def test_no_class_name_stands_twice() -> None:
    names = [n.name for f in FILES for n in ast.walk(ast.parse(f.read_text())) if isinstance(n, ast.ClassDef)]
    assert not twice(names)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)


def test_no_module_is_used_by_tests_alone() -> None:
    """Every module is imported by another one, by a benchmark or a script, or is started by its name."""
    tree = ROOT.parent
    users = [
        *FILES,
        *(tree / "benchmarks").rglob("*.py"),
        *(tree / "scripts").glob("*.py"),
        *(tree / "launch").glob("*"),
    ]
    users = [u for u in users if u.is_file()]
    imported = {name for user in users for name in imports_of(user) if name != module_name(user)}
    started = {f"svfm_ros.nodes.{name}" for name in NODE_CONFIGS}
    started |= {module_name(p) for p in FILES if room_of(p) == "cli"}
    started |= {f"svfm_ros.experiments.{experiment.module}" for experiment in EXPERIMENTS.values()}
    texts = "\n".join(u.read_text() for u in users)
    unused = {
        module_name(f)
        for f in FILES
        if f.name != "__init__.py"
        and module_name(f) not in imported | started
        and f'"{module_name(f)}"' not in texts  # imported by name, such as the public names
    }
    assert not unused
