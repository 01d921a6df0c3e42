import stat
import xml.etree.ElementTree as ET
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent.resolve()
NAME = "svfm_ros"
NODES = ["player", "sim_node", "slam_node", "trainer_node", "forecast_node", "web_node"]

package_xml = ET.parse(HERE / "package.xml").getroot()


def tag(name):
    return package_xml.findtext(name).strip()


def shared(folder):
    """All files below a folder, each with the folder it goes to under share/."""
    files = [p.relative_to(HERE) for p in sorted((HERE / folder).rglob("*")) if p.is_file()]
    return [(f"share/{NAME}/{p.parent}", [str(p)]) for p in files if "__pycache__" not in p.parts]


def node_scripts():
    """Executables for `ros2 run` after `pip install`, which ignores setup.cfg's install_scripts."""
    scripts = [HERE / "scripts" / "nodes" / node for node in NODES]
    for script in scripts:
        script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return [(f"lib/{NAME}", [str(s.relative_to(HERE)) for s in scripts])]


setup(
    name=NAME,
    version=tag("version"),
    description=tag("description"),
    license=tag("license"),
    maintainer=tag("maintainer"),
    maintainer_email=package_xml.find("maintainer").get("email"),
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={
        f"{NAME}.forecasting": ["*.safetensors"],
        f"{NAME}.report": ["*.html", "*.css", "*.js"],
        f"{NAME}.web": ["*.html", "*.css", "*.js"],
        f"{NAME}.fleet": ["*.html"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *shared("launch"),
        *shared("config"),
        *shared("maps"),
        *node_scripts(),
    ],
    python_requires=">=3.11",
    # ROS packages are not listed here: package.xml names them, and `.[pypi]` brings them as wheels where ROS is absent.
    install_requires=[
        "aiohttp",
        "matplotlib",
        "numba",
        "numpy",
        "pillow",
        "pyyaml",
        "rich",
        "rosbags",
        "safetensors",
        "scikit-learn",
        "scipy",
        "setuptools",
        "torch",
        "torchdiffeq",
        "tzdata",
    ],
    extras_require={
        "pypi": [
            "ros-jazzy-action-msgs",
            "ros-jazzy-diagnostic-msgs",
            "ros-jazzy-geometry-msgs",
            "ros-jazzy-lifecycle-msgs",
            "ros-jazzy-nav-msgs",
            "ros-jazzy-rclpy[fastrtps]",
            "ros-jazzy-rosgraph-msgs",
            "ros-jazzy-sensor-msgs",
            "ros-jazzy-std-msgs",
            "ros-jazzy-std-srvs",
            "ros-jazzy-visualization-msgs",
        ],
        "dev": [
            "hypothesis",
            "mcap",
            "mcap-ros2-support",
            "mypy",
            "pytest",
            "pytest-cov",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
            "types-PyYAML",
        ],
        "fleet": ["fsspec", "psutil", "pyarrow", "ray[client,default,tune]>=2.60,<2.61"],
        "bench": ["gtsam", "open3d", "pydantic", "torchode", "yag-slam"],
    },
    zip_safe=True,
    scripts=["scripts/svfm"],  # a shell script, so that Ctrl-C is quiet from the first moment on
    entry_points={"console_scripts": [f"{node} = svfm_ros.nodes.start:main" for node in NODES]},
)
