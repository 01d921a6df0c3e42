"""Independent trainings side by side, one process per core."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from svfm_ros.experiments.experiment_result import Tick

__all__ = ["run_all"]

A = TypeVar("A")
R = TypeVar("R")


def _quiet_worker() -> None:
    """One thread per process (they share the cores), and Ctrl-C is left to the process that started them."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Numbered(Generic[A, R]):
    """A function that carries the number of its argument along; results come back in any order."""

    def __init__(self, function: Callable[[A], R]) -> None:
        self._function = function

    def __call__(self, numbered: tuple[int, A]) -> tuple[int, R]:
        return numbered[0], self._function(numbered[1])


def run_all(function: Callable[[A], R], arguments: Sequence[A], tick: Tick, doing: str) -> list[R]:
    """``function`` of every argument, in the arguments' order; both must be picklable."""
    workers = min(len(arguments), os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads half alive
    results: dict[int, R] = {}
    with context.Pool(workers, _quiet_worker) as pool:  # leaving it, by Ctrl-C too, ends the workers
        for number, result in pool.imap_unordered(_Numbered(function), list(enumerate(arguments))):
            results[number] = result
            tick(f"{doing} {len(results)} of {len(arguments)}")
    return [results[i] for i in range(len(arguments))]
