"""Serves the callbacks of a node in a thread of its own, and ends that thread before what it uses is destroyed."""

import threading

from rclpy.executors import ExternalShutdownException, ShutdownException, SingleThreadedExecutor
from rclpy.node import Node

__all__ = ["SpinThread"]

_SPIN_S = 0.2  # the longest wait for a callback, and so for the end
_JOIN_S = 10.0  # a callback that writes to a terminal which reads nothing must not keep the process from ending


class SpinThread:
    """Spins from the start until ``stop`` or until the context is shut down; ``executor`` takes further nodes.

    rclpy's ``Executor.shutdown`` does not wait for a thread that spins, which then uses what is destroyed meanwhile.
    """

    def __init__(self, node: Node, name: str) -> None:
        self.executor = SingleThreadedExecutor(context=node.context)
        self.executor.add_node(node)
        self._context = node.context
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the callback it serves; nodes and context can be destroyed then."""
        self._stopping.set()
        self._thread.join(_JOIN_S)
        self.executor.shutdown(timeout_sec=0)

    def _spin(self) -> None:
        try:
            while self._context.ok() and not self._stopping.is_set():
                self.executor.spin_once(timeout_sec=_SPIN_S)
        except (ExternalShutdownException, ShutdownException):
            pass
        except RuntimeError:  # rclpy's RCLError, where the context was shut down meanwhile
            if self._context.ok():
                raise
