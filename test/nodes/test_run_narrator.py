"""What ``svfm run`` tells: walks until the first model, each model, each forecast; on real DDS."""

import json
import threading

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from roslive import PATIENCE_S
from std_msgs.msg import String

from svfm_ros.nodes.runtime.run_narrator import narrated

pytestmark = pytest.mark.ros


class Told:
    """An output that remembers."""

    def __init__(self):
        self.said, self.rewritten = [], []

    def say(self, line):
        self.said.append(line)

    def rewrite(self, line):
        self.rewritten.append(line)


def trainer(walks, state="idle"):
    figures = {"walks": str(walks), "walks_needed": "8", "walks_in_training": "8", "state": state}
    values = [KeyValue(key=key, value=value) for key, value in figures.items()]
    return DiagnosticArray(status=[DiagnosticStatus(name="trainer_node: training", values=values)])


def test_walks_models_and_forecasts_are_told(latched):
    told, waiter = Told(), threading.Event()
    rclpy.init()
    try:
        with narrated("", told, "Europe/Paris"):
            node = rclpy.create_node("others")
            diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
            model, summary = (node.create_publisher(String, t, latched) for t in ("model", "forecast/summary"))

            def publish(publisher, message, heard):
                for _ in range(round(PATIENCE_S / 0.05)):
                    publisher.publish(message)
                    if heard():
                        return
                    waiter.wait(0.05)
                raise AssertionError(f"not told: {message}")

            for text in ("{", "[" * 100_000, '{"model_id": 3}', "{}"):  # forged: nobody may end the narrator
                model.publish(String(data=text))
                summary.publish(String(data=text))
            nameless = DiagnosticStatus(name="trainer_node: training", values=[KeyValue(key="walks", value="many")])
            diagnostics.publish(DiagnosticArray(status=[nameless]))
            publish(diagnostics, trainer(3), lambda: told.said)
            publish(diagnostics, trainer(8), lambda: len(told.said) == 2)
            publish(diagnostics, trainer(9, "training"), lambda: len(told.said) == 3)
            announced = String(data=json.dumps({"model_id": "0123456789", "walks": 8}))
            publish(model, announced, lambda: len(told.said) == 4)
            stamp_ns = 1_793_606_400 * 10**9
            asked = {"stamp_ns": stamp_ns, "known": True, "shares": {"kitchen": 0.9, "bed": 0.1}, "entropy": 0.3}
            publish(summary, String(data=json.dumps(asked)), lambda: told.rewritten)
            publish(diagnostics, trainer(9), lambda: True)
    finally:
        rclpy.try_shutdown()
    assert told.said == [
        "3 walks stored; the first model needs 8.",
        "8 walks stored.",
        "The first model is being learnt from 8 walks.",
        "Model 01234567, learnt from 8 walks, is in use.",
    ]
    assert told.rewritten[-1] == "09:00:00  kitchen 90 %, bed 10 % (fairly sure)"
