"""A bounded inbox and one thread behind it, so that callbacks never compute.

A callback hands its message over with ``put`` and returns. When messages come faster than the handler takes them, the
oldest waiting ones give way: an inbox of one keeps just the latest, a longer one bridges a hiccup. Nothing is dropped
in silence: what gave way is counted, and ``on_drop`` is told.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Worker", "WorkerCounts"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """What a worker has done since it started."""

    accepted: int
    done: int
    dropped: int
    failed: int
    waiting: int
    busy_s: float  # time spent in the handler
    slowest_s: float


class Worker(Generic[T]):
    """Runs ``handle`` on each item in a thread of its own, in the order they came.

    An error in the handler goes to ``on_error`` and the next item is taken: one bad scan must not end a node.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[T], None],
        *,
        capacity: int,
        on_error: Callable[[Exception], None],
        on_drop: Callable[[T, int], None] | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"expected room for at least one item, got {capacity}")
        self._handle = handle
        self._on_error = on_error
        self._on_drop = on_drop
        self._capacity = capacity
        self._inbox: deque[T] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._working = False
        self._accepted = self._done = self._dropped = self._failed = 0
        self._busy_s = self._slowest_s = 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> bool:
        """Hand over an item; returns at once. False when the worker has been stopped."""
        dropped: T | None = None
        with self._changed:
            if self._stopping:
                return False
            full = len(self._inbox) >= self._capacity
            if full:
                dropped = self._inbox.popleft()
                self._dropped += 1
            self._inbox.append(item)
            self._accepted += 1
            count = self._dropped
            self._changed.notify_all()
        if full and self._on_drop is not None:
            self._on_drop(dropped, count)  # type: ignore[arg-type]
        return True

    def counts(self) -> WorkerCounts:
        """A consistent picture of the counters."""
        with self._changed:
            return WorkerCounts(
                self._accepted,
                self._done,
                self._dropped,
                self._failed,
                len(self._inbox) + self._working,
                self._busy_s,
                self._slowest_s,
            )

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is waiting and nothing is being worked on."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._inbox and not self._working, timeout_s)

    def stop(self, timeout_s: float = 5.0, finish: bool = False) -> bool:
        """End the thread after the item it works on, or with ``finish`` after all that wait.

        Returns False when the handler did not come back in time; the thread is a daemon and does not hold up the exit.
        """
        with self._changed:
            self._stopping = True
            if not finish:
                self._dropped += len(self._inbox)
                self._inbox.clear()
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._working = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._inbox) or self._stopping)
                if not self._inbox:
                    return
                item = self._inbox.popleft()
                self._working = True
            self._work(item)

    def _work(self, item: T) -> None:
        began = time.monotonic()
        failed = False
        try:
            self._handle(item)
        except Exception as error:
            failed = True
            self._on_error(error)
        took_s = time.monotonic() - began
        with self._changed:
            self._done += not failed
            self._failed += failed
            self._busy_s += took_s
            self._slowest_s = max(self._slowest_s, took_s)
