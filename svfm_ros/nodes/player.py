"""ROS node: replays the serialised messages of a bag at the recorded pace, with ``/clock``.

    ros2 run svfm_ros player BAG [--rate 2] [--loop] [--start 10] [--topics scan map]

By default only input topics are replayed (scans, point clouds, IMU, odometry, ground truth), not the outputs of a
recorded run; ``--topics`` names others, ``--topics all`` replays everything. Topic names are made relative, so that
namespace and remappings apply, but for ``/tf`` and ``/tf_static``. Topics that were latched when recorded are latched
again, with messages from before ``--start``.
"""

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rclpy.duration import Duration
from rclpy.parameter import Parameter
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.utilities import remove_ros_args

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.node_config import PlayerConfig
from svfm_ros.errors import DataError, UsageError, printable
from svfm_ros.nodes.messages.serialised import has_same_definition, message_class
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.sim_clock import SimClock
from svfm_ros.pipeline.live.pacing import KeptPosition, Pacer
from svfm_ros.sources.damaged_bags import RawMessage
from svfm_ros.sources.raw_bag import RawBag, RecordedTopic, open_raw_bag

__all__ = ["Player", "main", "make", "parameters_of"]

_SHARED_TOPICS = frozenset({"/tf", "/tf_static"})
_SCAN_TYPES = frozenset({"sensor_msgs/msg/LaserScan", "sensor_msgs/msg/PointCloud2"})
_INPUT_TYPES = _SCAN_TYPES | {"sensor_msgs/msg/Imu", "nav_msgs/msg/Odometry"}
_INPUT_TOPICS = frozenset({"/ground_truth/pose"})
_OUTPUT_TOPICS = frozenset({"/odometry", "/forecast/samples", "/forecast/what_if/samples"})  # of input types
_CLOCK_TYPE = "rosgraph_msgs/msg/Clock"  # the player has its own
_ALL = "all"
_DEPTH = 100
_LATCHED_DEPTH = 1000
_MAX_LAG_S = 0.5
_POLL_S = 0.02
_LOG_WAITING_S = 5.0  # of waiting for subscribers, before it is logged
_ACK_S, _ACK_LIMIT_S = 0.5, 30.0  # wait at the end for subscribers that are busy, but not for those that have stopped
_SETTLE_S = 0.5  # discovery takes a moment on the subscriber's side, too: earlier messages would be lost


class Player(ConfiguredNode[PlayerConfig]):
    """Replays one bag in a thread of its own; ``done`` is set at its end."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("player", PlayerConfig, **node_options)

    def configure(self) -> None:
        """Open the bag and make a publisher for each topic."""
        if not self.config.bag:
            raise UsageError("expected the path of a bag: `player BAG`, or the parameter `bag`")
        self._bag = open_raw_bag(Path(self.config.bag).expanduser(), self._warn)
        self._topics = self._choose_topics(self._bag)
        self._publishers_by_topic = {t.name: self._create_publisher_for(t) for t in self._topics}
        self._kept = (
            KeptPosition(Path(self.config.position).expanduser(), self._bag.path) if self.config.position else None
        )
        self._sent = 0
        self._worst_lag_s = 0.0
        self._pacer = Pacer(self._start_ns(), self.config.rate)
        self._clock_source = SimClock(self, self._pacer, lambda: self.config.clock_hz, self.config.clock)
        self._clock_source.set_span(self._bag.start_ns, self._bag.end_ns)
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._running = False

    def activate(self) -> None:
        """Begin the replay, or go on with it."""
        self._pacer.pause(False)
        if not self._running:
            self._running = True
            self._thread.start()

    def deactivate(self) -> None:
        """Pause the replay."""
        self._pacer.pause(True)

    def reconfigure(self, config: PlayerConfig) -> None:
        """Change the speed."""
        self._pacer.set_rate(config.rate)

    def cleanup(self) -> None:
        """Stop the replay."""
        self._pacer.stop()
        if self._running:
            self._thread.join(timeout=5.0)
        if self._kept is not None and not (self.done.done() and self.done.exception()):
            self._kept.forget()

    def _warn(self, sentence: str) -> None:
        self.get_logger().warning(printable(sentence))  # names of topics come from the bag

    def _start_ns(self) -> int:
        start_ns = self._bag.start_ns + round(self.config.start_s * NS_PER_S)
        if start_ns > self._bag.end_ns:
            length_s = (self._bag.end_ns - self._bag.start_ns) / NS_PER_S
            raise UsageError(f"expected a start within the {length_s:.1f} s of {self._bag.path}")
        return start_ns

    def _resumed_ns(self) -> int | None:
        """Where a player of this bag was that was killed a moment ago; None: there was none."""
        last_ns = self._kept.read() if self._kept is not None and not self._sent else None
        if last_ns is None or not self._bag.start_ns <= last_ns < self._bag.end_ns:
            return None
        self.get_logger().info(f"going on {(last_ns - self._bag.start_ns) / NS_PER_S:.1f} s into the bag")
        return last_ns + 1

    # Topics

    def _choose_topics(self, bag: RawBag) -> list[RecordedTopic]:
        wanted = {"/" + name.lstrip("/") for name in self.config.topics}
        contents = ", ".join(f"{t.name} ({t.msgtype})" for t in bag.topics)
        if missing := wanted - {t.name for t in bag.topics} - {f"/{_ALL}"}:
            self._warn(f"{bag.path} has no {', '.join(sorted(missing))}; it has {contents}")
        if f"/{_ALL}" in wanted:
            chosen = list(bag.topics)
        else:
            chosen = [t for t in bag.topics if (t.name in wanted if wanted else _is_input(t))]
        if not wanted and not any(t.msgtype in _SCAN_TYPES for t in chosen):
            self._warn(f"{bag.path} has no LaserScan or PointCloud2; it has {contents}")
        usable = [t for t in chosen if t.msgtype != _CLOCK_TYPE and self._is_usable(t)]
        if not usable:
            raise UsageError(f"{bag.path} has no topic to replay; it has {contents}")
        return usable

    def _is_usable(self, topic: RecordedTopic) -> bool:
        if message_class(topic.msgtype) is None:
            self._warn(f"{topic.name} is left out: its type {topic.msgtype} is not installed here")
            return False
        if not has_same_definition(topic.msgtype, topic.digest):
            self._warn(f"{topic.name} is left out: it was recorded with another definition of {topic.msgtype}")
            return False
        return True

    def _create_publisher_for(self, topic: RecordedTopic) -> Publisher:
        name = topic.name if topic.name in _SHARED_TOPICS else topic.name.lstrip("/")
        # A reliable publisher is compatible with every subscriber.
        qos = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
        if topic.latched:
            qos.durability, qos.depth = DurabilityPolicy.TRANSIENT_LOCAL, min(max(topic.count, 1), _LATCHED_DEPTH)
        return self.create_publisher(message_class(topic.msgtype), name, qos)

    # Replay thread

    def _run(self) -> None:
        try:
            self._wait_for_subscribers()
            began_s = time.monotonic()
            self._replay()
            while self.config.loop and not self._pacer.stopped:
                self._replay()
            if not self._pacer.stopped:
                self._finish(time.monotonic() - began_s)
                self.done.set_result(None)
        except Exception as error:
            if not self._pacer.stopped and self.context.ok():
                self.done.set_exception(error)

    def _wait_for_subscribers(self) -> None:
        names = ["/" + n.lstrip("/") for n in self.config.wait_for]
        publishers = [p for n, p in self._publishers_by_topic.items() if n in names]
        began_s, told = time.monotonic(), False
        while not all(map(self._is_subscribed, publishers)) and not self._pacer.stopped:
            waited_s = time.monotonic() - began_s
            if waited_s > self.config.wait_s:
                self._warn(f"{', '.join(names)} has no subscriber after {self.config.wait_s:g} s; replaying anyway")
                return
            if waited_s > _LOG_WAITING_S and not told:
                told = True
                who = self.config.wait_for_node or "a node"
                self.get_logger().info(f"waiting until {who} subscribes to {', '.join(names)}")
            time.sleep(_POLL_S)
        if publishers:
            time.sleep(_SETTLE_S)

    def _is_subscribed(self, publisher: Publisher) -> bool:
        """Whether the node waited for subscribes; the graph may show it before the publisher is matched with it."""
        node = self.config.wait_for_node
        subscribers = self.get_subscriptions_info_by_topic(publisher.topic_name) if node else []
        known = not node or any(info.node_name == node for info in subscribers)
        return known and publisher.get_subscription_count() >= max(1, len(subscribers))

    def _replay(self) -> None:
        start_ns, sent_before = self._resumed_ns() or self._start_ns(), self._sent
        for message in self._messages(start_ns):
            if self._sent == sent_before:  # opening the bag took a while, which is no lag
                self._clock_source.restart(start_ns)
            if not self._clock_source.wait_until(max(message.stamp_ns, start_ns)):
                return
            self._send(message, start_ns)
        if self._sent == sent_before:
            raise DataError(f"{self._bag.path} has no message that could be replayed")

    def _messages(self, start_ns: int) -> Iterator[RawMessage]:
        """Messages from the start on, and earlier ones of latched topics."""
        latched = {t.name for t in self._topics if t.latched}
        for message in self._bag.read(set(self._publishers_by_topic), self._warn):
            if message.stamp_ns >= start_ns or message.topic in latched:
                yield message

    def _send(self, message: RawMessage, start_ns: int) -> None:
        if message.stamp_ns >= start_ns:
            lag_s = self._pacer.lag_s(message.stamp_ns)
            self._worst_lag_s = max(self._worst_lag_s, lag_s)
            if lag_s > _MAX_LAG_S:
                text = f"{lag_s:.1f} s late: this machine does not keep up with rate {self.config.rate:g}"
                self.get_logger().warning(text, throttle_duration_sec=5.0)
        self._publishers_by_topic[message.topic].publish(message.data)
        self._sent += 1
        if self._kept is not None and message.stamp_ns >= start_ns:
            self._kept.write(message.stamp_ns)

    def _finish(self, took_s: float) -> None:
        """Wait until the last messages are received and log a summary."""
        end_s = time.monotonic() + _ACK_LIMIT_S
        for publisher in self._publishers_by_topic.values():
            while not publisher.wait_for_all_acked(Duration(seconds=_ACK_S)):
                if self._pacer.stopped or time.monotonic() > end_s:
                    break
        self.get_logger().info(
            f"replayed {self._sent} messages on {len(self._topics)} topics in {took_s:.1f} s, "
            f"at most {1000 * self._worst_lag_s:.1f} ms late"
        )


def _is_input(topic: RecordedTopic) -> bool:
    """Whether a topic is an input of the pipeline: a sensor, odometry or ground truth, in any namespace."""
    if any(topic.name.endswith(name) for name in _OUTPUT_TOPICS):
        return False
    return topic.msgtype in _INPUT_TYPES or any(topic.name.endswith(name) for name in _INPUT_TOPICS)


make = Player


def parameters_of(arguments: Sequence[str]) -> list[Parameter]:
    """The command line as parameters; options that are not given keep the value of file or default."""
    options = PlayerConfig()
    parser = argparse.ArgumentParser(prog="player", description="Replay a bag through ROS 2, byte for byte.")
    parser.add_argument("bag", nargs="?", help="rosbag2 folder, .mcap or .db3 file")
    parser.add_argument("--rate", type=float, help=f"times faster than recorded (default {options.rate:g})")
    parser.add_argument("--loop", action="store_true", default=None, help="start again at the end")
    parser.add_argument(
        "--start", type=float, dest="start_s", metavar="S", help="start at so many seconds into the bag"
    )
    parser.add_argument("--topics", nargs="+", metavar="TOPIC", help="replay these topics, or all (inputs only)")
    parser.add_argument("--wait-for", nargs="+", metavar="TOPIC", help="start when each of these has a subscriber")
    given = vars(parser.parse_args(arguments))
    return [Parameter(name, value=value) for name, value in given.items() if value is not None]


def main(args: Sequence[str] | None = None) -> int:
    """Run the player in this process."""
    overrides = parameters_of(remove_ros_args(list(sys.argv if args is None else ["player", *args]))[1:])
    return run_node("player", lambda: Player(parameter_overrides=overrides), args)


if __name__ == "__main__":
    sys.exit(main())
