"""For benchmarks that other programs must not disturb, nor they them: network and mount namespaces of their own."""

import os
import subprocess
import sys

_INSIDE = "SVFM_BENCHMARK_NAMESPACES"


def in_namespaces():
    """Whether ``rerun_in_namespaces`` started this process."""
    return _INSIDE in os.environ


def rerun_in_namespaces(script, argv, **variables):
    """Run a script again where loopback and mounts are its own; returns its exit code."""
    settings = {_INSIDE: "1", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": "7"}
    command = ["unshare", "--mount", "--net", sys.executable, script, *(sys.argv[1:] if argv is None else argv)]
    return subprocess.run(command, env={**os.environ, **settings, **variables}, check=False).returncode


def own_loopback_and_shared_memory():
    """Bring loopback up, and hide the shared memory of other programs."""
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["ip", "link", "set", "lo", "multicast", "on"],
        ["mount", "-t", "tmpfs", "-o", "size=1g,mode=1777", "shm", "/dev/shm"],
    ):
        subprocess.run(command, check=True)
