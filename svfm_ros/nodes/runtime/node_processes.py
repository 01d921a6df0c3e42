"""Nodes as processes of their own, as launch starts them, with their output in log files."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from svfm_ros.errors import DataError

__all__ = ["node_processes", "start_player"]

_STOP_S = 60.0


@contextlib.contextmanager
def node_processes(logs: Path, nodes: Mapping[str, Mapping[str, Any]]) -> Iterator[Callable[[], None]]:
    """Run nodes (parameters by name) on simulated time; yields a function that raises where one has ended."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as stack:
        for name, parameters in nodes.items():
            log = stack.enter_context((logs / f"{name}.log").open("wb"))
            command = [sys.executable, "-m", f"svfm_ros.nodes.{name}", *_ros_arguments(parameters)]
            started[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def check() -> None:
            for name, process in started.items():
                if process.poll() is not None:
                    raise DataError(f"{name} has ended with code {process.returncode}; see {logs / name}.log")

        try:
            yield check
        finally:
            for process in started.values():
                process.terminate()
            for process in started.values():
                _wait_or_kill(process, _STOP_S)


def _wait_or_kill(process: subprocess.Popen[bytes], most_s: float) -> None:
    """Wait for the end of a process, then kill it: a node that compiles reacts late, and must not hide an error."""
    try:
        process.wait(most_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def start_player(bag: Path, rate: float) -> subprocess.Popen[bytes]:
    """Replay the scans of a bag in a process, from when SLAM has subscribed to them."""
    command = [sys.executable, "-m", "svfm_ros.nodes.player", str(bag), "--rate", str(rate)]
    command += ["--topics", "scan", "--wait-for", "scan"]
    command += ["--ros-args", "-p", "wait_for_node:=slam_node"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _ros_arguments(parameters: Mapping[str, Any]) -> list[str]:
    pairs = [("use_sim_time", "true"), *parameters.items()]
    return ["--ros-args", *(word for name, value in pairs for word in ("-p", f"{name}:={value}"))]
