"""Real processes on real DDS: loopback only, in a domain of this run's own, with field checks on."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

# Before any message class is imported, and for every child. Domains 1 to 101 leave the ports that systems hand out to
# others alone; neighbouring process ids give neighbouring domains, so two runs that start together do not meet.
os.environ["ROS_PYTHON_CHECK_FIELDS"] = "1"
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 101)

pytest.importorskip("rclpy", reason="ROS 2 is not installed")


@contextlib.contextmanager
def hangups():
    """Children mind a hang-up even under ``nohup``: told to outlive a terminal, a node would outlive the test."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def start():
    """``start(*arguments)``: this Python with those arguments, piped; whatever still runs afterwards is reaped."""
    started = []

    def run(*arguments, **options):
        with hangups():
            process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                **options,
            )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(ValueError):  # its pipes were read and closed already
            process.communicate()


@pytest.fixture
def listener():
    """A node that collects messages and calls services."""
    from roslive import Listener

    made = Listener()
    yield made
    made.close()


@pytest.fixture
def latched():
    """The quality of service of maps, models and the like."""
    from rclpy.qos import DurabilityPolicy, QoSProfile

    return QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
