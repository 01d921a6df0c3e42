"""Homes as Ray tasks: a local Ray or a cluster, a task for each home, its result or the reason why there is none.

Ray schedules, retries tasks of killed workers, and reserves cores, GPUs and memory. Here only a bounded number of tasks
is handed to it at a time, so that memory does not grow with the number of homes.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from svfm_ros.config.fleet_config import FleetConfig
from svfm_ros.errors import SvfmError, UsageError
from svfm_ros.fleet.homes import Home

__all__ = ["HomeOutcome", "each_home", "ray_session"]

T = TypeVar("T")

_LEAST_PENDING, _PENDING_PER_CORE = 64, 4  # tasks that Ray holds at a time
_STORE_BYTES = 128 * 2**20  # of a local Ray's object store: priors and figures, no walks


@dataclass(frozen=True, slots=True)
class HomeOutcome(Generic[T]):
    """What a home's task returned, or why it did not."""

    home: Home
    result: T | None
    reason: str = ""


@contextmanager
def ray_session(address: str | None = None, workers: int | None = None, dashboard: bool = False) -> Iterator[None]:
    """Ray on this machine, with one worker per core or as many as told, or the cluster at an address."""
    # Ray would otherwise report to its makers that and how it is used.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError("this needs Ray: pip install 'svfm_ros[fleet]'") from error
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address is None:
            own = {"num_cpus": workers, "include_dashboard": dashboard, "object_store_memory": _STORE_BYTES}
            ray.init(address="local", **own, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise UsageError(f"cannot start or reach Ray at {address or 'this machine'}: {error}") from error
    _close_token()
    try:
        yield
    finally:
        ray.shutdown()


def _close_token() -> None:
    """Ray writes its token readable for everyone; whoever has it can run programs as this user."""
    token = Path.home() / ".ray" / "auth_token"
    with suppress(OSError):
        token.chmod(0o600)


def each_home(
    what: str, function: Callable[..., T], homes: Iterable[Home], config: FleetConfig, *shared: Any
) -> Iterator[HomeOutcome[T]]:
    """Outcomes of ``function(home, *shared)`` as they come; ``shared`` is put into Ray's object store once."""
    import ray

    task = ray.remote(function)
    limits = {"num_cpus": config.cpus, "num_gpus": config.gpus, "memory": config.memory_gb * 1e9 or None}
    stored = [ray.put(one) for one in shared]
    todo = iter(homes)
    pending: dict[Any, Home] = {}
    while True:
        most = max(_LEAST_PENDING, int(_PENDING_PER_CORE * ray.cluster_resources().get("CPU", 1)))
        while len(pending) < most and (home := next(todo, None)) is not None:
            named = task.options(name=f"{what} {home.name}", max_retries=config.retries, **limits)
            pending[named.remote(home, *stored)] = home
        if not pending:
            return
        ready, _ = ray.wait(list(pending), num_returns=1)
        home = pending.pop(ready[0])
        try:
            outcome = HomeOutcome(home, ray.get(ready[0]))
        except ray.exceptions.RayError as error:
            outcome = HomeOutcome(home, None, _reason(error, config))
        yield outcome


def _reason(error: Any, config: FleetConfig) -> str:
    """One sentence about a task that failed."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError):
        cause = error.cause
        return str(cause) if isinstance(cause, SvfmError) else f"{type(cause).__name__}: {cause}"
    if isinstance(error, exceptions.OutOfMemoryError):
        return f"out of memory: Ray ended its worker each of {config.retries + 1} times"
    if isinstance(error, exceptions.WorkerCrashedError):
        return f"its worker was killed each of {config.retries + 1} times, perhaps for want of memory"
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"
