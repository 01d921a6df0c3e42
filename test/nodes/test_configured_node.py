"""The life cycle of the nodes, as a lifecycle manager drives it: through the services, over DDS."""

import importlib
import threading
from functools import partial

import pytest
from bagmaker import LASER_SCAN, START_NS, scan_bytes, write_bag
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import LaserScan
from std_srvs.srv import Trigger

from svfm_ros.config.node_config import NODE_CONFIGS
from svfm_ros.errors import UsageError
from svfm_ros.nodes.runtime import configured_node
from svfm_ros.nodes.runtime.lifetime import spin
from svfm_ros.pipeline.live.pacing import CallLimit

pytestmark = pytest.mark.ros

CONFIGURE, ACTIVATE = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE
DEACTIVATE, CLEANUP = Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP


class Manager:
    """Changes the state of one node, with the calls that nav2's lifecycle manager makes."""

    def __init__(self, listener, name):
        self._listener, self._name = listener, name

    def change(self, transition):
        request = ChangeState.Request(transition=Transition(id=transition))
        return self._listener.call(ChangeState, f"/{self._name}/change_state", request).success

    @property
    def state(self):
        return self._listener.call(GetState, f"/{self._name}/get_state", GetState.Request()).current_state.id


@pytest.fixture
def spinning(listener):
    """``spinning(name, **parameters)``: a node that waits for its manager, and the manager."""
    threads, nodes = [], []

    def start(name, **parameters):
        given = [Parameter(k, value=v) for k, v in {"autostart": False, **parameters}.items()]
        node = importlib.import_module(f"svfm_ros.nodes.{name}").make(
            context=listener.context, parameter_overrides=given
        )
        threads.append(threading.Thread(target=spin, args=[node]))
        threads[-1].start()
        nodes.append(node)
        return node, Manager(listener, name)

    yield start
    for node in nodes:
        node.done.cancel() if node.done.done() else node.done.set_result(None)
    for thread in threads:
        thread.join()


def parameters_of(name, folder):
    if name == "player":
        bag = write_bag(folder / "bag", [("/scan", LASER_SCAN, START_NS, scan_bytes(START_NS))])
        return {"bag": str(bag), "wait_for": ["scan"], "wait_s": 1e6}
    if name == "bag_recorder":
        return {"bag": str(folder / "recorded")}
    return {"store": str(folder / "store")} if name in ("slam_node", "trainer_node") else {}


def made_by(node):
    """What a node has made: names of topics, services, timers and threads."""
    ends = [*node.publishers, *node.subscriptions]
    names = [e.topic_name for e in ends] + [s.srv_name for s in node.services]
    return sorted(names), len(list(node.timers))


@pytest.mark.parametrize("name", [n for n in NODE_CONFIGS if n != "bag_recorder"])
def test_there_and_back_twice(spinning, tmp_path, name):
    node, manager = spinning(name, **parameters_of(name, tmp_path))
    before = made_by(node)
    assert manager.state == State.PRIMARY_STATE_UNCONFIGURED
    assert not manager.change(ACTIVATE)  # out of order
    for _ in range(2):
        assert manager.change(CONFIGURE)
        assert manager.state == State.PRIMARY_STATE_INACTIVE
        configured = made_by(node)
        assert manager.change(ACTIVATE)
        assert manager.state == State.PRIMARY_STATE_ACTIVE
        assert manager.change(DEACTIVATE)
        assert manager.state == State.PRIMARY_STATE_INACTIVE
        assert made_by(node) == configured
        assert manager.change(CLEANUP)
        assert manager.state == State.PRIMARY_STATE_UNCONFIGURED
        assert made_by(node) == before


def test_an_inactive_node_publishes_nothing_and_goes_on_where_it_was(spinning, listener):
    scans, clock = listener.collect(LaserScan, "scan"), listener.collect(Clock, "/clock")
    _, manager = spinning("sim_node", rate=5.0)
    assert manager.change(CONFIGURE)
    assert manager.change(ACTIVATE)
    scans.wait(3)
    assert manager.change(DEACTIVATE)
    while True:  # until what was on its way has arrived
        heard = len(scans), len(clock)
        assert manager.state == State.PRIMARY_STATE_INACTIVE
        if (len(scans), len(clock)) == heard:
            break
    last = scans[-1].header.stamp
    assert manager.change(ACTIVATE)
    scans.wait(heard[0] + 1)
    gap_s = scans[heard[0]].header.stamp.sec - last.sec
    assert 0 <= gap_s <= 1  # of simulated time


def test_input_that_is_not_usable_leaves_a_node_unconfigured(spinning, tmp_path):
    _, manager = spinning("slam_node", map=str(tmp_path / "nowhere.yaml"))
    assert not manager.change(CONFIGURE)
    assert manager.state == State.PRIMARY_STATE_UNCONFIGURED


@pytest.mark.parametrize(("name", "parameter"), [("sim_node", "places"), ("slam_node", "state")])
def test_a_file_that_the_system_refuses_is_unusable_input(listener, tmp_path, name, parameter):
    path = tmp_path / ("x" * 300)  # a folder of another user would do, but tests may run as root
    make = importlib.import_module(f"svfm_ros.nodes.{name}").make
    with pytest.raises(UsageError, match=r"cannot use .*: File name too long"):
        make(context=listener.context, parameter_overrides=[Parameter(parameter, value=str(path))])


def test_nodes_start_by_themselves_by_default(listener):
    node = importlib.import_module("svfm_ros.nodes.trainer_node").make(context=listener.context)
    executor = SingleThreadedExecutor(context=listener.context)
    executor.add_node(node)
    spinner = threading.Thread(target=executor.spin, daemon=True)
    spinner.start()
    assert Manager(listener, "trainer_node").state == State.PRIMARY_STATE_ACTIVE
    executor.shutdown()
    spinner.join()
    node.close()


@pytest.mark.parametrize(
    ("name", "service", "served"),
    [
        ("slam_node", "finish_walk", "there was no walk"),
        ("trainer_node", "train_now", "expected two or more walks, got 0"),
    ],
)
def test_a_service_serves_five_calls_a_second_and_refuses_more(spinning, listener, monkeypatch, name, service, served):
    monkeypatch.setattr(configured_node, "CallLimit", partial(CallLimit, now=lambda: 7.0))  # always the same second
    _, manager = spinning(name)
    assert manager.change(CONFIGURE)
    assert manager.change(ACTIVATE)
    answers = [listener.call(Trigger, f"/{name}/{service}", Trigger.Request()).message for _ in range(8)]
    assert answers == [served] * 5 + ["too many calls: at most 5 a second"] * 3


def test_a_manager_can_end_a_node(spinning):
    _, manager = spinning("forecast_node")
    assert manager.change(CONFIGURE)
    assert manager.change(ACTIVATE)
    assert manager.change(Transition.TRANSITION_ACTIVE_SHUTDOWN)
    assert manager.state == State.PRIMARY_STATE_FINALIZED
