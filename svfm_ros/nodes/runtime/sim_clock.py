"""Clock of a recording or a simulation: waits until a stamp is due and publishes ``/clock``."""

from collections.abc import Callable

from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from svfm_ros.nodes.messages import convert
from svfm_ros.pipeline.live.pacing import Pacer

__all__ = ["CLOCK_TOPIC", "SimClock"]

CLOCK_TOPIC = "/clock"


class SimClock:
    """Publishes ``/clock`` at ``tick_hz()`` during ``wait_until``, and at every stamp that becomes due.

    Only one thread may wait; the pacer can be paused, stopped and changed from any thread.
    """

    def __init__(self, node: Node, pacer: Pacer, tick_hz: Callable[[], float], published: bool) -> None:
        self.pacer = pacer
        self._tick_hz = tick_hz
        self._publisher = node.create_publisher(Clock, CLOCK_TOPIC, 10) if published else None
        self._last_ns = 0

    def restart(self, start_ns: int) -> None:
        """Set the time, which may go back."""
        self._last_ns = 0
        self.pacer.restart(start_ns)

    def wait_until(self, time_ns: int) -> bool:
        """Wait until that time is due and publish the clock meanwhile; False when stopped."""
        while not self.pacer.wait(time_ns, 1.0 / self._tick_hz()):
            if self.pacer.stopped:
                return False
            self._tick(min(self.pacer.recorded_now_ns(), time_ns))
        if time_ns > self._last_ns:
            self._tick(time_ns)
        return True

    def _tick(self, time_ns: int) -> None:
        if self._publisher is not None and time_ns >= self._last_ns:
            self._last_ns = time_ns
            self._publisher.publish(Clock(clock=convert.stamp(time_ns)))
