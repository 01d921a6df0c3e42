"""Describes what the running graph does in sentences: walks stored, models learnt, forecasts."""

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Protocol

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile
from std_msgs.msg import String

from svfm_ros.clock import NS_PER_S, zone
from svfm_ros.nodes.runtime.spin_thread import SpinThread
from svfm_ros.nodes.runtime.subscriptions import LATCHED, tolerant
from svfm_ros.web.words import first_model_words, forecast_words

__all__ = ["StatusOutput", "narrated"]


class StatusOutput(Protocol):
    """Where the sentences go."""

    def say(self, line: str) -> None:
        """Show a line that stays."""

    def rewrite(self, line: str) -> None:
        """Show a line that the next one replaces."""


class _Narrator:
    def __init__(self, namespace: str, output: StatusOutput, time_zone: str) -> None:
        self._output, self._zone = output, zone(time_zone)
        self._walks, self._training, self._model = -1, False, ""
        self._node = rclpy.create_node("narrator", namespace=namespace or None)
        self._own = namespace.strip("/")
        self._subscribe(DiagnosticArray, "/diagnostics", self._diagnostics, 20)
        self._subscribe(String, "model", self._announced, LATCHED)
        self._subscribe(String, "forecast/summary", self._forecast, LATCHED)
        self._spinning = SpinThread(self._node, "narrator")

    def close(self) -> None:
        self._spinning.stop()

    def _subscribe(self, kind: type, topic: str, receive: Callable[[Any], None], qos: QoSProfile | int) -> None:
        self._node.create_subscription(kind, topic, tolerant(self._node, topic, receive), qos)

    def _diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.hardware_id == self._own and status.name.partition(":")[0].endswith("trainer_node"):
                self._trainer({v.key: v.value for v in status.values})

    def _trainer(self, figures: dict[str, str]) -> None:
        walks, needed = int(figures["walks"]), int(figures["walks_needed"])
        if walks != self._walks and (self._walks < needed or self._walks < 0):
            self._output.say(first_model_words(walks, needed))
        if figures.get("state") == "training" and not self._model and not self._training:
            self._training = True
            self._output.say(f"The first model is being learnt from {figures['walks_in_training']} walks.")
        self._walks = walks

    def _announced(self, message: String) -> None:
        model = json.loads(message.data)
        if model["model_id"] != self._model:
            self._model = model["model_id"]
            self._output.say(f"Model {self._model[:8]}, learnt from {model['walks']} walks, is in use.")

    def _forecast(self, message: String) -> None:
        summary: dict[str, Any] = json.loads(message.data)
        when = datetime.fromtimestamp(summary["stamp_ns"] / NS_PER_S, self._zone).strftime("%H:%M:%S")
        self._output.rewrite(f"{when}  {forecast_words(summary)}")


@contextlib.contextmanager
def narrated(namespace: str, output: StatusOutput | None, time_zone: str) -> Iterator[None]:
    """Describe what the graph in this process does; without an output, nothing is written."""
    if output is None:
        yield
        return
    narrator = _Narrator(namespace, output, time_zone)
    try:
        yield
    finally:
        narrator.close()
