"""Redo the experiments of the paper: each prints its table and saves its figure (PNG and SVG).

Without a name, all of them. --quick takes fewer seeds and steps: it shows that everything works; the targets do
not apply to its results.

for example:
  svfm reproduce --list                        what there is, with the figures of the paper
  svfm reproduce behaviour counterfactual
"""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svfm_ros.atomic_files import check_output_folder
from svfm_ros.cli.output import add_json_argument, exit_code, print_json, print_table
from svfm_ros.errors import UsageError
from svfm_ros.progress import progress
from svfm_ros.targets import Check

if TYPE_CHECKING:
    from svfm_ros.experiments.experiment import Experiment, ExperimentResult

__all__ = ["add_arguments", "run"]

_ROOM_BYTES = 16 << 20  # for the figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``svfm reproduce``."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="which experiments; all when none is named")
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and steps")
    parser.add_argument("--out", type=Path, default=Path("out/reproduce"), metavar="DIR", help="where figures go")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the experiments named; 1 when a target of a full run is missed."""
    chosen = _chosen(args.names)
    if args.list:
        for experiment in chosen:
            print(f"{experiment.name:16}{experiment.shows}")
        return 0
    check_output_folder(args.out, _ROOM_BYTES)
    checks: list[Check] = []
    payload: dict[str, Any] = {}
    for experiment in chosen:
        began = time.perf_counter()
        result = _run_one(experiment, args.quick)
        files = _save(result, args.out)
        checks += result.checks
        payload[result.name] = _as_payload(result, time.perf_counter() - began, files)
        if not args.json:
            _print(result, files, args.quick)
    if args.json:
        print_json({"quick": args.quick, **payload}, checks)
    return 0 if args.quick else exit_code(checks)


def _chosen(names: list[str]) -> list["Experiment"]:
    from svfm_ros.experiments.experiment import EXPERIMENTS

    unknown = [n for n in names if n not in EXPERIMENTS]
    if unknown:
        raise UsageError(f"expected some of {', '.join(EXPERIMENTS)}, got {unknown[0]}")
    return [EXPERIMENTS[n] for n in names] if names else list(EXPERIMENTS.values())


def _run_one(experiment: "Experiment", quick: bool) -> "ExperimentResult":
    with progress() as display:
        task = display.add_task(experiment.name, total=None, note="")

        def tick(doing: str) -> None:
            display.update(task, advance=1, note=doing)

        return experiment.load()(quick, tick)


def _save(result: "ExperimentResult", out: Path) -> list[str]:
    from svfm_ros.experiments.experiment import save_figure

    return [str(p) for p in save_figure(result.draw(), out / result.name)]


def _as_payload(result: "ExperimentResult", took_s: float, files: list[str]) -> dict[str, Any]:
    return {
        "title": result.title,
        "columns": result.columns,
        "rows": result.rows,
        "notes": result.notes,
        "took_s": round(took_s, 1),
        "files": files,
    }


def _print(result: "ExperimentResult", files: list[str], quick: bool) -> None:
    print_table(f"{result.name}: {result.title}", result.columns, result.rows)
    for check in result.checks:
        mark = "    " if quick else "ok  " if check.ok else "MISS"
        print(f"  {mark} {check.name}: {check.value:.4g} (target {check.target})")
    for note in result.notes:
        print(f"  note: {note}")
    print(f"  figure: {files[0]}\n")
