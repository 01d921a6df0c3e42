"""Ask a node for something, from a thread that does not spin, and wait for what it says."""

import threading

from rclpy.node import Node
from std_srvs.srv import Trigger

__all__ = ["ask"]


def ask(node: Node, service: str, patience_s: float = 20.0) -> tuple[bool, str]:
    """Whether a Trigger service did it, and its words; someone else has to spin ``node`` meanwhile."""
    client = node.create_client(Trigger, service)  # goes with its node: taking it away while others spin is not safe
    if not client.wait_for_service(patience_s):
        return False, f"nobody offers {service}"
    answered = threading.Event()
    future = client.call_async(Trigger.Request())
    future.add_done_callback(lambda _: answered.set())
    if not answered.wait(patience_s):
        return False, f"no answer from {service}"
    result = future.result()
    return bool(result.success), str(result.message)
