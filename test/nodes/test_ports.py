"""Ports: free ones are found, taken ones are left, and so are people with ideas of their own."""

import contextlib
import os
import socket
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from svfm_ros.nodes.runtime.ports import fresh_ports

DOMAIN = 61
FILE = "FASTRTPS_DEFAULT_PROFILES_FILE"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    monkeypatch.chdir(tmp_path)
    for name in (FILE, "FASTDDS_DEFAULT_PROFILES_FILE", "RMW_IMPLEMENTATION"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def taken(places: list[int]):
    """Someone listens on the second port of each of these places."""
    with contextlib.ExitStack() as stack:
        for place in places:
            one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            one.bind(("", 7400 + 250 * DOMAIN + 11 + 2 * place))
        yield


def test_the_place_that_is_free_is_taken() -> None:
    with taken([p for p in range(32) if p != 17]), fresh_ports() as place:
        assert place == 17
        found = ElementTree.parse(os.environ[FILE])
        assert [e.text for e in found.iter() if e.tag.endswith("participantID")] == ["17"]
    assert FILE not in os.environ


def test_places_vary() -> None:
    found = set()
    for _ in range(12):
        with fresh_ports() as place:
            found.add(place)
    assert len(found) > 3
    assert all(place is not None and 0 <= place < 32 for place in found)


def test_without_a_free_place_nothing_is_chosen() -> None:
    with taken(list(range(32))), fresh_ports() as place:
        assert place is None
        assert FILE not in os.environ


@pytest.mark.parametrize(("name", "value"), [(FILE, "mine.xml"), ("RMW_IMPLEMENTATION", "rmw_cyclonedds_cpp")])
def test_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with fresh_ports() as place:
        assert place is None
        assert os.environ[name] == value


def test_a_profile_in_the_folder_counts() -> None:
    Path("DEFAULT_FASTRTPS_PROFILES.xml").write_text("<profiles/>")
    with fresh_ports() as place:
        assert place is None


@pytest.mark.ros
def test_a_node_speaks_from_them() -> None:
    program = (
        "import rclpy\nfrom svfm_ros.nodes.runtime.ports import fresh_ports, _is_free\nrclpy.init()\n"
        "with fresh_ports() as place:\n    node = rclpy.create_node('n')\n"
        f"print(_is_free({DOMAIN}, place))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
