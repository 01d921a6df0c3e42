"""Services whose work is done between two scans, by the thread that places them; scans go on coming in meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import Trigger

from svfm_ros.errors import SvfmError

__all__ = ["Command", "offer"]


@dataclass(frozen=True, slots=True)
class Command:
    """Something to be done between two scans, and whom to tell."""

    work: Callable[[], str]
    answer: Future

    def obey(self) -> None:
        """Do it and tell; what breaks is told, too, and raised."""
        try:
            self.answer.set_result((True, self.work()))
        except SvfmError as error:
            self.answer.set_result((False, str(error)))
        except Exception as error:
            self.answer.set_result((False, f"{type(error).__name__}: {error}"))
            raise

    def refuse(self, reason: str) -> None:
        """Tell that it is not done."""
        self.answer.set_result((False, reason))


def offer(node: Node, name: str, work: Callable[[], str], put: Callable[[Command], Any]) -> None:
    """A Trigger service; ``put`` takes the command to the thread that obeys it."""

    async def serve(_request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        answer = Future()
        answer.add_done_callback(lambda _: node.executor.wake())
        put(Command(work, answer))
        response.success, response.message = await answer
        return response

    # A group of its own: while it waits for its answer, scans go on coming in.
    node.create_service(Trigger, f"~/{name}", serve, callback_group=ReentrantCallbackGroup())
