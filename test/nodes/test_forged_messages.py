"""Messages that no node of ours sends: each is left out with a warning, and the node that got it goes on."""

import contextlib
import signal
import struct
import threading
import time
import urllib.request

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from nav_msgs.msg import Path
from roslive import PATIENCE_S
from std_msgs.msg import String

from svfm_ros.web.page_address import free_port

pytestmark = pytest.mark.ros

NOWHERE = PoseWithCovarianceStamped()  # its quaternion is 0, 0, 0, 0
NOWHERE.pose.pose.orientation.w = 0.0
MANY = "9" * 5000
TRAINING = [KeyValue(key="state", value="training"), KeyValue(key="step", value=f"{MANY} of {MANY}")]
NOT_USED = "a message on {} is not used"
FORGED = {
    "walk": (Path, Path(poses=[PoseStamped()]), NOT_USED.format("walk")),
    "pose": (PoseWithCovarianceStamped, NOWHERE, NOT_USED.format("pose")),
    "forecast/summary": (String, String(data='{"stamp_ns": "\\u001b[31m"}'), NOT_USED.format("forecast/summary")),
    "forecast/what_if/summary": (String, String(data="[" * 100_000), ""),
    "/diagnostics": (
        DiagnosticArray,
        DiagnosticArray(status=[DiagnosticStatus(name="trainer_node: training", values=TRAINING)]),
        "Exceeds the limit",
    ),
}
"""Type, message and what is said about it, by topic."""


def lines_of(process):
    """Lines of standard error, read in a thread so that the pipe never fills, and an event for each new one."""
    lines, came = [], threading.Condition()

    def read():
        for line in process.stderr:
            with came:
                lines.append(line)
                came.notify_all()

    threading.Thread(target=read, daemon=True).start()
    return lines, came


def test_no_message_ends_the_page(start, listener, latched):
    port = free_port("127.0.0.1", 8600)
    node = start("-m", "svfm_ros.nodes.web_node", "--ros-args", "-p", f"port:={port}")
    lines, came = lines_of(node)
    publishers = [
        (listener.node.create_publisher(kind, topic, latched), message) for topic, (kind, message, _) in FORGED.items()
    ]
    wanted = [words for *_, words in FORGED.values()]

    def is_said():
        return all(words in "".join(lines) for words in wanted) or node.poll() is not None

    until_s = time.monotonic() + PATIENCE_S
    while not is_said() and time.monotonic() < until_s:  # some subscriptions get only what is published after them
        for publisher, message in publishers:
            publisher.publish(message)
        with came:
            came.wait_for(is_said, 0.5)
    assert is_said(), lines
    assert node.poll() is None, lines
    with contextlib.closing(urllib.request.urlopen(f"http://127.0.0.1:{port}/")) as page:
        assert page.status == 200
    assert not any("Traceback" in line for line in lines)
    node.send_signal(signal.SIGINT)
    assert node.wait(60) == 0


def test_a_walk_far_from_the_origin_is_drawn_at_the_edge():
    from svfm_ros.nodes.web_node import _walk_bytes

    hour, count, *centimetres = struct.unpack("<fH4h", _walk_bytes(8.0, [0, 100, 50_000_000, -570_000_000]))
    assert (hour, count, centimetres) == (8.0, 2, [0, 100, 32767, -32767])
