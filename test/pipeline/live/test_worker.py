"""The inbox is bounded, what it drops is counted, and it ends when told."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svfm_ros.pipeline.live.worker import Worker

PATIENCE_S = 400.0


def failing(error):
    raise AssertionError("no error was expected") from error


class Gate:
    """A handler that waits to be let through."""

    def __init__(self):
        self.done = []
        self.began = threading.Event()
        self.open = threading.Event()

    def __call__(self, item):
        self.began.set()
        assert self.open.wait(PATIENCE_S)
        self.done.append(item)


@given(st.lists(st.integers(), max_size=30))
@settings(deadline=None, max_examples=30)
def test_items_are_worked_on_in_order(items):
    done = []
    worker = Worker("w", done.append, capacity=100, on_error=failing)
    for item in items:
        assert worker.put(item)
    assert worker.wait_idle(PATIENCE_S)
    assert worker.stop()
    assert done == items
    assert (worker.counts().done, worker.counts().dropped) == (len(items), 0)


@given(st.integers(1, 5), st.integers(0, 12))
@settings(deadline=None, max_examples=30)
def test_oldest_give_way_and_are_counted(capacity, extra):
    gate, lost = Gate(), []
    worker = Worker("w", gate, capacity=capacity, on_error=failing, on_drop=lambda item, n: lost.append((item, n)))
    worker.put(-1)
    assert gate.began.wait(PATIENCE_S)  # it is being worked on, so the inbox is empty
    for item in range(capacity + extra):
        worker.put(item)
    assert worker.counts().waiting == capacity + 1
    gate.open.set()
    assert worker.wait_idle(PATIENCE_S)
    worker.stop()
    assert gate.done == [-1, *range(extra, capacity + extra)]
    assert lost == [(i, i + 1) for i in range(extra)]
    counts = worker.counts()
    assert counts.done + counts.dropped == capacity + extra + 1


def test_an_error_is_reported_and_the_next_item_taken():
    errors, done = [], []

    def handle(item):
        if item == "bad":
            raise ValueError(item)
        done.append(item)

    worker = Worker("w", handle, capacity=10, on_error=errors.append)
    for item in ("a", "bad", "b"):
        worker.put(item)
    assert worker.wait_idle(PATIENCE_S)
    worker.stop()
    assert done == ["a", "b"]
    assert [str(e) for e in errors] == ["bad"]
    assert worker.counts().done == 2


@pytest.mark.parametrize("finish", [True, False])
def test_stop_ends_after_the_current_item_or_after_all(finish):
    gate = Gate()
    worker = Worker("w", gate, capacity=10, on_error=failing)
    for item in range(3):
        worker.put(item)
    assert gate.began.wait(PATIENCE_S)
    assert not worker.stop(timeout_s=0.01, finish=finish)  # the handler has not come back
    assert not worker.put(99)
    gate.open.set()
    assert worker.stop(PATIENCE_S, finish=finish)
    assert gate.done == ([0, 1, 2] if finish else [0])
    assert worker.counts().dropped == (0 if finish else 2)


def test_a_handler_may_stop_its_own_worker():
    ended = threading.Event()

    def handle(item):
        worker.stop()
        ended.set()

    worker = Worker("w", handle, capacity=1, on_error=failing)
    worker.put(1)
    assert ended.wait(PATIENCE_S)
    assert worker.stop(PATIENCE_S)


def test_an_inbox_without_room_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Worker("w", print, capacity=0, on_error=failing)
