"""How a node's process begins and ends.

``run_node`` starts rclpy, makes the node, spins it and always closes it. It ends with

- 0 when the node is done or was asked to stop (Ctrl-C, SIGTERM, or the process that started it went away),
- 2 when the input is not usable, after one line that says why,
- 1 with a traceback when something broke: that is for whoever supervises it to start again.
"""

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor

from svfm_ros.errors import SvfmError, UsageError
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.graph_description import PARENT_VARIABLE
from svfm_ros.nodes.runtime.ports import fresh_ports
from svfm_ros.pipeline.process_memory import give_memory_back

__all__ = ["StopRequests", "follow_parent", "ros_context", "run_node", "say", "spin"]

UNUSABLE = 2
_PARENT_CHECK_S = 0.5
_LOOK_S = 0.5
_SWITCH_S = 0.001  # threads that draw or write must not hold up the one that answers; Python's own is five times that


def run_node(name: str, make: Callable[[], ConfiguredNode[Any]], args: Sequence[str] | None = None) -> int:
    """Run one node in this process until it is done or told to stop; returns the exit code."""
    give_memory_back()
    try:
        with ros_context(args) as stop:
            with fresh_ports():
                node = make()
            stop.settle()
            spin(node)
    except SvfmError as error:
        say(f"{name}: {error}")
        return UNUSABLE
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    return 0


@contextlib.contextmanager
def ros_context(args: Sequence[str] | None = None) -> Iterator["StopRequests"]:
    """Start rclpy and shut it down; SIGINT and SIGTERM shut the context down, too, which ends every spin.

    Until ``settle`` is called on what this yields, they also interrupt the main thread: making a node may take long.
    """
    sys.setswitchinterval(_SWITCH_S)
    asked = StopRequests()
    before = {s: signal.signal(s, asked) for s in (signal.SIGINT, signal.SIGTERM)}
    follow_parent()
    try:
        _init(args)
        try:
            yield asked
        except Exception as error:
            # A node half made when the context went away fails in odd ways; that is no fault of its own.
            if asked.number and not isinstance(error, SvfmError):
                raise KeyboardInterrupt from error
            raise
        finally:
            asked.settle()
            rclpy.try_shutdown()
    finally:
        # Who was told to stop is ending: a second signal, however late, must not make that look like a crash.
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if asked.number else handler)


class StopRequests:
    """Signal handler: interrupts the main thread once while things are being made; otherwise it only takes note.

    ``ros2 launch`` forwards the Ctrl-C that the terminal already sent to all, so a second one must not cut short the
    cleaning up after the first.
    """

    def __init__(self) -> None:
        self.number = 0  # of the first signal that came
        self._settled = False

    def settle(self) -> None:
        """From now on leave it to the context's end."""
        self._settled = True

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """As Python calls it."""
        self.number = self.number or number
        if not self._settled:
            self._settled = True
            raise KeyboardInterrupt


def _init(args: Sequence[str] | None) -> None:
    try:
        rclpy.init(args=None if args is None else list(args))
    except RuntimeError as error:
        raise UsageError(_plain(str(error))) from error


def _plain(text: str) -> str:
    """What rcl complains about, without the places in its sources."""
    text = re.sub(r",? at /\S+:\d+", "", text).replace("failed to initialize rcl: ", "")
    return "cannot use the ROS arguments: " + " ".join(text.split())


def spin(node: ConfiguredNode[Any]) -> None:
    """Serve the node's callbacks until it says it is done or the context ends; closes it either way."""
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    wake = node.create_guard_condition(lambda: None)
    node.done.add_done_callback(lambda _: wake.trigger())
    try:
        # rclpy's own spin_until_future_complete keeps something of every callback it serves: a leak, in a long run.
        while node.context.ok() and not node.done.done():
            executor.spin_once(timeout_sec=_LOOK_S)  # a shutdown that comes between two waits wakes nobody
        if node.done.done():
            node.done.result()  # raises what ended the node, if anything did
    except ShutdownException:
        pass
    finally:
        node.close()
        executor.shutdown(timeout_sec=0)


def say(line: str) -> None:
    """One line to the person at the terminal, whatever became of ROS logging."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def follow_parent() -> None:
    """End this process (as by SIGTERM) when the one that started it goes away; ``nohup`` keeps it running.

    ``ros2 launch`` that is killed leaves its nodes behind otherwise. The launch file names its own process in the
    environment, so that even a node whose parent went away before this line was reached knows whom to follow.
    """
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return
    named, parent = os.environ.get(PARENT_VARIABLE, ""), os.getppid()
    leader = int(named) if named.isdigit() else parent
    if leader <= 1:
        return

    def watch() -> None:
        while os.getppid() == parent and _is_alive(leader):
            time.sleep(_PARENT_CHECK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="follow_parent", daemon=True).start()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it lives, and belongs to someone else
        return True
    return True
