"""QoS and clock of the nodes, subscriptions that no message can end, and one that adapts to its publisher."""

from collections.abc import Callable
from typing import Any, TypeVar

from rclpy.clock import Clock, ClockType
from rclpy.event_handler import QoSRequestedIncompatibleQoSInfo, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from svfm_ros.errors import printable, reason_of
from svfm_ros.pipeline.live.pacing import CallLimit

__all__ = ["LATCHED", "LATCHED_WALKS", "STEADY", "AdaptiveSubscription", "tolerant"]

M = TypeVar("M")

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Late subscribers get the last message."""

LATCHED_WALKS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Late subscribers get the last 100 walks."""

STEADY = Clock(clock_type=ClockType.STEADY_TIME)
"""For timers that also run while simulated time stands still."""

_DELAY_S = 0.01
_MOST_SHOWN = 300  # characters of a reason


def tolerant(node: Node, topic: str, receive: Callable[[M], Any]) -> Callable[[M], None]:
    """The callback of a subscription; a message that it cannot use is left out, with a warning at most once a second.

    rclpy would end the node. Whoever can publish could end all nodes for good with one latched message.
    """
    lines = CallLimit(1)

    def receive_usable(message: M) -> None:
        try:
            receive(message)
        except Exception as error:
            if lines.admit():
                node.get_logger().warning(
                    f"a message on {topic} is not used: {printable(reason_of(error))[:_MOST_SHOWN]}"
                )

    return receive_usable


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
            self._timer = self._node.create_timer(_DELAY_S, self._resubscribe, clock=STEADY)

    def _resubscribe(self) -> None:
        self._timer.cancel()
        self._node.destroy_subscription(self._subscription)
        self._subscription = self._subscribe(ReliabilityPolicy.BEST_EFFORT)
        self._node.get_logger().info(f"{self._topic} is published with best effort: subscribed with best effort")
