"""All nodes of the graph in one process, for machines without the ``launch`` packages.

Each node has a thread that spins it. A node with an unexpected error is made again, as launch would start its process
again. Where the input of a node is not usable, all nodes end with exit code 2 and one line that says why.
"""

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

from rclpy.executors import ExternalShutdownException
from rclpy.logging import LoggingSeverity, set_logger_level
from rclpy.parameter import Parameter
from rclpy.utilities import get_default_context

from svfm_ros.errors import SvfmError
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.graph_description import RESPAWN_S, UNUSABLE, GraphPlan, NodePlan, has_screen
from svfm_ros.nodes.runtime.lifetime import print_line, ros_context, spin
from svfm_ros.nodes.runtime.run_narrator import StatusOutput, narrated
from svfm_ros.nodes.runtime.rviz_view import fitted_config
from svfm_ros.nodes.start import node_module

__all__ = ["run_graph"]

_CHECK_S = 0.2
_JOIN_S = 10.0


def run_graph(plan: GraphPlan, output: StatusOutput | None = None) -> int:
    """Run all nodes until interrupted, one finds its input not usable, or the bag ends with ``end_with_bag``.

    ``output`` gets sentences about what happens; the nodes then log only warnings and errors. Returns the exit code.
    """
    for line in plan.notes:
        print_line(line)
    os.environ.update(plan.environment)
    with ros_context([]) as stop, _rviz(plan), narrated(plan.namespace, output, plan.time_zone):
        recorder = (
            [NodePlan("bag_recorder", {"bag": str(plan.record), "use_sim_time": plan.use_sim_time}, plan.remappings)]
            if plan.record
            else []
        )
        hosts = [_NodeThread(plan, node, quiet=output is not None) for node in (*recorder, *plan.nodes)]
        stop.started()
        _wait(plan, hosts)
        get_default_context().try_shutdown()
        for host in hosts:
            host.thread.join(_JOIN_S)
    return 128 + stop.number if stop.number else max((host.code for host in hosts), default=0)


def _wait(plan: GraphPlan, hosts: list["_NodeThread"]) -> None:
    context = get_default_context()
    while context.ok() and any(h.thread.is_alive() for h in hosts):
        player = next((h for h in hosts if h.plan.name == "player"), None)
        if plan.end_with_bag and player is not None and not player.thread.is_alive():
            return
        if any(h.code == UNUSABLE for h in hosts):
            return
        time.sleep(_CHECK_S)


class _NodeThread:
    """One node and the thread that makes and spins it."""

    _making = threading.Lock()  # rclpy's Node constructor is not thread-safe

    def __init__(self, graph: GraphPlan, plan: NodePlan, quiet: bool = False) -> None:
        self.plan = plan
        self.code = 0  # exit code
        self._graph, self._quiet = graph, quiet
        self.thread = threading.Thread(target=self._run, name=plan.name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        context = get_default_context()
        while context.ok():
            try:
                spin(self._make())
                return
            except SvfmError as error:
                print_line(f"{self.plan.name}: {error}")
                self.code = UNUSABLE
                return
            except ExternalShutdownException:
                return
            except Exception:
                if not context.ok():
                    return
                print_line(f"{self.plan.name} ended with an error and is started again:\n{traceback.format_exc()}")
                gc.collect()  # a node whose constructor failed leaves the graph when it is freed
                time.sleep(RESPAWN_S)

    def _make(self) -> ConfiguredNode[Any]:
        module = node_module(self.plan.name)
        remappings = [word for old, new in self.plan.remappings for word in ("-r", f"{old}:={new}")]
        with self._making:
            if self._quiet:
                name = f"{self._graph.namespace.strip('/').replace('/', '.')}.{self.plan.name}".lstrip(".")
                set_logger_level(name, LoggingSeverity.WARN)
            made: ConfiguredNode[Any] = module.make(
                namespace=self._graph.namespace or None,
                cli_args=["--ros-args", "--params-file", str(self._graph.params_file), *remappings],
                use_global_arguments=False,
                parameter_overrides=[Parameter(k, value=v) for k, v in self.plan.parameters.items()],
            )
        return made


@contextlib.contextmanager
def _rviz(plan: GraphPlan) -> Iterator[None]:
    """Run RViz where it is installed and there is a screen; the nodes go on when it is closed."""
    program = shutil.which("rviz2")
    if not plan.rviz or program is None or not has_screen():
        if plan.rviz:
            print_line("RViz is not opened: " + ("there is no screen" if program else "rviz2 is not installed"))
        yield
        return
    window = subprocess.Popen([program, "-d", str(fitted_config(plan)), "-f", plan.fixed_frame, *_ros_arguments(plan)])
    try:
        yield
    finally:
        window.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            window.wait(_JOIN_S)


def _ros_arguments(plan: GraphPlan) -> list[str]:
    namespace = ["-r", f"__ns:={plan.namespace}"] if plan.namespace else []
    remappings = [word for old, new in plan.remappings for word in ("-r", f"{old}:={new}")]
    return ["--ros-args", *namespace, *remappings, "-p", f"use_sim_time:={str(plan.use_sim_time).lower()}"]
