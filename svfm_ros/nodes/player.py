"""The player: a bag's messages go out as they are, byte for byte, at the pace they were recorded, with ``/clock``.

    ros2 run svfm_ros player BAG [--rate 2] [--loop] [--start 10] [--topics scan map]

Names are taken relative, so that a namespace and remappings work; ``/clock``, ``/tf`` and ``/tf_static`` belong to all.
Late subscribers get what was latched when it was recorded, also what lies before ``--start``.
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
from std_srvs.srv import SetBool

from svfm_ros.clock import NS_PER_S
from svfm_ros.config.node_config import PlayerConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.nodes.bag_player_input import RecordedTopic, Recording, open_recording
from svfm_ros.nodes.messages.message_types import message_class, same_definition
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.lifetime import run_node
from svfm_ros.nodes.runtime.sim_clock import CLOCK_TOPIC, SimClock
from svfm_ros.pipeline.pacing import Pacer
from svfm_ros.sources.damaged_bags import RawMessage

__all__ = ["Player", "main", "make", "parameters_of"]

_SHARED_TOPICS = frozenset({"/tf", "/tf_static"})
_SCAN_TYPES = frozenset({"sensor_msgs/msg/LaserScan", "sensor_msgs/msg/PointCloud2"})
_DEPTH = 100
_LATCHED_DEPTH = 1000
_LATE_S = 0.5
_POLL_S = 0.02
_SETTLE_S = 0.5  # we know the subscriber before it knows us; what is sent in between may not reach it


class Player(ConfiguredNode[PlayerConfig]):
    """Replays one bag in a thread of its own; ``done`` is set at the end."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("player", PlayerConfig, **node_options)
        if not self.config.bag:
            raise UsageError("which bag? Give its path: `player BAG`, or the parameter `bag`")
        self._recording = open_recording(Path(self.config.bag).expanduser(), self._warn)
        self._topics = self._choose_topics(self._recording)
        self._publishers_by_topic = {t.name: self._offer(t) for t in self._topics}
        self._sent = 0
        self._worst_lag_s = 0.0
        self._pacer = Pacer(self._start_ns(), self.config.rate)
        self._clock_source = SimClock(self, self._pacer, lambda: self.config.clock_hz, self.config.clock)
        self.parameters.on_change(lambda config: self._pacer.set_rate(config.rate))
        self.create_service(SetBool, "~/pause", self._pause)
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the replay and leave the graph."""
        self._pacer.stop()
        self._thread.join(timeout=5.0)
        super().close()

    def _warn(self, sentence: str) -> None:
        self.get_logger().warning(sentence)

    def _start_ns(self) -> int:
        start_ns = self._recording.start_ns + round(self.config.start_s * NS_PER_S)
        if start_ns > self._recording.end_ns:
            length_s = (self._recording.end_ns - self._recording.start_ns) / NS_PER_S
            raise UsageError(f"expected a start within the {length_s:.1f} s of {self._recording.path}")
        return start_ns

    # Which topics

    def _choose_topics(self, recording: Recording) -> list[RecordedTopic]:
        asked = {"/" + name.lstrip("/") for name in self.config.topics}
        missing = asked - {t.name for t in recording.topics}
        held = ", ".join(f"{t.name} ({t.msgtype})" for t in recording.topics)
        if missing:
            self._warn(f"{recording.path} has no {', '.join(sorted(missing))}; it has {held}")
        chosen = [t for t in recording.topics if t.name in asked] if asked else list(recording.topics)
        if not asked and not any(t.msgtype in _SCAN_TYPES for t in chosen):
            self._warn(f"{recording.path} holds no LaserScan or PointCloud2; it has {held}")
        usable = [t for t in chosen if t.name != CLOCK_TOPIC and self._is_usable(t)]
        if not usable:
            raise UsageError(f"{recording.path} holds nothing that can be replayed; it has {held}")
        return usable

    def _is_usable(self, topic: RecordedTopic) -> bool:
        if message_class(topic.msgtype) is None:
            self._warn(f"{topic.name} is left out: its type {topic.msgtype} is not installed here")
            return False
        if not same_definition(topic.msgtype, topic.digest):
            self._warn(f"{topic.name} is left out: it was recorded with another definition of {topic.msgtype}")
            return False
        return True

    def _offer(self, topic: RecordedTopic) -> Publisher:
        name = topic.name if topic.name in _SHARED_TOPICS else topic.name.lstrip("/")
        # Reliable suits every subscriber; what was latched is kept for those to come.
        qos = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.RELIABLE)
        if topic.latched:
            qos.durability, qos.depth = DurabilityPolicy.TRANSIENT_LOCAL, min(max(topic.count, 1), _LATCHED_DEPTH)
        return self.create_publisher(message_class(topic.msgtype), name, qos)

    # The replay thread

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
        end_s = time.monotonic() + self.config.wait_s
        while not all(map(self._is_heard, publishers)) and not self._pacer.stopped:
            if time.monotonic() > end_s:
                self._warn(f"nobody listens to {', '.join(names)} after {self.config.wait_s:g} s; replaying anyway")
                return
            time.sleep(_POLL_S)
        if publishers:
            time.sleep(_SETTLE_S)

    def _is_heard(self, publisher: Publisher) -> bool:
        """Whether the one waited for listens; the middleware may know them before the publisher has met them."""
        node = self.config.wait_for_node
        listeners = self.get_subscriptions_info_by_topic(publisher.topic_name) if node else []
        known = not node or any(info.node_name == node for info in listeners)
        return known and publisher.get_subscription_count() >= max(1, len(listeners))

    def _replay(self) -> None:
        start_ns, sent_before = self._start_ns(), self._sent
        for message in self._messages(start_ns):
            if self._sent == sent_before:  # opening the bag took a moment, which is nobody's lag
                self._clock_source.restart(start_ns)
            if not self._clock_source.wait_until(max(message.stamp_ns, start_ns)):
                return
            self._send(message, start_ns)
        if self._sent == sent_before:
            raise DataError(f"{self._recording.path} gave no message that could be replayed")

    def _messages(self, start_ns: int) -> Iterator[RawMessage]:
        """From the start on; of what lies before it, only what was latched."""
        latched = {t.name for t in self._topics if t.latched}
        for message in self._recording.read(set(self._publishers_by_topic), self._warn):
            if message.stamp_ns >= start_ns or message.topic in latched:
                yield message

    def _send(self, message: RawMessage, start_ns: int) -> None:
        if message.stamp_ns >= start_ns:
            lag_s = self._pacer.lag_s(message.stamp_ns)
            self._worst_lag_s = max(self._worst_lag_s, lag_s)
            if lag_s > _LATE_S:
                text = f"{lag_s:.1f} s late: this machine does not keep up with rate {self.config.rate:g}"
                self.get_logger().warning(text, throttle_duration_sec=5.0)
        self._publishers_by_topic[message.topic].publish(message.data)
        self._sent += 1

    def _finish(self, took_s: float) -> None:
        """Let the last messages arrive, and say what was done."""
        for publisher in self._publishers_by_topic.values():
            publisher.wait_for_all_acked(Duration(seconds=2))
        self.get_logger().info(
            f"replayed {self._sent} messages on {len(self._topics)} topics in {took_s:.1f} s, "
            f"at most {1000 * self._worst_lag_s:.1f} ms late"
        )

    # Service

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._pacer.pause(request.data)
        response.success = True
        response.message = "paused" if request.data else "going on"
        return response


make = Player


def parameters_of(arguments: Sequence[str]) -> list[Parameter]:
    """The command line as parameters; what is not given stays with the parameters file or the default."""
    options = PlayerConfig()
    parser = argparse.ArgumentParser(prog="player", description="Replay a bag through ROS 2, byte for byte.")
    parser.add_argument("bag", nargs="?", help="rosbag2 folder, .mcap or .db3 file")
    parser.add_argument("--rate", type=float, help=f"times faster than recorded (default {options.rate:g})")
    parser.add_argument("--loop", action="store_true", default=None, help="begin again at the end")
    parser.add_argument("--start", type=float, dest="start_s", metavar="S", help="seconds into the bag to begin at")
    parser.add_argument("--topics", nargs="+", metavar="TOPIC", help="replay only these topics")
    parser.add_argument("--wait-for", nargs="+", metavar="TOPIC", help="begin when each of these has a subscriber")
    given = vars(parser.parse_args(arguments))
    return [Parameter(name, value=value) for name, value in given.items() if value is not None]


def main(args: Sequence[str] | None = None) -> int:
    """Run the player in this process."""
    overrides = parameters_of(remove_ros_args(list(sys.argv if args is None else ["player", *args]))[1:])
    return run_node("player", lambda: Player(parameter_overrides=overrides), args)


if __name__ == "__main__":
    sys.exit(main())
