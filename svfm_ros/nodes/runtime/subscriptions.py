"""A subscription that hears publishers of either kind, reliable and best effort.

A reliable subscription gets every message from the moment its publisher knows of it, even if it learns of the publisher
only later: a replay loses nothing. But it does not hear drivers that publish with best effort. So it begins reliable,
and changes over as soon as such a driver shows up.
"""

from collections.abc import Callable
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.event_handler import QoSRequestedIncompatibleQoSInfo, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

__all__ = ["Hearing"]

_SOON_S = 0.01


class Hearing:
    """Calls back with the messages of a topic."""

    def __init__(self, node: Node, kind: type, topic: str, receive: Callable[[Any], None], depth: int) -> None:
        self._node, self._kind, self._topic, self._receive, self._depth = node, kind, topic, receive, depth
        events = SubscriptionEventCallbacks(incompatible_qos=self._change_over)
        self._subscription = self._subscribe(ReliabilityPolicy.RELIABLE, events)
        self._changed = False

    def _subscribe(self, reliability: ReliabilityPolicy, events: SubscriptionEventCallbacks | None = None) -> Any:
        qos = QoSProfile(depth=self._depth, reliability=reliability)
        return self._node.create_subscription(self._kind, self._topic, self._receive, qos, event_callbacks=events)

    def _change_over(self, _event: QoSRequestedIncompatibleQoSInfo) -> None:
        """A subscription cannot end itself from its own callback: a timer does."""
        if not self._changed:
            self._changed = True
            self._timer = self._node.create_timer(_SOON_S, self._again, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _again(self) -> None:
        self._timer.cancel()
        self._node.destroy_subscription(self._subscription)
        self._subscription = self._subscribe(ReliabilityPolicy.BEST_EFFORT)
        self._node.get_logger().info(f"{self._topic} is published with best effort: listening so")
