"""Base class of the nodes: parameters from a config dataclass, a future for the end, one way to close."""

import copy
from collections.abc import Collection
from typing import Any, Generic, TypeVar

from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.logging import LoggingSeverity, get_logger
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription
from rclpy.task import Future

from svfm_ros.config.node_config import NODE_CONFIGS
from svfm_ros.nodes.runtime.parameters import Parameters, parameter_names

__all__ = ["ConfiguredNode"]

T = TypeVar("T")


class ConfiguredNode(Node, Generic[T]):
    """A node whose parameters are the options of ``config_class``.

    ``node_options`` go to rclpy's ``Node`` as they are (namespace, context, parameter_overrides, cli_args), so
    that the same class runs in a process of its own and beside other nodes.
    """

    def __init__(
        self,
        name: str,
        config_class: type[T],
        *,
        live_sections: Collection[str] = (),
        **node_options: Any,
    ) -> None:
        super().__init__(name, **node_options)
        self.done = Future()  # set when the node is finished or cannot go on
        try:
            self.parameters: Parameters[T] = Parameters(self, config_class, live_sections, _names_of_all_nodes())
        except BaseException:
            self.destroy_node()
            raise

    def create_publisher(self, msg_type: Any, topic: str, qos_profile: QoSProfile | int, **options: Any) -> Publisher:
        """A publisher whose QoS can be overridden with parameters ``qos_overrides.TOPIC.publisher.POLICY``."""
        qos = self._overridable(topic, qos_profile, options)
        return super().create_publisher(msg_type, topic, qos, **options)

    def create_subscription(
        self, msg_type: Any, topic: str, callback: Any, qos_profile: QoSProfile | int, **options: Any
    ) -> Subscription:
        """A subscription whose QoS can be overridden with parameters ``qos_overrides.TOPIC.subscription.POLICY``."""
        qos = self._overridable(topic, qos_profile, options)
        return super().create_subscription(msg_type, topic, callback, qos, **options)

    def _overridable(self, topic: str, qos: QoSProfile | int, options: dict[str, Any]) -> QoSProfile | int:
        """Add the option for overrides where one is set for this topic; rclpy then changes the profile: a copy."""
        prefix = f"qos_overrides.{self.resolve_topic_name(topic)}." if self._parameter_overrides else ""
        if not prefix or not any(name.startswith(prefix) for name in self._parameter_overrides):
            return qos
        options["qos_overriding_options"] = QoSOverridingOptions.with_default_policies()
        return QoSProfile(depth=qos) if isinstance(qos, int) else copy.copy(qos)

    @property
    def config(self) -> T:
        """The current parameters."""
        return self.parameters.config

    def get_logger(self) -> RcutilsLogger:
        """The node's logger; one without output after the context is shut down, when threads may still log."""
        return super().get_logger() if self.context.ok() else _silent_logger()

    def close(self) -> None:
        """Destroy the node; nodes with threads or files extend this."""
        self.destroy_node()


def _silent_logger() -> RcutilsLogger:
    logger = get_logger("svfm_ros.silent")
    logger.set_level(LoggingSeverity.FATAL)
    return logger


def _names_of_all_nodes() -> frozenset[str]:
    """Parameters of all nodes: a parameters file may set one for all at once (``/**``)."""
    return frozenset(name for config in NODE_CONFIGS.values() for name in parameter_names(config))
