"""The table of topics and services says what the running nodes say."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rclpy
from bagmaker import LASER_SCAN, START_NS, scan_bytes, write_bag
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy

from svfm_ros.config.node_config import NODE_CONFIGS
from svfm_ros.nodes.runtime.interface import LIFECYCLE_SERVICES, PARAMETER_SERVICES, SERVICES, TOPICS

pytestmark = pytest.mark.ros

_EVERY_NODE_HAS = {"/rosout", "/parameter_events"}
_PATIENCE_S = 400.0  # the first scans of a fresh machine wait for compilation


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp("bag") / "bag", [("/scan", LASER_SCAN, START_NS, scan_bytes(START_NS))])


@pytest.fixture(scope="module", params=[name for name in NODE_CONFIGS if name != "bag_recorder"])
def node(request, bag, tmp_path_factory):
    """Each node that people start, listening to all it will ever listen to."""
    context = rclpy.Context()
    rclpy.init(context=context)
    file = tmp_path_factory.mktemp("places") / "places.yaml"
    given = {"player": [Parameter("bag", value=str(bag))], "sim_node": [Parameter("places", value=str(file))]}
    given = given.get(request.param, [])
    made = importlib.import_module(f"svfm_ros.nodes.{request.param}").make(context=context, parameter_overrides=given)
    heard = sum(t.node == request.param and t.way == "in" for t in TOPICS)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(made)
    until_s = time.monotonic() + _PATIENCE_S
    while len(topics_of(made.subscriptions)) < heard and time.monotonic() < until_s:
        executor.spin_once(timeout_sec=0.05)
    yield made
    made.close()
    rclpy.shutdown(context=context)


def test_the_sros2_policy_allows_what_the_table_says():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, root / "scripts" / "make_policy.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def full(name):
    return name if name.startswith("/") else f"/{name}"


def kind_of(message_class):
    return "/".join((*message_class.__module__.split(".")[:2], message_class.__name__))


def topics_of(ends):
    return {e.topic_name: kind_of(e.msg_type) for e in ends if e.topic_name not in _EVERY_NODE_HAS}


def expected(node, way):
    missing = {"/tf", "/tf_static"} if importlib.util.find_spec("tf2_msgs") is None else set()
    mine = [t for t in TOPICS if (t.node, t.way) == (node, way)]
    return {full(t.name): t.kind for t in mine if t.name not in missing}


def test_what_a_node_hears(node):
    assert topics_of(node.subscriptions) == expected(node.get_name(), "in")


def test_what_a_node_says(node):
    said = topics_of(node.publishers)
    if node.get_name() == "player":
        assert said.pop("/scan") == LASER_SCAN  # from the bag
    assert said == expected(node.get_name(), "out")


def test_what_is_latched(node):
    latched = {
        p.topic_name for p in node.publishers if p.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    } - _EVERY_NODE_HAS
    table = {full(t.name) for t in TOPICS if (t.node, t.way) == (node.get_name(), "out") and t.latched}
    assert latched == table & set(topics_of(node.publishers))


def test_what_a_node_can_be_asked(node):
    found = {s.srv_name.rpartition("/")[2]: kind_of(s.srv_type) for s in node.services}
    own = {s.name: s.kind for s in SERVICES if s.node == node.get_name()}
    assert set(PARAMETER_SERVICES) <= set(found)
    assert {k: v for k, v in found.items() if k not in PARAMETER_SERVICES} == own | LIFECYCLE_SERVICES
