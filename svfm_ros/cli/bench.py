"""Run the benchmarks: us and the peers, same data, same run.

Each script of benchmarks/ prints one table; this command runs them one after the other and can write all their figures
to one page with machine, date and commit. Benchmarks on real recordings need --data, the folder that holds `lidar/`
and `walks/`; without it they are left out. What was not run keeps its place on the page.
"""

import argparse
import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svfm_ros.cli.results_page import Section, updated
from svfm_ros.errors import UsageError
from svfm_ros.installed_files import share_file

__all__ = ["add_arguments", "run"]


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
    """Run what was asked for; 1 when a target is missed."""
    benchmarks = _chosen(_benchmarks(), args.names)
    if args.list:
        for b in benchmarks:
            print(f"{b.name:16}{b.summary}{' (needs --data)' if b.data else ''}")
        return 0
    outcomes = [_run_one(b, args.data, quiet=args.json) for b in benchmarks]
    if args.page:
        sections = [Section(o.benchmark.name, o.benchmark.summary, o.figures) for o in outcomes if not o.problem]
        args.page.write_text(updated(args.page.read_text() if args.page.exists() else "", sections))
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
