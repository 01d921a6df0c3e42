"""Output of commands: tables, JSON, figures with their targets."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from svfm_ros.atomic_files import check_output
from svfm_ros.errors import UsageError, printable
from svfm_ros.targets import Check

__all__ = ["Check", "add_json_argument", "exit_code", "print_json", "print_refused", "print_table", "report", "shown"]
__all__ += ["check_picture", "open_in_browser", "positive", "say", "seed"]

_LARGEST_SEED = 2**31 - 1
_LONGEST_CELL = 300  # letters; names come from files


def add_json_argument(parser: Any) -> None:
    """Add the option ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")


def seed(text: str) -> int:
    """A seed on the command line."""
    value = int(text)
    if not 0 <= value <= _LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {_LARGEST_SEED}, got {text}")
    return value


def positive(kind: type, most: float = 1e6) -> Any:
    """A reader of numbers above 0 on the command line: ``int`` or ``float``."""

    def read(text: str) -> Any:
        value = kind(text)
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"expected a number above 0 and up to {most:g}, got {text}")
        return value

    read.__name__ = "number"
    return read


def open_in_browser(address: str) -> None:
    """Open a page where there is a screen."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(address)


def check_picture(path: Path | None) -> None:
    """Refuse what follows ``--png`` before the work if no picture can be written there."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise UsageError(f"expected a file that ends in .png after --png, got {path}")
    check_output(path)


def exit_code(checks: Iterable[Check]) -> int:
    """1 if a target is missed, otherwise 0."""
    return 0 if all(c.ok for c in checks) else 1


def print_json(payload: dict[str, Any], checks: Sequence[Check] = ()) -> None:
    """Print one JSON object, the checks first."""
    json.dump({"checks": [asdict(c) for c in checks], **payload}, sys.stdout, indent=2, default=_plain)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    """Numpy scalars and arrays as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; floats are shown with four digits."""
    table = Table(title=_plain_text(title), title_justify="left", header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(_plain_text(column), justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(_plain_text(f"{v:.4g}" if isinstance(v, float) else str(v)) for v in row))
    Console().print(table)


def _plain_text(text: str) -> Text:
    """Text as it stands: no markup such as [bold], no control characters, cut off where it would fill screens."""
    return Text(printable(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]} ..."))


def say(line: str) -> None:
    """Print one line, with control characters as escapes: names come from files."""
    print(printable(line))


def shown(value: float, error: float | None) -> str:
    """A figure to four digits, with its standard error if it has one."""
    return f"{value:.4g}" if error is None else f"{value:.4g} ± {error:.2g}"


def report(title: str, checks: Sequence[Check], payload: dict[str, Any], as_json: bool) -> int:
    """Print the checks as a table or as JSON; returns the exit code."""
    if as_json:
        print_json(payload, checks)
    else:
        rows = [(c.name, shown(c.value, c.error), c.target, "yes" if c.ok else "NO") for c in checks]
        print_table(title, ("figure", "value", "target", "met"), rows)
    return exit_code(checks)


def print_refused(refused: Iterable[Any]) -> None:
    """Print to standard error the name and the reason for each recording or walk that was refused."""
    for one in refused:
        print(printable(f"refused: {one.name}: {one.reason}"), file=sys.stderr)
