"""Real processes on real DDS: loopback only, in a domain of this run's own, with field checks on."""

import os

import pytest

# Before any message class is imported, and for every child.
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

pytest.importorskip("rclpy", reason="ROS 2 is not installed")
