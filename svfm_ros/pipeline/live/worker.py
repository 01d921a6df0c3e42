"""A bounded queue with one thread that handles its items, so that callbacks never compute.

When the queue is full the oldest item is dropped: a queue of one keeps just the latest, a longer one bridges a short
delay. Dropped items are counted and passed to ``on_drop``.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Worker", "WorkerCounts", "any_unfinished"]

T = TypeVar("T")

_stopped: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()  # threads that were told to end


def any_unfinished() -> bool:
    """Whether a worker that was told to end is still handling an item, such as the compilation of a function."""
    return any(thread.is_alive() for thread in _stopped)


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """Counts since the worker started."""

    done: int
    dropped: int
    waiting: int  # in the queue or being handled


class Worker(Generic[T]):
    """Runs ``handle`` on each item in a thread of its own, in the order of arrival.

    Errors of the handler go to ``on_error``, and the next item is handled: one bad scan must not end a node.
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
            raise ValueError(f"expected a capacity of at least one item, got {capacity}")
        self._handle = handle
        self._on_error = on_error
        self._on_drop = on_drop
        self._capacity = capacity
        self._queue: deque[T] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._working = False
        self._done = self._dropped = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> bool:
        """Queue an item and return at once; False after ``stop``."""
        dropped: T | None = None
        with self._changed:
            if self._stopping:
                return False
            full = len(self._queue) >= self._capacity
            if full:
                dropped = self._queue.popleft()
                self._dropped += 1
            self._queue.append(item)
            count = self._dropped
            self._changed.notify_all()
        if full and self._on_drop is not None:
            self._on_drop(dropped, count)  # type: ignore[arg-type]
        return True

    def counts(self) -> WorkerCounts:
        """All counts at one time."""
        with self._changed:
            waiting = len(self._queue) + self._working
            return WorkerCounts(self._done, self._dropped, waiting)

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until the queue is empty and no item is being handled."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._working, timeout_s)

    def stop(self, timeout_s: float = 5.0, finish: bool = False) -> bool:
        """End the thread after the current item, or with ``finish`` after all waiting items.

        Returns False when the handler did not return in time; the thread is a daemon and does not block the exit.
        """
        with self._changed:
            self._stopping = True
            if not finish:
                self._dropped += len(self._queue)
                self._queue.clear()
            self._changed.notify_all()
        _stopped.add(self._thread)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._working = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._queue) or self._stopping)
                if not self._queue:
                    return
                item = self._queue.popleft()
                self._working = True
            self._work(item)

    def _work(self, item: T) -> None:
        try:
            self._handle(item)
        except Exception as error:
            self._on_error(error)
            return
        with self._changed:
            self._done += 1
