"""Publishers of either kind are heard, whoever is there first; from reliable ones nothing is lost."""

import time

import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from roslive import PATIENCE_S, Collected, Listener
from std_msgs.msg import String

from svfm_ros.errors import DataError
from svfm_ros.nodes.runtime.subscriptions import AdaptiveSubscription, tolerant

pytestmark = pytest.mark.ros

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT


@pytest.fixture
def talker():
    other = Listener()
    yield other.node
    other.close()


def until_heard(heard, publisher):
    """Talk until someone hears it."""
    until_s = time.monotonic() + PATIENCE_S
    while not heard and time.monotonic() < until_s:
        publisher.publish(String(data="hello"))
        time.sleep(0.05)
    return bool(heard)


@pytest.mark.parametrize("reliability", [RELIABLE, BEST_EFFORT])
@pytest.mark.parametrize("first", ["talker", "listener"])
def test_either_kind_is_heard(listener, talker, reliability, first):
    heard = Collected()
    topic = f"{first}_{reliability.name.lower()}"
    qos = QoSProfile(depth=10, reliability=reliability)
    if first == "talker":
        publisher = talker.create_publisher(String, topic, qos)
        AdaptiveSubscription(listener.node, String, topic, heard.add, 10)
    else:
        AdaptiveSubscription(listener.node, String, topic, heard.add, 10)
        publisher = talker.create_publisher(String, topic, qos)
    assert until_heard(heard, publisher)


def test_nothing_is_lost_from_the_moment_a_reliable_publisher_knows_of_us(listener, talker):
    heard = Collected()
    publisher = talker.create_publisher(String, "all", QoSProfile(depth=200, reliability=RELIABLE))
    AdaptiveSubscription(listener.node, String, "all", heard.add, 200)
    while not publisher.get_subscription_count():
        time.sleep(0.01)
    for i in range(100):
        publisher.publish(String(data=str(i)))
    heard.wait(100)
    assert [m.data for m in heard] == [str(i) for i in range(100)]


class Log:
    """A node that remembers its warnings."""

    def __init__(self):
        self.lines = []

    def get_logger(self):
        return self

    def warning(self, line):
        self.lines.append(line)


@pytest.mark.parametrize("error", [DataError("got \x1b[31m"), KeyError("x" * 5000), RecursionError("deep")])
def test_a_message_that_cannot_be_used_is_said_in_one_short_line(error):
    log = Log()

    def receive(message):
        raise error

    tolerant(log, "pose", receive)("message")
    (line,) = log.lines
    assert line.startswith("a message on pose is not used: ")
    assert line.isprintable()
    assert len(line) < 400
