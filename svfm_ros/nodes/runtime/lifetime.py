"""Start and end of a node's process.

``run_node`` initialises rclpy, makes the node, spins it and always closes it. Exit codes:

- 0: the node is finished or was stopped (Ctrl-C, SIGTERM, or its parent process ended),
- 2: the input is not usable; one line says why,
- 1: an unexpected error, with a traceback; ``ros2 launch`` then starts the node again.
"""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor

from svfm_ros.errors import SvfmError, UsageError, printable
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.graph_description import UNUSABLE, loopback_environment
from svfm_ros.pipeline.live.process_control import StopSignals, end_with_parent, return_freed_memory
from svfm_ros.pipeline.live.worker import any_unfinished

__all__ = ["print_line", "ros_context", "run_node", "spin"]

_SPIN_S = 0.5
_SWITCH_S = 0.001  # between Python threads, instead of 5 ms: drawing and writing must not delay callbacks


def run_node(name: str, make: Callable[[], ConfiguredNode[Any]], args: Sequence[str] | None = None) -> int:
    """Run one node in this process until it is finished or stopped; returns the exit code.

    Where one of its threads cannot be ended, because it compiles, the process ends here: Python would wait for it at
    its exit, and launch kills a node that takes ten seconds.
    """
    code = _run_until_end(name, make, args)
    if any_unfinished():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run_until_end(name: str, make: Callable[[], ConfiguredNode[Any]], args: Sequence[str] | None) -> int:
    return_freed_memory()
    try:
        with ros_context(args) as stop:
            node = make()
            stop.started()
            spin(node)
    except SvfmError as error:
        print_line(f"{name}: {error}")
        return UNUSABLE
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    return 0


@contextlib.contextmanager
def ros_context(args: Sequence[str] | None = None) -> Iterator[StopSignals]:
    """Initialise rclpy on this machine's loopback interface unless the environment says otherwise, and shut it down.

    SIGINT and SIGTERM shut the context down, which ends every spin. Until ``started`` is called on the yielded object
    they also interrupt the main thread, because making a node may take long.
    """
    os.umask(0o077)  # what nodes write shows where a person walks
    os.environ.update(loopback_environment())
    sys.setswitchinterval(_SWITCH_S)
    stop = StopSignals()
    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    end_with_parent()
    try:
        _init(args)
        try:
            yield stop
        except Exception as error:
            # A node that is being made while the context is shut down fails in unforeseen ways.
            if stop.number and not isinstance(error, SvfmError):
                raise KeyboardInterrupt from error
            raise
        finally:
            stop.started()
            rclpy.try_shutdown()
    finally:
        # Another signal during the exit must not look like a crash.
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if stop.number else handler)


def _init(args: Sequence[str] | None) -> None:
    try:
        rclpy.init(args=None if args is None else list(args))
    except RuntimeError as error:
        raise UsageError(_plain(str(error))) from error


def _plain(text: str) -> str:
    """The error message of rcl without its source locations."""
    text = re.sub(r",? at /\S+:\d+", "", text).replace("failed to initialize rcl: ", "")
    return "cannot use the ROS arguments: " + " ".join(text.split())


def spin(node: ConfiguredNode[Any]) -> None:
    """Serve callbacks until the node is done or the context is shut down; closes the node."""
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    wake = node.create_guard_condition(lambda: None)
    node.done.add_done_callback(lambda _: wake.trigger())
    try:
        # rclpy's spin_until_future_complete adds a callback to the future in each iteration: a leak in a long run.
        while node.context.ok() and not node.done.done():
            executor.spin_once(timeout_sec=_SPIN_S)  # a shutdown between two waits does not wake the executor
        if node.done.done():
            node.done.result()  # raises the error that ended the node, if any
    except ShutdownException:
        pass
    finally:
        node.close()
        executor.shutdown(timeout_sec=0)


def print_line(line: str) -> None:
    """Write one line, or those of a traceback, to stderr, independent of ROS logging; without control characters."""
    sys.stderr.write("\n".join(map(printable, line.split("\n"))) + "\n")
    sys.stderr.flush()
