"""A node that only listens: what arrived, how much, and from when to when."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from svfm_ros.nodes import convert
from svfm_ros.nodes.msgtypes import message_class

__all__ = ["Arrivals", "Witness", "witness"]

_DEPTH = 1000


@dataclass(slots=True)
class Arrivals:
    """Messages of one topic, in the order they came."""

    topic: str
    stamps_ns: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many came."""
        return len(self.stamps_ns)

    @property
    def span_s(self) -> float:
        """From the first stamp to the last."""
        return (self.stamps_ns[-1] - self.stamps_ns[0]) * 1e-9 if self.stamps_ns else 0.0


class Witness(Node):
    """Subscribes to stamped messages, reliably, and keeps their stamps."""

    def __init__(self, topics: dict[str, str], **node_options: Any) -> None:
        super().__init__("witness", **node_options)
        self.arrivals = {name: Arrivals(name) for name in topics}
        qos = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
        for name, msgtype in topics.items():
            self.create_subscription(message_class(msgtype), name, self._note(name), qos)

    def _note(self, name: str) -> Any:
        def note(message: Any) -> None:
            self.arrivals[name].stamps_ns.append(convert.stamp_ns(message.header.stamp))

        return note


def witness(topics: dict[str, str], go_on: Callable[[dict[str, Arrivals]], bool]) -> dict[str, Arrivals]:
    """Listen to topics (name to message type) while ``go_on`` says so, asked ten times a second or more."""
    rclpy.init()
    node = Witness(topics)
    try:
        while go_on(node.arrivals):
            rclpy.spin_once(node, timeout_sec=0.1)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    return node.arrivals
