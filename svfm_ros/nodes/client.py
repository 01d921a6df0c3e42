"""For other nodes: receive forecasts, call Trigger services."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String
from std_srvs.srv import Trigger

from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.forecast_messages import from_cloud
from svfm_ros.nodes.runtime.subscriptions import LATCHED
from svfm_ros.types import Forecast

__all__ = ["ForecastListener", "call_trigger", "wait_for_server"]

_ASK_AGAIN_S = 2.0


class ForecastListener:
    """Calls ``on_forecast`` with each forecast that is known, put together from its samples and its summary.

    Use it inside any node::

        class Robot(Node):
            def __init__(self):
                super().__init__("robot")
                self.forecasts = ForecastListener(self, self.avoid)

            def avoid(self, forecast):
                print(forecast.shares)  # {"kitchen": 0.7, "elsewhere": 0.3}
    """

    def __init__(self, node: Node, on_forecast: Callable[[Forecast], None], prefix: str = "forecast") -> None:
        """Messages that are no forecasts are passed over."""
        self._on_forecast = on_forecast
        self._cloud: PointCloud2 | None = None
        self._summary: String | None = None
        node.create_subscription(PointCloud2, f"{prefix}/samples", self._receive_cloud, LATCHED)
        node.create_subscription(String, f"{prefix}/summary", self._receive_summary, LATCHED)

    def _receive_cloud(self, message: PointCloud2) -> None:
        self._cloud = message
        self._join()

    def _receive_summary(self, message: String) -> None:
        self._summary = message
        self._join()

    def _join(self) -> None:
        if self._cloud is None or self._summary is None:
            return
        try:
            forecast = _forecast_of(self._cloud, json.loads(self._summary.data))
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):  # not as our nodes publish them
            return
        if forecast is not None:
            self._cloud = self._summary = None
            self._on_forecast(forecast)


def _forecast_of(cloud: PointCloud2, summary: dict[str, Any]) -> Forecast | None:
    """The forecast, if it is known and both messages are of it."""
    belongs = summary["known"] and convert.stamp_ns(cloud.header.stamp) == summary["stamp_ns"]
    return from_cloud(cloud, summary) if belongs else None


def call_trigger(node: Node, service: str, timeout_s: float = 20.0) -> tuple[bool, str]:
    """Call a Trigger service from a thread that does not spin ``node``; returns success and message."""
    client = node.create_client(Trigger, service)  # destroyed with its node: destroying it while others spin is unsafe
    if not wait_for_server(node, client, timeout_s):
        return False, f"there is no service {service}"
    result = _answer(client, Trigger.Request(), timeout_s)
    return (False, f"no response from {service}") if result is None else (bool(result.success), str(result.message))


def wait_for_server(node: Node, client: Client, timeout_s: float) -> bool:
    """Wait until a service ``NODE/name`` exists and its node has discovered the client; else responses would be lost.

    Clients are discovered in the order in which they were made. The call of a later client is repeated until it is
    answered; this client is discovered then, too. Called from a thread that does not spin ``node``.
    """
    end_s = time.monotonic() + timeout_s
    server, _, _ = client.srv_name.rpartition("/")
    later = node.create_client(GetParameters, f"{server}/get_parameters")
    if not (client.wait_for_service(timeout_s) and later.wait_for_service(max(0.0, end_s - time.monotonic()))):
        return False
    while _answer(later, GetParameters.Request(), _ASK_AGAIN_S) is None:
        if time.monotonic() > end_s:
            return False
    return True


def _answer(client: Client, request: Any, timeout_s: float) -> Any | None:
    answered = threading.Event()
    future = client.call_async(request)
    future.add_done_callback(lambda _: answered.set())
    return future.result() if answered.wait(timeout_s) else None
