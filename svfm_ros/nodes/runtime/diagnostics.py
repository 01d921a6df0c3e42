"""Publishes the state of a node on ``/diagnostics`` once a second, and the rate and duration statistics it contains."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from svfm_ros.clock import NS_PER_S
from svfm_ros.nodes.runtime.subscriptions import STEADY

__all__ = ["ERROR", "OK", "WARN", "Diagnostics", "DurationStatistics", "Health", "RateMeter", "worst"]

OK, WARN, ERROR = 0, 1, 2
_LEVELS = (DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR)
_PERIOD_S = 1.0
_FIRST_S = 0.2
_MOST_DURATIONS = 1000
_ADVICE = "stop one, or give each a namespace"
_TWIN_S = 30.0  # a node that was killed is seen for 20 s more


@dataclass(frozen=True, slots=True)
class Health:
    """Level (OK, WARN or ERROR), the reason for it, and key values."""

    level: int = OK
    reason: str = "running"
    figures: Mapping[str, Any] = field(default_factory=dict)


def worst(*conditions: tuple[bool, int, str]) -> tuple[int, str]:
    """Level and reason of the worst condition (is it true, level, reason) that is true; of equals the first."""
    true = [(level, reason) for is_true, level, reason in conditions if is_true]
    return max(true, key=lambda c: c[0], default=(OK, "running"))


class Diagnostics:
    """Publishes ``health()`` once a second by the steady clock, also while simulated time stands still.

    Made in a node's ``activate``: a node that is not active publishes nothing. Two nodes of one name receive the same
    messages and service calls, so that is a warning.
    """

    def __init__(self, node: Node, subject: str, health: Callable[[], Health]) -> None:
        self._node = node
        self._name = f"{node.get_fully_qualified_name().lstrip('/')}: {subject}"
        self._health = health
        self._alone_s = time.monotonic()  # when this was last the only node of its name
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._timer = node.create_timer(_FIRST_S, self._tick, clock=STEADY)

    def _tick(self) -> None:
        """Publish 0.2 s after the start for the first time, then once a second."""
        self._timer.timer_period_ns = round(_PERIOD_S * NS_PER_S)
        self.publish()

    def publish(self) -> None:
        """Publish the state now."""
        health = self._health()
        if health.level < WARN and self._has_twin():
            health = replace(health, level=WARN, reason=f"another {self._node.get_name()} has the same name: {_ADVICE}")
        status = DiagnosticStatus(level=_LEVELS[health.level], name=self._name, message=health.reason)
        status.hardware_id = self._node.get_namespace().strip("/")
        status.values = [KeyValue(key=k, value=_plain(v)) for k, v in health.figures.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def _has_twin(self) -> bool:
        """Whether another node has had this name and namespace for longer than one that was killed is seen."""
        own = (self._node.get_name(), self._node.get_namespace())
        now_s = time.monotonic()
        if self._node.get_node_names_and_namespaces().count(own) < 2:
            self._alone_s = now_s
        return now_s - self._alone_s > _TWIN_S


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class RateMeter:
    """Rate of events over the last few seconds; thread-safe."""

    def __init__(self, window_s: float = 5.0, now: Callable[[], float] = time.monotonic) -> None:
        self._window_s = window_s
        self._now = now
        self._times: deque[float] = deque()
        self._began_s = now()
        self._lock = threading.Lock()

    def tick(self) -> None:
        """Count one event."""
        with self._lock:
            self._times.append(self._now())
            self._forget()

    @property
    def hz(self) -> float:
        """Events per second."""
        with self._lock:
            self._forget()
            span_s = min(self._window_s, max(self._now() - self._began_s, 1e-3))
            return len(self._times) / span_s

    @property
    def silent_s(self) -> float:
        """Seconds since the last event."""
        with self._lock:
            return self._now() - (self._times[-1] if self._times else self._began_s)

    def _forget(self) -> None:
        old = self._now() - self._window_s
        while len(self._times) > 1 and self._times[0] < old:
            self._times.popleft()


class DurationStatistics:
    """Quantiles of the durations of the last half a minute; thread-safe."""

    def __init__(self, window_s: float = 30.0, now: Callable[[], float] = time.monotonic) -> None:
        self._window_s, self._now = window_s, now
        self._values: deque[tuple[float, float]] = deque(maxlen=_MOST_DURATIONS)  # when added, duration
        self._lock = threading.Lock()

    def add(self, seconds: float) -> None:
        """Add a duration."""
        with self._lock:
            self._values.append((self._now(), seconds))

    def quantile_ms(self, share: float) -> float:
        """Quantile in milliseconds; NaN where there is no recent duration."""
        oldest_s = self._now() - self._window_s
        with self._lock:
            values = [seconds for added_s, seconds in self._values if added_s >= oldest_s]
        return float(np.quantile(values, share) * 1e3) if values else float("nan")
