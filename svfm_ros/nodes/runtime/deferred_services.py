"""Trigger services whose work is done by another thread than the one that serves callbacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import Trigger

from svfm_ros.errors import SvfmError

__all__ = ["Request", "create_deferred_service"]


@dataclass(frozen=True, slots=True)
class Request:
    """Work for the other thread; ``response`` gets (success, message)."""

    work: Callable[[], str]
    response: Future

    def run(self) -> None:
        """Do the work and set the response; unexpected errors are raised, too."""
        try:
            self.response.set_result((True, self.work()))
        except SvfmError as error:
            self.response.set_result((False, str(error)))
        except Exception as error:
            self.response.set_result((False, f"{type(error).__name__}: {error}"))
            raise

    def refuse(self, reason: str) -> None:
        """Respond that the work is not done."""
        self.response.set_result((False, reason))


def create_deferred_service(node: Node, name: str, work: Callable[[], str], put: Callable[[Request], Any]) -> None:
    """A Trigger service ``~/name``; ``put`` hands the request to the thread that runs it."""

    async def serve(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        future = Future()
        future.add_done_callback(lambda _: node.executor.wake())
        put(Request(work, future))
        response.success, response.message = await future
        return response

    # A callback group of its own: other callbacks are served while this one waits.
    node.create_service(Trigger, f"~/{name}", serve, callback_group=ReentrantCallbackGroup())
