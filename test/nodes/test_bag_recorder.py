"""What has arrived when a recording ends is in the bag."""

import time

import pytest
from rclpy.parameter import Parameter
from roslive import DEPTH
from std_msgs.msg import String

from svfm_ros.nodes.bag_recorder import BagRecorder
from svfm_ros.sources.raw_bag import open_raw_bag

pytestmark = pytest.mark.ros


def test_messages_that_no_executor_served_yet_are_recorded(listener, tmp_path):
    talker = listener.node.create_publisher(String, "words", DEPTH)
    given = [Parameter("bag", value=str(tmp_path / "bag"))]
    recorder = BagRecorder(context=listener.context, parameter_overrides=given)
    while not talker.get_subscription_count():
        recorder._add_topics()  # nobody spins it
        time.sleep(0.01)
    for number in range(50):
        talker.publish(String(data=str(number)))
    assert talker.wait_for_all_acked()
    recorder.close()
    bag = open_raw_bag(tmp_path / "bag", pytest.fail)
    assert len(list(bag.read({"/words"}, pytest.fail))) == 50
