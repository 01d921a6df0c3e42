"""ROS node: records all topics into a bag (MCAP), for machines without ``ros2 bag``.

It checks for new topics regularly. The QoS of each topic is recorded, so that a replay latches what was latched.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription

from svfm_ros.atomic_files import check_output_folder
from svfm_ros.config.node_config import BagRecorderConfig
from svfm_ros.errors import UsageError, printable
from svfm_ros.nodes.messages.serialised import message_class
from svfm_ros.nodes.runtime.configured_node import ConfiguredNode
from svfm_ros.nodes.runtime.subscriptions import STEADY
from svfm_ros.pipeline.live.worker import Worker

__all__ = ["BagRecorder", "make"]

_NOT_RECORDED = frozenset({"/parameter_events", "/rosout"})
_DEPTH = 1000


class BagRecorder(ConfiguredNode[BagRecorderConfig]):
    """Writes in a thread of its own; the bag is complete once the node is closed."""

    def __init__(self, **node_options: Any) -> None:
        super().__init__("bag_recorder", BagRecorderConfig, **node_options)

    def configure(self) -> None:
        """Open the bag."""
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore

        self._path = Path(self.config.bag).expanduser()
        if not self.config.bag or self._path.exists():
            raise UsageError(f"expected the name of a new bag, got {self.config.bag!r}")
        check_output_folder(self._path)
        self._failure: OSError | None = None  # of the disk, after which nothing more is recorded
        self._types: Any = get_typestore(Stores.ROS2_JAZZY)
        self._writer: Any = Writer(self._path, version=9, storage_plugin=StoragePlugin.MCAP)
        self._writer.open()
        # messages from before the first simulated time
        self._early: deque[tuple[Any, bytes]] = deque(maxlen=self.config.inbox)
        self._worker = Worker(
            "record", self._write, capacity=self.config.inbox, on_error=self._report, on_drop=self._report_drop
        )

    def activate(self) -> None:
        """Subscribe to all topics, now and as they appear."""
        self._known: set[str] = set()
        self._recorded: list[Subscription] = []
        self.create_timer(self.config.look_s, self._add_topics, clock=STEADY)
        self._add_topics()

    def deactivate(self) -> None:
        """Take the messages that have arrived already: at the end of a replay the executor no longer serves them."""
        for subscription in self._recorded:
            with subscription.handle:
                while (taken := subscription.handle.take_message(subscription.msg_type, subscription.raw)) is not None:
                    subscription.callback(taken[0])

    def cleanup(self) -> None:
        """Write the waiting messages and finish the bag; raises where the disk did not take all of it."""
        self._worker.stop(timeout_s=10.0, finish=True)
        try:
            self._writer.close()
        except OSError as error:
            self._failure = self._failure or error
        if self._failure is not None:
            raise UsageError(self._incomplete(self._failure))

    def _incomplete(self, error: OSError) -> str:
        return (
            f"the recording is incomplete: {error.strerror}; {self._path.name}.mcap in {self._path} holds its beginning"
        )

    def _report(self, error: Exception) -> None:
        if isinstance(error, OSError):
            self._failure = error
            self.get_logger().error(self._incomplete(error))
            return
        self.get_logger().error(f"a message could not be recorded: {error}", throttle_duration_sec=5.0)

    def _report_drop(self, _item: object, count: int) -> None:
        self.get_logger().warning(f"{count} messages were not recorded: writing is too slow", throttle_duration_sec=5.0)

    def _add_topics(self) -> None:
        for topic, kinds in self.get_topic_names_and_types():
            if topic not in self._known and topic not in _NOT_RECORDED and self.count_publishers(topic):
                self._known.add(topic)
                self._subscribe(topic, kinds[0])

    def _subscribe(self, topic: str, msgtype: str) -> None:
        kind = message_class(msgtype)
        if kind is None or msgtype not in self._types.fielddefs:
            line = f"{topic} is not recorded: its type {msgtype} is not known here"
            self.get_logger().warning(printable(line))  # topic names of other programs may hold control characters
            return
        qos = self._common_qos(topic)
        connection = self._writer.add_connection(
            topic, msgtype, typestore=self._types, offered_qos_profiles=[_as_recorded(qos)]
        )
        self._recorded.append(self.create_subscription(kind, topic, self._receiver(connection), qos, raw=True))

    def _receiver(self, connection: Any) -> Callable[[bytes], None]:
        return lambda data: self._receive(connection, data)

    def _common_qos(self, topic: str) -> QoSProfile:
        """The strictest QoS that all publishers of the topic offer."""
        offers = [info.qos_profile for info in self.get_publishers_info_by_topic(topic)]
        qos = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
        if all(o.reliability == ReliabilityPolicy.RELIABLE for o in offers):
            qos.reliability = ReliabilityPolicy.RELIABLE
        if all(o.durability == DurabilityPolicy.TRANSIENT_LOCAL for o in offers):
            qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        return qos

    def _receive(self, connection: Any, data: bytes) -> None:
        now_ns = self.get_clock().now().nanoseconds
        if now_ns == 0:
            self._early.append((connection, data))
            return
        for early in self._early:
            self._worker.put((*early, now_ns))
        self._early.clear()
        self._worker.put((connection, data, now_ns))

    def _write(self, item: tuple[Any, bytes, int]) -> None:
        if self._failure is not None:
            return
        connection, data, now_ns = item
        self._writer.write(connection, now_ns, data)


make = BagRecorder


def _as_recorded(qos: QoSProfile) -> Any:
    """The QoS profile as bag metadata."""
    from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

    forever = QosTime(9223372036, 854775807)
    reliable = qos.reliability == ReliabilityPolicy.RELIABLE
    latched = qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return Qos(
        QosHistory.KEEP_LAST,
        _DEPTH,
        QosReliability.RELIABLE if reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        forever,
        forever,
        QosLiveliness.AUTOMATIC,
        forever,
        False,
    )
