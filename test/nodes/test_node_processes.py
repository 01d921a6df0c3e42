"""Nodes as processes of a command: they end with it, whatever state they are in."""

import os
import signal
from pathlib import Path

import pytest

from svfm_ros.errors import DataError
from svfm_ros.nodes.runtime import node_processes

pytestmark = pytest.mark.ros


def children() -> set[int]:
    tasks = Path(f"/proc/{os.getpid()}/task")
    return {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}


def fail_beside_a_stopped_node(logs):
    before = children()
    with node_processes.node_processes(logs, {"player": {}}):
        (node,) = children() - before
        os.kill(node, signal.SIGSTOP)
        os.waitid(os.P_PID, node, os.WSTOPPED | os.WNOWAIT)
        raise DataError("what went wrong")


def test_a_node_that_does_not_answer_hides_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(node_processes, "_STOP_S", 0.1)
    before = children()
    with pytest.raises(DataError, match="what went wrong"):
        fail_beside_a_stopped_node(tmp_path)
    assert children() == before
