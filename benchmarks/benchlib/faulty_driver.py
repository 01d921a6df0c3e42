"""A LiDAR driver in a process of its own: publishes the scans of a bag and ``/clock``, faultily when it is told to.

Commands are lines on standard input, such as ``drop 0.5``, ``sound`` or ``step -3600``; standard output gets the number
of scans sent, once a second. Time goes on where it was after a gap in the recording: a wearable that sleeps while its
wearer rests. With ``--ahead N`` a scan is sent only while SLAM has not answered fewer than N before it with a pose: as
fast as it can, and nothing is dropped.
"""

import argparse
import random
import struct
import sys
import threading
import time
from collections import deque
from pathlib import Path

NS = 10**9
_NO_ANSWER_S = 1.0  # after which scans count as answered: not every scan has a pose


class Driver:
    """Sends scan after scan at an even pace, each through the fault that is set."""

    def __init__(self, bag, pace_hz, seed, ahead=None):
        import rclpy
        from geometry_msgs.msg import PoseWithCovarianceStamped
        from rclpy.qos import QoSProfile
        from rosgraph_msgs.msg import Clock
        from sensor_msgs.msg import LaserScan

        from svfm_ros.nodes.runtime.spin_thread import SpinThread
        from svfm_ros.sources.raw_bag import open_raw_bag

        rclpy.init()
        self._node = rclpy.create_node("lidar_driver")
        self._scans = self._node.create_publisher(LaserScan, "scan", QoSProfile(depth=200))
        self._clock = self._node.create_publisher(Clock, "/clock", 10)
        self._clock_type = Clock
        self._messages = open_raw_bag(bag, print).read({"/scan"}, print)
        self.pace_hz, self._fault, self._offset_ns = pace_hz, ("sound",), 0
        self._rng, self._held, self.sent = random.Random(seed), None, 0
        self._ahead, self._unanswered, self._answered_ns = ahead, deque(), 0
        self._has_answer = threading.Condition()
        if ahead:
            self._node.create_subscription(PoseWithCovarianceStamped, "pose", self._answer, 100)
            self._spinning = SpinThread(self._node, "lidar driver")

    def obey(self, line):
        """Change the fault, the clock or the pace."""
        word, *values = line.split()
        if word == "step":
            self._offset_ns += int(float(values[0]) * NS)
        elif word == "pace":
            self.pace_hz = float(values[0])
        else:
            self._fault = (word, *map(float, values))

    def wait_for_slam(self):
        """Wait until SLAM has subscribed: it compiles its code first."""
        while "slam_node" not in {s.node_name for s in self._node.get_subscriptions_info_by_topic("/scan")}:
            time.sleep(0.1)

    def run(self):
        """Send all scans."""
        due_s = said_s = time.monotonic()
        for message in self._messages:
            self._send(bytearray(message.data))
            now_s = time.monotonic()
            if now_s - said_s >= 1.0:
                print(self.sent, flush=True)
                said_s = now_s
            due_s = max(due_s + 1.0 / self.pace_hz, now_s - 0.5)  # after a hang-up, no flood
            time.sleep(max(0.0, due_s - now_s))
            if self._ahead:
                self._wait_for_answers()

    def _answer(self, pose):
        with self._has_answer:
            self._answered_ns = pose.header.stamp.sec * NS + pose.header.stamp.nanosec
            self._has_answer.notify()

    def _wait_for_answers(self):
        """Wait until fewer scans are unanswered than may be sent ahead."""
        with self._has_answer:
            if not self._has_answer.wait_for(lambda: self._count_unanswered() < self._ahead, _NO_ANSWER_S):
                self._unanswered.clear()

    def _count_unanswered(self):
        while self._unanswered and self._unanswered[0] <= self._answered_ns:
            self._unanswered.popleft()
        return len(self._unanswered)

    def _send(self, data):
        sec, nanosec = struct.unpack_from("<iI", data, 4)
        stamp_ns = sec * NS + nanosec + self._offset_ns
        struct.pack_into("<iI", data, 4, *divmod(stamp_ns, NS))
        clock = self._clock_type()
        clock.clock.sec, clock.clock.nanosec = divmod(stamp_ns, NS)
        self._clock.publish(clock)
        for sent in self._faulty(data):
            self._scans.publish(bytes(sent))
        self.sent += 1
        if self._ahead:
            self._unanswered.append(stamp_ns)

    def _faulty(self, data):
        kind, *values = self._fault
        if kind == "drop" and self._rng.random() < values[0]:
            return []
        if kind == "double":
            return [data, data]
        if kind == "corrupt" and self._rng.random() < values[0]:
            return [self._corrupted(data)]
        if kind == "reorder":
            if self._held is None:
                self._held = data
                return []
            pair, self._held = [data, self._held], None
            return pair
        held, self._held = self._held, None
        return [data] if held is None else [held, data]

    def _corrupted(self, data):
        """Bytes overwritten anywhere after the stamp: lengths, angles and ranges are hit, too."""
        for at in self._rng.sample(range(12, len(data)), 40):
            data[at] = self._rng.randrange(256)
        return data


def main():
    """Send a bag."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bag", type=Path)
    parser.add_argument("--pace", type=float, default=50.0, help="scans a second")
    parser.add_argument(
        "--ahead", type=int, help="at most so many scans that SLAM has not answered; any number without"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    driver = Driver(args.bag, args.pace, args.seed, args.ahead)
    threading.Thread(target=lambda: [driver.obey(line) for line in sys.stdin], daemon=True).start()
    driver.wait_for_slam()
    driver.run()
    print(driver.sent, flush=True)


if __name__ == "__main__":
    main()
