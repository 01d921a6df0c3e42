"""A node of the tests' own: it collects messages and calls services, event by event."""

import threading

import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState

from svfm_ros.nodes.client import wait_for_server
from svfm_ros.nodes.runtime.spin_thread import SpinThread

# A loaded machine is slow to start processes. Waits end as soon as what they wait for happens.
PATIENCE_S = 400.0
DEPTH = 10_000  # messages that wait while a loaded machine runs others: none is lost


class Collected(list):
    """Messages as they arrive; ``wait`` returns when enough are there."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def add(self, message):
        with self._changed:
            self.append(message)
            self._changed.notify_all()

    def wait(self, count, patience_s=PATIENCE_S):
        with self._changed:
            got = self._changed.wait_for(lambda: len(self) >= count, patience_s)
        assert got, f"expected {count} messages, got {len(self)}"
        return self

    def wait_for(self, wanted, patience_s=PATIENCE_S):
        """The first message that ``wanted`` accepts."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(wanted, self)), patience_s), f"not among {len(self)} messages"
            return next(m for m in self if wanted(m))

    def wait_until(self, true, patience_s=PATIENCE_S):
        """Wait until ``true`` holds for all messages so far."""
        with self._changed:
            assert self._changed.wait_for(lambda: true(self), patience_s), f"not true of {len(self)} messages"
        return self


class Listener:
    """A node of the tests' own, spinning in the background."""

    def __init__(self):
        self.context = rclpy.Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("listener", context=self.context)
        self.spinning = SpinThread(self.node, "listener")

    def collect(self, kind, topic, qos=DEPTH, raw=False):
        """Everything that arrives on a topic from now on."""
        collected = Collected()
        self.node.create_subscription(kind, topic, collected.add, qos, raw=raw)
        return collected

    def call(self, kind, service, request):
        """The answer of a service."""
        client = self.node.create_client(kind, service)
        assert wait_for_server(self.node, client, PATIENCE_S), f"no service {service}"
        answered = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: answered.set())
        assert answered.wait(PATIENCE_S), f"no answer from {service}"
        return future.result()

    def activate(self, node):
        """Start a node that waits for a lifecycle manager; its messages all reach the subscriptions made before.

        The node knows them when it answers: they were announced before the client that asks.
        """
        for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
            request = ChangeState.Request(transition=Transition(id=transition))
            assert self.call(ChangeState, f"{node}/change_state", request).success

    def close(self):
        self.spinning.stop()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)
