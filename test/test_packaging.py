"""What `pip install .` puts where, from a wheel built of this tree."""

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NODES = ("player", "sim_node", "slam_node", "trainer_node", "forecast_node")
NEEDED = ("setup.py", "setup.cfg", "pyproject.toml", "package.xml", "README.md", "LICENSE")
FOLDERS = ("svfm_ros", "launch", "config", "maps", "resource", "scripts")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    tree = tmp_path_factory.mktemp("tree")
    for name in NEEDED:
        shutil.copy(ROOT / name, tree / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tree / "dist"), str(tree)], check=True, capture_output=True)
    return zipfile.ZipFile(next((tree / "dist").glob("*.whl")))


def data_files(wheel: zipfile.ZipFile) -> set[str]:
    marker = ".data/data/"
    return {n.split(marker, 1)[1] for n in wheel.namelist() if marker in n}


def test_launch_config_and_maps_go_under_share(wheel: zipfile.ZipFile) -> None:
    shipped = {
        f"share/svfm_ros/{p.relative_to(ROOT)}"
        for folder in ("launch", "config", "maps")
        for p in (ROOT / folder).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert "share/svfm_ros/launch/forecast.launch.py" in shipped
    assert "share/svfm_ros/maps/house.yaml" in shipped
    assert shipped <= data_files(wheel)
    assert {"share/svfm_ros/package.xml", "share/ament_index/resource_index/packages/svfm_ros"} <= data_files(wheel)


def test_every_file_of_the_package_is_in(wheel: zipfile.ZipFile) -> None:
    """Modules, and what they read: templates, scripts and style of pages, tables."""
    files = [p for p in (ROOT / "svfm_ros").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert {".py", ".html", ".css", ".js"} <= {p.suffix for p in files}
    assert {str(p.relative_to(ROOT)) for p in files} <= set(wheel.namelist())


def test_nodes_can_be_started_by_ros2_run(wheel: zipfile.ZipFile) -> None:
    for node in NODES:
        info = next(i for i in wheel.infolist() if i.filename.endswith(f"data/lib/svfm_ros/{node}"))
        assert (info.external_attr >> 16) & 0o111, f"{node} is not executable"
        assert (ROOT / "svfm_ros" / "nodes" / f"{node}.py").is_file()


def test_the_command_is_the_script_of_this_tree(wheel: zipfile.ZipFile) -> None:
    shipped = next(i for i in wheel.infolist() if i.filename.endswith(".data/scripts/svfm"))
    assert wheel.read(shipped) == (ROOT / "scripts" / "svfm").read_bytes()
    assert (shipped.external_attr >> 16) & 0o111


def test_the_version_is_that_of_package_xml(wheel: zipfile.ZipFile) -> None:
    version = ET.parse(ROOT / "package.xml").getroot().findtext("version")
    metadata = next(n for n in wheel.namelist() if n.endswith("METADATA"))
    assert f"\nVersion: {version}\n" in wheel.read(metadata).decode()


def test_ros_packages_are_not_pip_requirements(wheel: zipfile.ZipFile) -> None:
    """Bare names such as `launch` are other programs on PyPI; ROS comes as wheels in an extra, or from package.xml."""
    lines = wheel.read(next(n for n in wheel.namelist() if n.endswith("METADATA"))).decode().splitlines()
    plain = [line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert plain
    assert not [line for line in plain if "ros-" in line or "launch" in line or "rclpy" in line]


def test_every_requirement_is_pinned() -> None:
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    text = (ROOT / "setup.py").read_text()
    wanted = {word.strip('", ').split("[")[0].lower() for word in text.splitlines() if word.strip().startswith('"')}
    names = {w for w in wanted if w and " " not in w and "=" not in w and ":" not in w} - {"svfm"}
    assert {"torch", "ros-jazzy-rclpy"} <= names
    assert names <= pinned, names - pinned
