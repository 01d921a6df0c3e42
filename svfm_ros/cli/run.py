"""Start the live pipeline: SLAM, training and forecasts from scans.

Takes the arguments of `ros2 launch svfm_ros forecast.launch.py` and runs the same nodes in one process; use it where
the launch packages are not installed. Without arguments a house is simulated. All messages stay on this machine
unless network:=lan is given.

for example:
  svfm run                                      a simulated house
  svfm run bag:=out/walks rate:=2               a recording, twice as fast
  svfm run live:=true store:=~/walks            a LiDAR driver publishes `scan`

It prints the address of the live page first, then what happens, in sentences. Ctrl-C ends it.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from svfm_ros.atomic_files import check_output_folder
from svfm_ros.cli.main import drop_output
from svfm_ros.errors import printable

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm run``: the launch file's arguments, as NAME:=VALUE."""
    from svfm_ros.nodes.runtime.launch_arguments import ARGUMENTS

    width = max(len(a.name) for a in ARGUMENTS)
    lines = [f"  {a.name:{width}}  {a.help}" + (f" (default {a.default})" if a.default else "") for a in ARGUMENTS]
    parser.epilog = "arguments:\n" + "\n".join(lines)
    parser.add_argument("pairs", nargs="*", metavar="NAME:=VALUE", help="arguments, see below")


def run(args: argparse.Namespace) -> int:
    """Plan the graph and run it until it ends."""
    from svfm_ros.nodes.runtime.graph_description import make_plan
    from svfm_ros.nodes.runtime.launch_arguments import parse_pairs

    plan = make_plan(parse_pairs(args.pairs))
    for store in {str(node.parameters["store"]) for node in plan.nodes if "store" in node.parameters}:
        check_output_folder(Path(store))
    from svfm_ros.nodes.runtime.single_process import run_graph

    return run_graph(plan, _Terminal())


def _fitted(line: str, width: int) -> str:
    """The line, or its parts up to a comma that fit."""
    if len(line) <= width:
        return line
    end = line.rfind(",", 0, max(0, width - 1))
    return f"{line[:end]} …" if end > 0 else line[:width]


_FORECAST_S = 10.0  # between forecasts where lines cannot be rewritten


class _Terminal:
    """Lines on standard output; a forecast is rewritten in its line where that is possible.

    What is in a line came in messages, which anybody may have sent: no control characters reach the terminal.
    """

    def __init__(self) -> None:
        self._rewrites = sys.stdout.isatty()
        self._open = False  # the last line is to be rewritten
        self._next_s = 0.0
        self._readable = True

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._print("\r\x1b[K" + printable(line) if self._open else printable(line))
        self._open = False

    def rewrite(self, line: str) -> None:
        """Print a forecast over the last one; into a file, now and then."""
        line = printable(line)
        if self._rewrites:
            self._print("\r\x1b[K" + _fitted(line, shutil.get_terminal_size().columns - 1), end="")
            self._open = True
        elif time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _FORECAST_S
            self._print(line)

    def _print(self, text: str, end: str = "\n") -> None:
        """Print it; where nobody reads any more, as after ``| head``, say so once: the nodes go on."""
        if not self._readable:
            return
        try:
            print(text, end=end, flush=True)
        except OSError as error:
            self._readable = False
            drop_output()
            sys.stderr.write(f"svfm run: cannot write to the standard output: {error.strerror}; the nodes go on\n")
