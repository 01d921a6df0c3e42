"""What nodes say about themselves."""

import math
import types

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.nodes.runtime import diagnostics
from svfm_ros.nodes.runtime.diagnostics import (
    ERROR,
    OK,
    WARN,
    Diagnostics,
    DurationStatistics,
    Health,
    RateMeter,
    worst,
)


class Wall:
    s = 100.0

    def __call__(self):
        return self.s


def test_rate_is_that_of_the_last_seconds():
    wall = Wall()
    meter = RateMeter(5.0, wall)
    for _ in range(200):
        wall.s += 0.1
        meter.tick()
    assert meter.hz == pytest.approx(10.0, rel=0.05)
    assert meter.silent_s == 0.0
    wall.s += 60.0
    assert meter.hz < 0.5
    assert meter.silent_s == pytest.approx(60.0)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_quantiles(values):
    latencies = DurationStatistics()
    for value in values:
        latencies.add(value)
    assert latencies.quantile_ms(1.0) == pytest.approx(1e3 * max(values))
    assert latencies.quantile_ms(0.0) == pytest.approx(1e3 * min(values))


def test_no_latency_yet():
    assert math.isnan(DurationStatistics().quantile_ms(0.5))


def test_what_was_slow_a_minute_ago_is_forgotten():
    wall = Wall()
    latencies = DurationStatistics(30.0, wall)
    for _ in range(300):
        latencies.add(68.0)
    wall.s += 60.0
    assert math.isnan(latencies.quantile_ms(0.5))
    latencies.add(0.01)
    assert latencies.quantile_ms(0.99) == pytest.approx(10.0)


def test_the_worst_complaint_is_told():
    assert worst((False, ERROR, "a"), (True, WARN, "b")) == (WARN, "b")
    assert worst((True, WARN, "a"), (True, ERROR, "b"), (True, ERROR, "c")) == (ERROR, "b")
    assert worst((False, WARN, "a"))[0] == OK


@pytest.mark.ros
def test_health_is_published(listener):
    got = listener.collect(DiagnosticArray, "/diagnostics")
    health = Health(WARN, "no scan for 3 s", {"rate_hz": 9.87654, "drops": 3})
    Diagnostics(listener.node, "slam", lambda: health)
    (status,) = got.wait(1)[0].status
    assert (status.level, status.name, status.message) == (b"\x01", "listener: slam", "no scan for 3 s")
    assert {v.key: v.value for v in status.values} == {"rate_hz": "9.877", "drops": "3"}


@pytest.mark.ros
def test_two_nodes_of_one_name_say_so(listener, monkeypatch):
    monkeypatch.setattr(diagnostics, "_TWIN_S", 0.0)
    twin = rclpy.create_node("listener", context=listener.node.context)
    other = rclpy.create_node("listener", namespace="anna", context=listener.node.context)
    messages = []
    states = Diagnostics(listener.node, "slam", lambda: Health(OK, "running"))
    states._publisher = types.SimpleNamespace(publish=messages.append)
    states.publish()
    assert messages[-1].status[0].message == ("another listener has the same name: stop one, or give each a namespace")
    assert messages[-1].status[0].level == b"\x01"
    twin.destroy_node()
    while messages[-1].status[0].message != "running":
        states.publish()
    other.destroy_node()
