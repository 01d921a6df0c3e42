"""The result of an experiment (table, checks, figure), and trainings in parallel processes."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from svfm_ros.targets import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ExperimentResult", "Tick", "run_all", "save_figure"]

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


class _Numbered(Generic[A, R]):
    """A function that returns the number of its argument with the result, since results arrive in any order."""

    def __init__(self, function: Callable[[A], R]) -> None:
        self._function = function

    def __call__(self, numbered: tuple[int, A]) -> tuple[int, R]:
        return numbered[0], self._function(numbered[1])


def run_all(function: Callable[[A], R], arguments: Sequence[A], tick: Tick, doing: str) -> list[R]:
    """``function`` of every argument, in the arguments' order; both must be picklable."""
    workers = min(len(arguments), os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")  # a forked child would inherit torch's locks
    results: dict[int, R] = {}
    with context.Pool(workers, _quiet_worker) as pool:  # leaving the block ends the workers, also on Ctrl-C
        for number, result in pool.imap_unordered(_Numbered(function), list(enumerate(arguments))):
            results[number] = result
            tick(f"{doing} {len(results)} of {len(arguments)}")
    return [results[i] for i in range(len(arguments))]
