"""What has arrived when a recording ends is in the bag."""

import resource
import time

import pytest
from rclpy.parameter import Parameter
from roslive import DEPTH
from std_msgs.msg import String

from svfm_ros.errors import UsageError
from svfm_ros.nodes.bag_recorder import BagRecorder
from svfm_ros.sources.raw_bag import open_raw_bag

pytestmark = pytest.mark.ros


def recorder_of(listener, folder):
    """A recorder that nobody spins, and a publisher that it has found."""
    talker = listener.node.create_publisher(String, "words", DEPTH)
    recorder = BagRecorder(context=listener.context, parameter_overrides=[Parameter("bag", value=str(folder))])
    while not talker.get_subscription_count():
        recorder._add_topics()
        time.sleep(0.01)
    return recorder, talker


def test_messages_that_no_executor_served_yet_are_recorded(listener, tmp_path):
    recorder, talker = recorder_of(listener, tmp_path / "bag")
    for number in range(50):
        talker.publish(String(data=str(number)))
    assert talker.wait_for_all_acked()
    recorder.close()
    bag = open_raw_bag(tmp_path / "bag", pytest.fail)
    assert len(list(bag.read({"/words"}, pytest.fail))) == 50


@pytest.mark.parametrize("most_bytes", [2_500_000, 300_000])  # noticed while it records, or not before the end
def test_a_disk_that_becomes_full_is_said_and_the_beginning_can_be_read(listener, tmp_path, most_bytes):
    recorder, talker = recorder_of(listener, tmp_path / "bag")
    for _ in range(40 if most_bytes < 1_000_000 else 400):
        talker.publish(String(data="x" * 10_000))
    assert talker.wait_for_all_acked()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        with pytest.raises(UsageError, match=r"the recording is incomplete: File too large; bag\.mcap in"):
            recorder.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said: list[str] = []
    bag = open_raw_bag(tmp_path / "bag" / "bag.mcap", said.append)
    kept = sum(1 for _ in bag.read({"/words"}, said.append))
    assert kept >= (most_bytes // 1_100_000) * 100  # messages of whole chunks
    assert said
