"""Starts a node by its name: the executables ``player``, ``slam_node`` and so on. Light, because it is loaded first.

Loading ROS and the rest of a node takes a second or more. Ctrl-C meanwhile ends the process without a traceback.
"""

import importlib
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

from svfm_ros.errors import UsageError

__all__ = ["main", "node_module"]


def node_module(name: str) -> ModuleType:
    """The module of a node; raises where something it needs is not installed."""
    try:
        return importlib.import_module(f"svfm_ros.nodes.{name}")
    except ImportError as error:
        raise UsageError(f"cannot be loaded: {error}") from error


def main() -> int:
    """Run the node that the executable is named after, or ``python -m svfm_ros.nodes.start NODE``."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_quietly)  # until the node has its own
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the executables block it while Python starts
    if Path(sys.argv[0]).name == Path(__file__).name:
        del sys.argv[0]
    name = Path(sys.argv[0]).name
    try:
        code: int = node_module(name).main()
    except UsageError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return 2
    return code


def _end_quietly(_number: int, _frame: object) -> None:
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
