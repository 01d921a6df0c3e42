"""Publishers of either kind are heard, whoever is there first; from reliable ones nothing is lost."""

import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from roslive import Collected, Listener
from std_msgs.msg import String

from svfm_ros.nodes.runtime.subscriptions import AdaptiveSubscription

pytestmark = pytest.mark.ros

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT


@pytest.fixture
def talker():
    other = Listener()
    yield other.node
    other.close()


def until_heard(heard, publisher):
    """Talk until someone hears it."""
    for i in range(400):
        publisher.publish(String(data=str(i)))
        try:
            heard.wait(len(heard) + 1, patience_s=0.05)
        except AssertionError:
            continue
        return True
    return False


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
        pass
    for i in range(100):
        publisher.publish(String(data=str(i)))
    heard.wait(100)
    assert [m.data for m in heard] == [str(i) for i in range(100)]
