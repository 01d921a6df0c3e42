"""The page of results: one section for each benchmark, with the machine, the date and the commit it was run on.

A run replaces the sections of the benchmarks it ran and leaves the others as they are.
"""

import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["Section", "updated"]

_HEAD = """# Results

`make bench` writes this page: every benchmark with its figures, the targets set for them before the measurement, and
peers from the same run. ± is a standard error. Times on shared machines vary: compare the ratios.
`make bench BENCH_ARGS="--data DIR"` includes the benchmarks on real recordings; `svfm bench solvers --page
docs/results.md` renews one section.
"""
_MOST_ROWS = 40
_ERROR = "_error"  # end of the name of a column of standard errors


@dataclass(frozen=True, slots=True)
class Section:
    """What one benchmark found: its checks, and lists of alike records, which become tables."""

    name: str
    summary: str
    figures: dict[str, Any]

    def text(self, provenance: str) -> str:
        """As Markdown."""
        parts = [f"## {self.name}", self.summary, provenance, _checks(self.figures.get("checks", []))]
        parts += [f"{title}:\n\n{_records(records)}" for title, records in _tables(self.figures)]
        return "\n\n".join(part for part in parts if part) + "\n"


def updated(page: str, sections: list[Section]) -> str:
    """The page with these sections put in; all in alphabetical order."""
    found = re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    texts = {name: f"## {name}\n{body.rstrip()}\n" for name, body in found}
    texts |= {s.name: s.text(_provenance()) for s in sections}
    return "\n".join([_HEAD, *(texts[name] for name in sorted(texts))])


def _provenance() -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    when, at = datetime.now(UTC).strftime("%Y-%m-%d"), commit.stdout.strip() or "unknown"
    return f"*{when}, commit {at}, Python {platform.python_version()}, {_processor()}*"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} cores of {names[0]}" if names else platform.machine()


def _checks(checks: list[dict[str, Any]]) -> str:
    rows = [(c["name"], _figure(c), str(c["target"]), "yes" if c["ok"] else "**no**") for c in checks]
    return _table(("figure", "value", "target", "met"), rows) if rows else ""


def _figure(check: dict[str, Any]) -> str:
    """The value of a check, with its standard error if it has one."""
    error = check.get("error")
    return _cell(check["value"]) if error is None else f"{_cell(check['value'])} ± {error:.2g}"


def _tables(figures: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Lists of records with their titles, at the top or one level down."""
    for key, value in figures.items():
        if key != "checks" and _is_table(value):
            yield key, value
        elif isinstance(value, dict):
            yield from ((f"{key}, {inner}", records) for inner, records in value.items() if _is_table(records))


def _is_table(value: Any) -> bool:
    """Whether it is a list of flat records, and short enough to read."""
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_ROWS:
        return False
    return all(isinstance(r, dict) and not any(isinstance(v, dict | list) for v in r.values()) for r in value)


def _records(records: list[dict[str, Any]]) -> str:
    """A table of alike records; ``x_error`` is shown beside ``x``."""
    names = list(dict.fromkeys(key for record in records for key in record))
    columns = [c for c in names if not (c.endswith(_ERROR) and c.removesuffix(_ERROR) in names)]
    return _table(tuple(columns), [tuple(_with_error(r, c) for c in columns) for r in records])


def _with_error(record: dict[str, Any], column: str) -> str:
    value, error = record.get(column, ""), record.get(column + _ERROR)
    return _cell(value) if error is None else f"{_cell(value)} ± {error:.2g}"


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
