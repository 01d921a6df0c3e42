"""Output of commands: tables, JSON, figures with their targets."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from svfm_ros.targets import Check

__all__ = ["Check", "add_json_argument", "exit_code", "print_json", "print_refused", "print_table", "report", "shown"]


def add_json_argument(parser: Any) -> None:
    """Add the option ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")


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
    table = Table(title=title, title_justify="left", header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row))
    Console().print(table)


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
        print(f"refused: {one.name}: {one.reason}", file=sys.stderr)
