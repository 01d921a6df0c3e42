"""The command ``svfm``: parse the name of a command, import its module and run it.

Nothing but the standard library is imported before a command is chosen, so that ``--help`` and ``--version`` are quick.
Each command is a module of ``svfm_ros.cli`` with ``add_arguments(parser)`` and ``run(args) -> int``.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from svfm_ros.errors import SvfmError
from svfm_ros.version import version

__all__ = ["COMMANDS", "main"]

INTERRUPTED = 130
USAGE = 2

COMMANDS = {
    "simulate": "make walks through a simulated house: rosbags, ground truth, maps",
    "slam": "turn a log of scans into a map and a trajectory",
    "store": "list a store of walks, import and export walks, delete a person's",
    "train": "learn a person's walks",
    "forecast": "probabilities of the places someone may go to from here, at this hour",
    "evaluate": "score a model on walks it did not learn from",
    "report": "write a page about a person's walks that opens in any browser",
    "reproduce": "repeat the experiments of the paper",
    "pictures": "draw the pictures of the documentation",
    "run": "start the live pipeline: scans in, forecasts out, on ROS 2",
    "demo": "watch it work: simulated walks, replayed through real ROS 2 nodes",
    "bench": "measure this package and others on the same data, in the same run",
}
"""Every command with a one-line description, in the order a newcomer needs them."""

_DESCRIPTION = """\
Where will they walk next? A wearable 2D LiDAR goes in; out come the places its wearer is likely to walk to
next, with calibrated probabilities, on the map of their home.
"""

_EPILOG = """\
first steps:
  svfm demo                                        watch it work
  svfm simulate --walks 200 --walks-csv walks.csv  make walks to try the other commands with
  svfm COMMAND --help                              what a command takes and prints

exit codes: 0 success, 1 a target was missed, 2 the input could not be used, 130 interrupted
"""


def _top_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="svfm",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"svfm_ros {version()}")
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:{width}}  {text}" for name, text in COMMANDS.items())
    parser.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND", help="one of the following")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="options of the command")
    parser.epilog = f"commands:\n{listing}\n\n{_EPILOG}"
    return parser


def _run_command(name: str, argv: Sequence[str]) -> int:
    module = importlib.import_module(f"svfm_ros.cli.{name}")
    parser = argparse.ArgumentParser(
        prog=f"svfm {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(argv)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = _top_parser().parse_args(argv)
    if args.command is None:
        _top_parser().print_help()
        return USAGE
    try:
        return _run_command(args.command, args.rest)
    except SvfmError as error:
        print(f"svfm {args.command}: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print(f"svfm {args.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
