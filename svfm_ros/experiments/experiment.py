"""The experiments by name, the result of one (table, checks, figure), and trainings in parallel processes.

An experiment is a function ``run_NAME(quick, tick) -> ExperimentResult`` in its module. ``quick`` means fewer seeds and
steps; the targets of the full run do not apply to its results.
"""

import importlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from svfm_ros.targets import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS", "Experiment", "ExperimentResult", "Tick", "run_all", "save_figure"]

A = TypeVar("A")
R = TypeVar("R")

Tick = Callable[[str], None]
"""Called with a note on the work in progress; moves the progress bar."""


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """Table, checks and figure of one experiment of the paper."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    checks: tuple[Check, ...]
    draw: Callable[[], "Figure"]
    notes: tuple[str, ...] = field(default=())  # printed below the table


def save_figure(figure: "Figure", stem: Path) -> tuple[Path, Path]:
    """Write ``stem.png`` and ``stem.svg``."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    figure.savefig(png, dpi=130)
    figure.savefig(svg)
    return png, svg


def _quiet_worker() -> None:
    """One thread per process (they share the cores), and Ctrl-C is left to the process that started them."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_all(function: Callable[[A], R], arguments: Sequence[A], tick: Tick, doing: str) -> list[R]:
    """``function`` of every argument, in the arguments' order; both must be picklable."""
    workers = min(len(arguments), len(os.sched_getaffinity(0)))
    context = multiprocessing.get_context("spawn")  # a forked child would inherit torch's locks
    results: list[R] = []
    with context.Pool(workers, _quiet_worker) as pool:  # leaving the block ends the workers, also on Ctrl-C
        for result in pool.imap(function, arguments):
            results.append(result)
            tick(f"{doing} {len(results)} of {len(arguments)}")
    return results


@dataclass(frozen=True, slots=True)
class Experiment:
    """Name and module (in this folder) of an experiment, and what it shows."""

    name: str
    module: str
    shows: str

    def load(self) -> Callable[[bool, Tick], ExperimentResult]:
        """The function that runs it; its module is imported only now."""
        module = importlib.import_module(f"svfm_ros.experiments.{self.module}")
        function: Callable[[bool, Tick], ExperimentResult] = getattr(module, f"run_{self.name}")
        return function


_ALL = (
    Experiment(
        "crossing", "failures", "paths that cross: one field fails, augmented fields and mixtures do not (fig. 1)"
    ),
    Experiment("splitting", "failures", "one start, two ends: only mixtures (fig. 1)"),
    Experiment("scaling", "failures", "one path, many speeds: a single deterministic field fails (fig. 1)"),
    Experiment("circles", "classification", "nested circles: VF, VF+TVLoss, SVFM (figs. 7, 12)"),
    Experiment("moons", "classification", "two moons: VF, VF+TVLoss, SVFM (fig. 12)"),
    Experiment("xor", "classification", "exclusive or: VF, VF+TVLoss, SVFM (fig. 12)"),
    Experiment("grid", "grid_search", "the paper's grid of layers, units, batch and rate (appendix B.1)"),
    Experiment("nfe", "nfe", "function evaluations per instance (figs. 9, 13)"),
    Experiment("cyclic", "cyclic", "the time tuple carries a periodic function on (fig. 8)"),
    Experiment("uncertainty", "three_uncertainties", "mixture, length and direction uncertainty (fig. 4)"),
    Experiment("alignment", "solver_cost", "truncation error as fields align (appendix A.2)"),
    Experiment("frozen", "solver_cost", "function evaluations with frozen noise and without (section 3)"),
    Experiment("behaviour", "behaviour", "200 paths from the couch on the floor plan (fig. 10a)"),
    Experiment("counterfactual", "behaviour", "the same, had it been night (fig. 10b)"),
    Experiment("slam", "slam_maps", "the four maps of the appendix: door, kitchen, landing, study"),
)

EXPERIMENTS = {e.name: e for e in _ALL}
