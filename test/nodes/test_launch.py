"""The launch file with the real ``ros2 launch``, where that is installed."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from ament_index_python.packages import get_packages_with_prefixes
from bagmaker import scans, write_bag
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from roslive import PATIENCE_S
from sensor_msgs.msg import LaserScan

pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(shutil.which("ros2") is None, reason="ros2 launch is not installed"),
]


def launch(*arguments, **variables):
    command = ["ros2", "launch", "svfm_ros", "forecast.launch.py", "rviz:=false", *arguments]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, **both, text=True, process_group=0, env={**os.environ, **variables})


def test_a_missing_bag_ends_the_launch_with_a_sentence_and_a_non_zero_code():
    process = launch("bag:=/nowhere/bag")
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "expected a bag, but /nowhere/bag does not exist" in out


def test_input_that_a_node_finds_not_usable_ends_the_launch():
    process = launch("map:=/nowhere/map.yaml")
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert "cannot read /nowhere/map.yaml" in out


def test_a_screen_without_rviz_is_no_reason_to_end(tmp_path):
    if "rviz2" in get_packages_with_prefixes():  # looked up here: without ROS on the path the lookup raises
        pytest.skip("RViz is installed")
    arguments = ("rviz:=true", f"store:={tmp_path / 'store'}", "autostart:=false", "web:=false")
    process = launch(*arguments, DISPLAY=":0")
    lines = read_until(process, "[forecast_node-4]: process started")
    python_runs(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert "RViz is not opened: it is not installed" in "".join(lines)
    assert process.returncode == 0, out


def test_a_bag_ends_the_launch_when_asked_to(tmp_path):
    bag = write_bag(tmp_path / "bag", scans(20))
    process = launch(f"bag:={bag}", "end_with_bag:=true", "rate:=10", f"store:={tmp_path / 'store'}")
    out, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 0, out
    assert "replayed 20 messages" in out
    assert "Traceback" not in out


def test_ctrl_c_during_the_start_is_clean(tmp_path):
    process = launch(f"store:={tmp_path / 'store'}")
    for number, node in enumerate(("sim_node", "slam_node", "trainer_node", "forecast_node"), 1):
        read_until(process, f"[{node}-{number}]: process started")
    python_runs(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to launch and to all nodes
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, out
    assert "Traceback" not in out
    assert "process has died" not in out


@pytest.mark.parametrize("web", ["false", "true"])
def test_the_live_page_is_there_unless_turned_off(tmp_path, web):
    process = launch(f"store:={tmp_path / 'store'}", f"web:={web}", "autostart:=false")
    lines = read_until(process, "[forecast_node-4]: process started")
    last = read_until(process, "[web_node-5]: process started") if web == "true" else []
    python_runs(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    told = "".join([*lines, *last, out])
    assert ("live page: http://127.0.0.1:" in told) == (web == "true")
    assert ("web_node" in told) == (web == "true")
    assert process.returncode == 0, told


def read_until(process, text):
    """Lines of the launch up to the one that holds the text."""
    lines = [process.stdout.readline()]
    while text not in lines[-1]:
        assert lines[-1], f"{text!r} was not said: {''.join(lines)}"
        lines.append(process.stdout.readline())
    return lines


def python_runs(launch_pid):
    """Wait until the executables of all nodes have become Python."""
    tasks = Path(f"/proc/{launch_pid}/task").iterdir()
    children = [pid for task in tasks for pid in (task / "children").read_text().split()]
    for pid in children:
        while "nodes.start" not in Path(f"/proc/{pid}/cmdline").read_text():
            pass


def test_nodes_wait_for_a_lifecycle_manager_where_asked_to(listener, tmp_path):
    process = launch(f"store:={tmp_path / 'store'}", "autostart:=false")
    request = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE))
    assert listener.call(ChangeState, "/trainer_node/change_state", request).success
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in out


def test_a_simulated_house_publishes_scans(listener, tmp_path):
    heard = listener.collect(LaserScan, "scan", 10)
    process = launch(f"store:={tmp_path / 'store'}")
    heard.wait(5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert "walks, map and model are kept in" in out
    assert "Traceback" not in out
