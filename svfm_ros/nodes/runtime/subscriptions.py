"""QoS profiles of the nodes, and a subscription that adapts to the reliability of the publisher."""

from collections.abc import Callable
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.event_handler import QoSRequestedIncompatibleQoSInfo, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

__all__ = ["LATCHED", "LATCHED_WALKS", "AdaptiveSubscription"]

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Late subscribers get the last message."""

LATCHED_WALKS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Late subscribers get the last 100 walks."""

_DELAY_S = 0.01


class AdaptiveSubscription:
    """Subscribes reliably, and with best effort as soon as a best-effort publisher appears.

    A reliable subscription loses no message of a replay but is incompatible with drivers that publish best effort.
    """

    def __init__(self, node: Node, kind: type, topic: str, callback: Callable[[Any], None], depth: int) -> None:
        self._node, self._kind, self._topic, self._callback, self._depth = node, kind, topic, callback, depth
        events = SubscriptionEventCallbacks(incompatible_qos=self._on_incompatible)
        self._subscription = self._subscribe(ReliabilityPolicy.RELIABLE, events)
        self._changed = False

    def _subscribe(self, reliability: ReliabilityPolicy, events: SubscriptionEventCallbacks | None = None) -> Any:
        qos = QoSProfile(depth=self._depth, reliability=reliability)
        return self._node.create_subscription(self._kind, self._topic, self._callback, qos, event_callbacks=events)

    def _on_incompatible(self, _event: QoSRequestedIncompatibleQoSInfo) -> None:
        """Resubscribe from a timer: a subscription cannot be destroyed in its own callback."""
        if not self._changed:
            self._changed = True
            clock = Clock(clock_type=ClockType.STEADY_TIME)
            self._timer = self._node.create_timer(_DELAY_S, self._resubscribe, clock=clock)

    def _resubscribe(self) -> None:
        self._timer.cancel()
        self._node.destroy_subscription(self._subscription)
        self._subscription = self._subscribe(ReliabilityPolicy.BEST_EFFORT)
        self._node.get_logger().info(f"{self._topic} is published with best effort: subscribed with best effort")
