"""Run the benchmarks: this package and other methods, on the same data in the same run.

Each script of benchmarks/ prints one table; this command runs them one after the other and can write all their figures
to one page with machine, date and commit. Benchmarks on real recordings need --data, the folder that holds `lidar/`
and `walks/`; without it they are left out. Results of benchmarks that were not run stay on the page.

for example:
  svfm bench --list                            what there is
  svfm bench solvers forecast_homes
  svfm bench slam --data DIR --page results.md
"""

import argparse
import ast
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from svfm_ros.atomic_files import check_output, write_whole
from svfm_ros.errors import UsageError
from svfm_ros.installed_files import share_file

__all__ = ["Section", "add_arguments", "run", "updated"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One script; ``data`` names the sub-folder of real recordings it needs, empty for none."""

    path: Path
    data: str
    summary: str

    @property
    def name(self) -> str:
        """As typed on the command line."""
        return self.path.stem


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a benchmark printed."""

    benchmark: Benchmark
    figures: dict[str, Any]
    problem: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm bench``."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all when none is named")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of real recordings (lidar/, walks/)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the figures to this Markdown page")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the chosen benchmarks; 1 when a target is missed."""
    benchmarks = _chosen(_benchmarks(), args.names)
    if args.list:
        for b in benchmarks:
            print(f"{b.name:16}{b.summary}{' (needs --data)' if b.data else ''}")
        return 0
    if args.page:
        check_output(args.page)
    outcomes = [_run_one(b, args.data, quiet=args.json) for b in benchmarks]
    if args.page:
        sections = [Section(o.benchmark.name, o.benchmark.summary, o.figures) for o in outcomes if not o.problem]
        page = updated(args.page.read_text() if args.page.exists() else "", sections)
        write_whole(args.page, page.encode())
    if args.json:
        json.dump({"checks": _all_checks(outcomes), **{o.benchmark.name: o.figures for o in outcomes}}, sys.stdout)
    return 0 if all(c["ok"] for c in _all_checks(outcomes)) and not any(o.problem for o in outcomes) else 1


def _benchmarks() -> list[Benchmark]:
    folder = share_file("benchmarks")
    return [_read(path) for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]


def _read(path: Path) -> Benchmark:
    """A script's summary line and its ``NEEDS_DATA``, without running it."""
    tree = ast.parse(path.read_text())
    summary = (ast.get_docstring(tree) or path.stem).splitlines()[0]
    data = ""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "NEEDS_DATA":
            data = str(ast.literal_eval(node.value))
    return Benchmark(path, data, summary)


def _chosen(benchmarks: list[Benchmark], names: list[str]) -> list[Benchmark]:
    known = {b.name: b for b in benchmarks}
    unknown = [n for n in names if n not in known]
    if unknown:
        raise UsageError(f"expected some of {', '.join(known)}, got {unknown[0]}")
    return [known[n] for n in names] if names else benchmarks


def _run_one(benchmark: Benchmark, data: Path | None, quiet: bool) -> Outcome:
    if benchmark.data and data is None:
        return Outcome(benchmark, {}, f"left out: needs --data with {benchmark.data}/")
    folder = [str(data / benchmark.data)] if benchmark.data and data else []
    print(f"{benchmark.name} ...", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, str(benchmark.path), "--json", *folder], stdout=subprocess.PIPE, text=True, check=False
    )
    try:
        figures = json.loads(done.stdout)
    except json.JSONDecodeError:
        problem = f"ended with exit code {done.returncode} and no figures"
        print(f"{benchmark.name} {problem}", file=sys.stderr)
        return Outcome(benchmark, {}, problem)
    if not quiet:
        _print_checks(benchmark, figures)
    return Outcome(benchmark, figures)


def _print_checks(benchmark: Benchmark, figures: dict[str, Any]) -> None:
    from svfm_ros.cli.output import print_table, shown

    checks = figures.get("checks", [])
    rows = [(c["name"], shown(c["value"], c.get("error")), c["target"], "yes" if c["ok"] else "NO") for c in checks]
    print_table(benchmark.summary, ("figure", "value", "target", "met"), rows)


def _all_checks(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    return [c for o in outcomes for c in o.figures.get("checks", [])]


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
