"""Independent trainings side by side, one process per core."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from svfm_ros.experiments.result import Tick

__all__ = ["run_all"]

A = TypeVar("A")
R = TypeVar("R")


def _quiet_worker() -> None:
    """One thread per process (they share the cores), and Ctrl-C is left to the process that started them."""
    import signal

    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_all(function: Callable[[A], R], arguments: Sequence[A], tick: Tick, doing: str) -> list[R]:
    """``function`` of every argument, in the arguments' order; both must be picklable."""
    workers = min(len(arguments), os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads half alive
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_quiet_worker)
    try:
        waiting = {pool.submit(function, argument): i for i, argument in enumerate(arguments)}
        results: dict[int, R] = {}
        for done in as_completed(waiting):
            results[waiting[done]] = done.result()
            tick(f"{doing} {len(results)} of {len(arguments)}")
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [results[i] for i in range(len(arguments))]
