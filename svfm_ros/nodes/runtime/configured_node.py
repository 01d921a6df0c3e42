"""Base class of the nodes: a lifecycle node with parameters from a config dataclass and a future for its end.

A node is configured and activated when it is made, unless its parameter ``autostart`` is false: then it waits for a
lifecycle manager (``ros2 lifecycle``, nav2). Services whose work is done by another thread than the one that serves
callbacks are deferred.
"""

import copy
import errno
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher, LifecycleState, TransitionCallbackReturn
from rclpy.logging import LoggingSeverity, get_logger
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.task import Future
from rclpy.timer import Timer
from std_srvs.srv import Trigger

from svfm_ros.config.node_config import NODE_CONFIGS, LifecycleConfig
from svfm_ros.config.options import options_of
from svfm_ros.errors import SvfmError, UsageError, reason_of
from svfm_ros.nodes.runtime.parameters import Parameters, parameter_names
from svfm_ros.nodes.runtime.subscriptions import tolerant
from svfm_ros.pipeline.live.pacing import CallLimit

__all__ = ["ConfiguredNode", "Request"]

T = TypeVar("T")
E = TypeVar("E")
_CALLS_PER_S = 5  # of one service; more are refused
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}
_Phase = Literal["always", "configured", "active"]


@dataclass(frozen=True, slots=True)
class Request:
    """Work for the other thread; ``response`` gets (success, message)."""

    work: Callable[[], str]
    response: Future

    def run(self) -> None:
        """Do the work and set the response; unexpected errors are raised, too."""
        try:
            self.response.set_result((True, self.work()))
        except Exception as error:
            self.response.set_result((False, reason_of(error)))
            if not isinstance(error, SvfmError):
                raise

    def refuse(self, reason: str) -> None:
        """Respond that the work is not done."""
        self.response.set_result((False, reason))


class ConfiguredNode(LifecycleNode, Generic[T]):
    """A lifecycle node whose parameters are the options of ``config_class``.

    Nodes extend ``configure`` (read files, make publishers and threads), ``activate`` (subscribe, begin to work),
    ``deactivate`` and ``cleanup`` (stop threads, close files). What ``activate`` and ``configure`` created with
    ``create_publisher`` and the like is destroyed by the base class after ``deactivate`` and ``cleanup``. Messages are
    published only while the node is active.

    ``node_options`` go to rclpy's node as they are (namespace, context, parameter_overrides, cli_args), so that the
    same class runs in a process of its own and beside other nodes.
    """

    def __init__(
        self,
        name: str,
        config_class: type[T],
        *,
        live_sections: Collection[str] = (),
        **node_options: Any,
    ) -> None:
        self._created: dict[_Phase, list[Any]] = {"always": [], "configured": [], "active": []}
        self._phase: _Phase = "always"  # of what is created now
        self._failure: Exception | None = None  # of the last transition
        super().__init__(name, **node_options)
        self._refuse_wrong_transitions()
        self.done = Future()  # set when the node is finished or cannot go on
        try:
            self.parameters: Parameters[T] = Parameters(self, config_class, live_sections, _names_of_all_nodes())
            self.parameters.on_change(lambda config: None if self._phase == "always" else self.reconfigure(config))
            if self._autostart():
                self.start()
        except BaseException:
            self.destroy_node()
            raise

    def _refuse_wrong_transitions(self) -> None:
        """Answer requests for transitions that the current state does not have; rclpy raises, which ends the node."""
        change_state = self._service_change_state.callback

        def serve(request: ChangeState.Request, response: ChangeState.Response) -> ChangeState.Response:
            try:
                return change_state(request, response)
            except RuntimeError as error:  # rclpy's RCLError
                self.get_logger().warning(f"transition refused: {error}", throttle_duration_sec=2.0)
                response.success = False
                return response

        self._service_change_state.callback = serve

    def _autostart(self) -> bool:
        name, default = "autostart", LifecycleConfig().autostart
        described = ParameterDescriptor(description=options_of(LifecycleConfig)[name].help, read_only=True)
        return bool(self.declare_parameter(name, default, described).value)

    # Life cycle

    def configure(self) -> None:
        """Read files, make publishers, services and threads."""

    def activate(self) -> None:
        """Subscribe and begin to work; publishers publish from now on."""

    def deactivate(self) -> None:
        """Stop working; publishers publish until this returns."""

    def cleanup(self) -> None:
        """Stop the threads and close the files."""

    def reconfigure(self, config: T) -> None:
        """Take over changed parameters; called only after ``configure``."""

    @property
    def is_active(self) -> bool:
        """Whether the node works and publishes."""
        return self._phase == "active"

    def start(self) -> None:
        """Configure and activate the node; raises the error of either."""
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() != TransitionCallbackReturn.SUCCESS:
                raise self._failure or RuntimeError("the node cannot be started")

    def close(self) -> None:
        """End what the node does and destroy it; the context may be shut down already."""
        try:
            self._stop()
        finally:
            self.destroy_node()

    def on_configure(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Transition to inactive."""
        return self._transition(lambda: self._enter("configured", self._configure))

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Transition to active."""
        super().on_activate(state)  # enables the publishers
        result = self._transition(lambda: self._enter("active", self.activate))
        if result != TransitionCallbackReturn.SUCCESS:
            super().on_deactivate(state)
        return result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Transition to inactive."""
        result = self._transition(lambda: self._leave("active", self.deactivate))
        super().on_deactivate(state)
        return result

    def on_cleanup(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Transition to unconfigured."""
        return self._transition(lambda: self._leave("configured", self.cleanup))

    def on_shutdown(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Transition to finalized."""
        return self._transition(self._stop)

    def on_error(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """After a transition with an unexpected error: back to unconfigured."""
        return self._transition(self._stop)

    def _stop(self) -> None:
        if self._phase == "active":
            self._leave("active", self.deactivate)
        if self._phase == "configured":
            self._leave("configured", self.cleanup)

    def _configure(self) -> None:
        """Configure; a file that the system refuses is unusable input: another start would not help."""
        try:
            self.configure()
        except OSError as error:
            if error.errno not in _REFUSED or error.filename is None:
                raise
            raise UsageError(f"cannot use {error.filename}: {error.strerror}") from error

    def _enter(self, phase: _Phase, work: Callable[[], None]) -> None:
        before, self._phase = self._phase, phase
        try:
            work()
        except BaseException:
            self._destroy(phase)
            self._phase = before
            raise

    def _leave(self, phase: _Phase, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._destroy(phase)
            self._phase = "configured" if phase == "active" else "always"

    def _transition(self, work: Callable[[], None]) -> TransitionCallbackReturn:
        """Do the work of a transition; input that is not usable is a failure, anything unexpected an error."""
        try:
            work()
        except SvfmError as error:
            self._failure = error
            self._log_failure(str(error))
            return TransitionCallbackReturn.FAILURE
        except Exception as error:
            self._failure = error
            self._log_failure(traceback.format_exc())
            return TransitionCallbackReturn.ERROR
        return TransitionCallbackReturn.SUCCESS

    def _log_failure(self, text: str) -> None:
        if not self.get_parameter("autostart").value:  # otherwise the caller of the constructor reports it
            self.get_logger().error(text)

    # What a node creates belongs to the phase in which it is created

    def create_publisher(self, msg_type: Any, topic: str, qos_profile: QoSProfile | int, **options: Any) -> Publisher:
        """A publisher whose QoS can be overridden with parameters ``qos_overrides.TOPIC.publisher.POLICY``."""
        qos = self._overridable(topic, qos_profile, options)
        if self._phase == "always":
            return super().create_publisher(msg_type, topic, qos, **options)
        publisher = self.create_lifecycle_publisher(msg_type, topic, qos, **options)
        if self.is_active:
            publisher.on_activate(None)
        return self._keep(publisher)

    def create_subscription(
        self, msg_type: Any, topic: str, callback: Any, qos_profile: QoSProfile | int, **options: Any
    ) -> Subscription:
        """A subscription whose QoS can be overridden with parameters ``qos_overrides.TOPIC.subscription.POLICY``.

        A message that the callback cannot use does not end the node.
        """
        qos = self._overridable(topic, qos_profile, options)
        received = tolerant(self, topic, callback)
        return self._keep(super().create_subscription(msg_type, topic, received, qos, **options))

    def create_timer(self, *arguments: Any, **options: Any) -> Timer:
        """A timer, as rclpy's."""
        return self._keep(super().create_timer(*arguments, **options))

    def create_service(self, *arguments: Any, **options: Any) -> Service:
        """A service, as rclpy's."""
        return self._keep(super().create_service(*arguments, **options))

    def _keep(self, entity: E) -> E:
        self._created[self._phase].append(entity)
        return entity

    def _destroy(self, phase: _Phase) -> None:
        entities, self._created[phase] = self._created[phase], []
        for entity in entities:
            if isinstance(entity, LifecyclePublisher):
                self.destroy_lifecycle_publisher(entity)
            elif isinstance(entity, Subscription):
                self.destroy_subscription(entity)
            elif isinstance(entity, Timer):
                self.destroy_timer(entity)
            else:
                self.destroy_service(entity)

    def _overridable(self, topic: str, qos: QoSProfile | int, options: dict[str, Any]) -> QoSProfile | int:
        """Add the option for overrides where one is set for this topic; rclpy then changes the profile: a copy."""
        prefix = f"qos_overrides.{self.resolve_topic_name(topic)}." if self._parameter_overrides else ""
        if not prefix or not any(name.startswith(prefix) for name in self._parameter_overrides):
            return qos
        options["qos_overriding_options"] = QoSOverridingOptions.with_default_policies()
        return QoSProfile(depth=qos) if isinstance(qos, int) else copy.copy(qos)

    def create_limited_service(
        self, name: str, serve: Callable[[Trigger.Request, Trigger.Response], Trigger.Response]
    ) -> None:
        """A Trigger service ``~/name`` that refuses more than some calls a second."""
        calls = CallLimit(_CALLS_PER_S)
        self.create_service(Trigger, f"~/{name}", lambda *call: serve(*call) if calls.admit() else _too_many(call[1]))

    def create_deferred_service(self, name: str, work: Callable[[], str], put: Callable[[Request], Any]) -> None:
        """The same; ``put`` hands the request to the thread that runs it."""
        calls = CallLimit(_CALLS_PER_S)

        async def serve(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            if not calls.admit():
                return _too_many(response)
            future = Future()
            future.add_done_callback(lambda _: self.executor.wake())
            put(Request(work, future))
            response.success, response.message = await future
            return response

        # A callback group of its own: other callbacks are served while this one waits.
        self.create_service(Trigger, f"~/{name}", serve, callback_group=ReentrantCallbackGroup())

    @property
    def config(self) -> T:
        """The current parameters."""
        return self.parameters.config

    def get_logger(self) -> RcutilsLogger:
        """The node's logger; one without output after the context is shut down, when threads may still log."""
        return super().get_logger() if self.context.ok() else _silent_logger()


def _too_many(response: Trigger.Response) -> Trigger.Response:
    response.success, response.message = False, f"too many calls: at most {_CALLS_PER_S} a second"
    return response


def _silent_logger() -> RcutilsLogger:
    logger = get_logger("svfm_ros.silent")
    logger.set_level(LoggingSeverity.FATAL)
    return logger


def _names_of_all_nodes() -> frozenset[str]:
    """Parameters of all nodes: a parameters file may set one for all at once (``/**``)."""
    return frozenset(name for config in NODE_CONFIGS.values() for name in parameter_names(config))
