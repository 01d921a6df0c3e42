"""The launch file with the real ``ros2 launch``, where that is installed."""

import shutil
import signal
import subprocess

import pytest
from roslive import PATIENCE_S
from sensor_msgs.msg import LaserScan

pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(shutil.which("ros2") is None, reason="ros2 launch is not installed"),
]


def launch(*arguments):
    command = ["ros2", "launch", "svfm_ros", "forecast.launch.py", "rviz:=false", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


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


def test_a_simulated_house_publishes_scans(listener, tmp_path):
    scans = listener.collect(LaserScan, "scan", 10)
    process = launch(f"store:={tmp_path / 'store'}")
    scans.wait(5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert "walks, map and model are kept in" in out
    assert "Traceback" not in out
