"""Clock of a recording or a simulation: waits until a stamp is due, publishes ``/clock`` and can be paused."""

from collections.abc import Callable

from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool

from svfm_ros.clock import NS_PER_S
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.runtime.diagnostics import Diagnostics, Health
from svfm_ros.pipeline.live.pacing import Pacer

__all__ = ["CLOCK_TOPIC", "SimClock"]

CLOCK_TOPIC = "/clock"


class SimClock:
    """Publishes ``/clock`` at ``tick_hz()`` during ``wait_until``, and at every stamp that becomes due.

    The service ``~/pause`` pauses and resumes; position, rate and pause are published as diagnostics. Only one thread
    may wait; the pacer can be paused, stopped and changed from any thread.
    """

    def __init__(self, node: Node, pacer: Pacer, tick_hz: Callable[[], float], published: bool) -> None:
        self.pacer = pacer
        self._tick_hz = tick_hz
        self._publisher = node.create_publisher(Clock, CLOCK_TOPIC, 10) if published else None
        self._last_ns = 0
        self._begin_ns = self._end_ns = 0
        node.create_service(SetBool, "~/pause", self._pause)
        Diagnostics(node, "clock", self._health)

    def set_span(self, begin_ns: int, end_ns: int) -> None:
        """Set begin and end of the recording or simulation, from which the position is counted."""
        self._begin_ns, self._end_ns = begin_ns, end_ns

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
        if time_ns < self._last_ns:
            return
        self._last_ns = time_ns
        if self._publisher is not None:
            self._publisher.publish(Clock(clock=convert.stamp(time_ns)))

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self.pacer.pause(request.data)
        response.success, response.message = True, "paused" if request.data else "resumed"
        return response

    def _health(self) -> Health:
        length_s = (self._end_ns - self._begin_ns) / NS_PER_S
        position_s = (self._last_ns - self._begin_ns) / NS_PER_S  # the pacer also runs before the replay begins
        figures = {
            "position_s": round(min(max(position_s, 0.0), length_s), 1),
            "length_s": round(length_s, 1),
            "rate": self.pacer.rate,
            "paused": self.pacer.paused,
        }
        begun = "running" if self._last_ns else "has not begun yet"
        return Health(reason="paused" if self.pacer.paused else begun, figures=figures)
