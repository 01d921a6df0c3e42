"""The command ``svfm``: parse the name of a command, import its module and run it.

Nothing but the standard library is imported before a command is chosen, so that ``--help`` and ``--version`` are quick.
Each command is a module of ``svfm_ros.cli`` with ``add_arguments(parser)`` and ``run(args) -> int``, and if wanted
``OPTION_NAMES``: the option of the command line for a field of a config, where the names differ.

Whatever goes wrong is one sentence on standard error. A fault of this package itself also leaves a log file with the
traceback. What a command writes can be read by its owner alone.
"""

import argparse
import contextlib
import errno
import importlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from svfm_ros.errors import ConfigError, SvfmError, UsageError, printable
from svfm_ros.installed_files import version

__all__ = ["COMMANDS", "command_module", "drop_output", "main"]

USAGE = 2
FAULT = 3
INTERRUPTED = 130

COMMANDS = {
    "simulate": "make walks through a simulated house: rosbags, ground truth, maps",
    "slam": "turn a log of scans into a map and a trajectory",
    "store": "list a store of walks, import and export walks, delete a person's",
    "places": "name the places of a map, by clicking on it in a browser",
    "train": "learn a person's walks",
    "prior": "learn from many homes what a new one starts from",
    "forecast": "probabilities of the places someone may go to from here, at this hour",
    "evaluate": "score a model on walks it did not learn from",
    "report": "write a page about a person's walks that opens in any browser",
    "fleet": "learn, score and report many homes, on Ray",
    "tune": "choose options of the model by their held-out score over homes, on Ray",
    "reproduce": "repeat the experiments of the paper",
    "pictures": "draw the pictures of the documentation",
    "run": "start the live pipeline: scans in, forecasts out, on ROS 2",
    "demo": "watch it work: simulated walks, replayed through real ROS 2 nodes",
    "bench": "measure this package and others on the same data, in the same run",
}
"""Every command with a one-line description, in the order a newcomer needs them."""

_MANY_HOMES = ("fleet", "tune")  # their modules are in a folder of their own

_DESCRIPTION = """\
Where will they walk next? A wearable 2D LiDAR goes in; out come the places its wearer is likely to walk to
next, with calibrated probabilities, on the map of their home.
"""

_EPILOG = """\
first steps:
  svfm demo                                        watch it work
  svfm simulate --walks 200 --walks-csv walks.csv  make walks to try the other commands with
  svfm COMMAND --help                              what a command takes and prints

exit codes: 0 success, 1 a target was missed or an export is incomplete, 2 the input could not be used,
3 a fault of svfm itself, 130 interrupted
"""

_UNITS = ("_s", "_m", "_ns", "_hz", "_mps", "_radps")  # ends of names of fields
_AGAIN_S = 0.05
_MOST_LOGS = 20
_LONGEST_SENTENCE = 600
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO, errno.EACCES, errno.EPERM, errno.ENOTDIR}
_DISK |= {errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.EEXIST}


class _Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {_shortened(printable(message))}; {self.prog} --help says more\n")


class _LogFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"svfm: {printable(record.getMessage())}"


def _top_parser() -> argparse.ArgumentParser:
    parser = _Parser(
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


def command_module(name: str) -> Any:
    """The module of a command."""
    folder = "many_homes." if name in _MANY_HOMES else ""
    return importlib.import_module(f"svfm_ros.cli.{folder}{name}")


def _run_command(name: str, argv: Sequence[str]) -> int:
    module = command_module(name)
    parser = _Parser(
        prog=f"svfm {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    try:
        code = int(module.run(parser.parse_args(argv)))
    except ConfigError as error:
        raise UsageError(_by_option(error, parser, getattr(module, "OPTION_NAMES", {}))) from error
    sys.stdout.flush()
    return code


def _by_option(error: ConfigError, parser: argparse.ArgumentParser, names: dict[str, str]) -> str:
    """The message with the option of the command line instead of the field of a config."""
    plain = next((error.option.removesuffix(unit) for unit in _UNITS if error.option.endswith(unit)), error.option)
    known = {action.dest: action.option_strings[-1] for action in parser._actions if action.option_strings}
    option = names.get(f"{error.owner}.{error.option}") or known.get(plain)
    return f"{option}: {error.message}" if option else str(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if sys.stdout is None or sys.stderr is None:
        return _without_output()
    try:
        _prepare()
        args = _top_parser().parse_args(argv)
    except KeyboardInterrupt:
        print("svfm: interrupted", file=sys.stderr)
        return INTERRUPTED
    if args.command is None:
        _top_parser().print_help()
        return USAGE
    with _ctrl_c_comes_again():
        return _run_safely(args.command, args.rest)


def _prepare() -> None:
    os.umask(0o077)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show is no reason to stop
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_LogFormatter())


@contextlib.contextmanager
def _ctrl_c_comes_again() -> Iterator[None]:
    """Raise KeyboardInterrupt again where Python could only print it: in callbacks of compiled code such as Numba's."""
    before = sys.unraisablehook

    def note(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
        else:
            before(unraisable)

    sys.unraisablehook = note
    try:
        yield
    finally:
        sys.unraisablehook = before


def _without_output() -> int:
    """Refuse to run with a closed standard output or error: the next file to be opened would take its place."""
    if sys.stderr is not None:
        print("svfm: expected a standard output to write to, but it is closed", file=sys.stderr)
    return USAGE


def _run_safely(command: str, argv: Sequence[str]) -> int:
    try:
        return _run_command(command, argv)
    except SvfmError as error:
        return _say(command, str(error), USAGE)
    except KeyboardInterrupt:
        return _say(command, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        drop_output()
        return 0
    except MemoryError:
        return _say(command, "the memory of this machine is not enough for this input", USAGE)
    except OSError as error:
        if error.errno not in _DISK:
            return _say(command, _fault(error), FAULT)
        if error.filename is None:  # of what is written, only standard output has no name
            drop_output()
        about = "the standard output" if error.filename is None else str(error.filename)
        return _say(command, f"cannot use {about}: {error.strerror}", USAGE)
    except Exception as error:
        return _say(command, _fault(error), FAULT)


def _say(command: str, sentence: str, code: int) -> int:
    print(f"svfm {command}: {_shortened(printable(' '.join(sentence.split())))}", file=sys.stderr)
    return code


def _shortened(sentence: str) -> str:
    """The sentence without its middle where it is long: names from files may be."""
    half = _LONGEST_SENTENCE // 2
    return sentence if len(sentence) <= _LONGEST_SENTENCE else f"{sentence[:half]} ... {sentence[-half:]}"


def drop_output() -> None:
    """Let what is still buffered for standard output go nowhere, so that the end of the program is quiet."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # standard output is no file, as in tests
        return


def _fault(error: BaseException) -> str:
    """A sentence about a fault of this package, and the log file that holds its traceback."""
    said = f"a fault of svfm itself: {type(error).__name__}"
    try:
        return f"{said}; please report it with the file {_write_log(error)}"
    except (OSError, SvfmError) as no_log:
        return f"{said} (no log was written: {no_log})"


def _write_log(error: BaseException) -> Path:
    """Write the traceback, without the arguments of the command, and remove the oldest logs."""
    from svfm_ros.atomic_files import write_whole
    from svfm_ros.pipeline.live.state_folder import default_store, make_private_folder

    folder = default_store("log")
    make_private_folder(folder)
    path = folder / f"svfm-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    about: list[Any] = [f"svfm_ros {version()}, Python {sys.version}\n", *traceback.format_exception(error)]
    write_whole(path, "".join(about).encode(errors="backslashreplace"))
    for old in sorted(folder.glob("svfm-*.log"))[:-_MOST_LOGS]:
        old.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    sys.exit(main())
