"""Recorded time and the clock on the wall, with a clock of the test's own."""

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from svfm_ros.pipeline.live.pacing import CallLimit, Pacer, RateLimit

S = 1_000_000_000


class Wall:
    """A clock that moves when told."""

    def __init__(self):
        self.s = 1000.0

    def __call__(self):
        return self.s


@given(st.floats(0.01, 100), st.lists(st.floats(0.001, 10), max_size=20))
def test_delays_do_not_add_up(rate, delays):
    wall = Wall()
    pacer = Pacer(5 * S, rate, wall)
    for delay in delays:
        wall.s += delay
        pacer.wait(5 * S, 0.0)
    expected = 5 * S + (wall.s - 1000.0) * rate * S
    assert abs(pacer.recorded_now_ns() - expected) <= 1e-6 * S * max(1, rate)


@given(st.lists(st.tuples(st.floats(0.1, 5), st.floats(0.1, 20), st.booleans()), max_size=10))
def test_rate_and_pause_change_the_pace_and_not_the_place(steps):
    wall = Wall()
    pacer = Pacer(0, 1.0, wall)
    place, rate, paused = 0.0, 1.0, False
    for seconds, new_rate, pause in steps:
        wall.s += seconds
        place += 0.0 if paused else seconds * rate
        pacer.set_rate(new_rate)
        pacer.pause(pause)
        rate, paused = new_rate, pause
        assert abs(pacer.recorded_now_ns() / S - place) < 1e-5


def test_due_and_late():
    wall = Wall()
    pacer = Pacer(0, 2.0, wall)
    assert not pacer.wait(1 * S, 0.0)
    wall.s += 0.75
    assert pacer.wait(1 * S, 0.0)
    assert pacer.lag_s(1 * S) == 0.25
    pacer.restart(0)
    assert pacer.lag_s(1 * S) == -0.5


def test_a_wait_lasts_until_the_message_is_due_and_no_longer_than_allowed():
    wall, waits = Wall(), []

    class Sleeper(threading.Condition):
        def wait(self, timeout=None):
            waits.append(timeout)
            wall.s += timeout
            return False

    pacer = Pacer(0, 4.0, wall)
    pacer._changed = Sleeper()
    assert pacer.wait(2 * S, 10.0)
    assert waits == [0.5]  # two recorded seconds at four times the speed
    assert not pacer.wait(100 * S, 1.5)
    assert waits == [0.5, 1.5]


def test_nothing_is_due_while_paused():
    wall = Wall()
    pacer = Pacer(0, 1.0, wall)
    pacer.pause(True)
    wall.s += 100
    assert not pacer.wait(1, 0.0)
    assert not pacer.wait(0, 0.0)
    pacer.pause(False)
    assert pacer.wait(0, 0.0)


def test_stop_and_a_new_rate_wake_whoever_waits():
    for change in (Pacer.stop, lambda p: p.set_rate(1e9)):
        pacer = Pacer(0, 1e-6)
        answers = []
        waiting = threading.Thread(target=lambda p=pacer, a=answers: a.append(p.wait(3600 * S, 3600.0)))
        waiting.start()
        change(pacer)
        waiting.join(30)
        assert answers == [not pacer.stopped]


def test_work_is_limited_to_the_rate_and_a_late_start_is_made_up_for():
    limit, now, begun = RateLimit(), 0.0, []
    for arrival in np.arange(0.0, 5.0, 0.01):
        now = max(now, arrival)
        now += limit.wait_s(10.0, now)
        limit.spend(now)
        begun.append(now)
        if now > 5.0:
            break
    assert 9.0 <= (len(begun) - 2) / now <= 10.5


def test_work_that_was_late_does_not_delay_the_next():
    limit = RateLimit()
    assert limit.wait_s(10.0, 0.0) == 0.0
    limit.spend(0.0)  # the next is due at 0.1
    assert limit.wait_s(10.0, 0.15) == 0.0
    limit.spend(0.15)  # late by 0.05, the next is due at 0.2
    assert abs(limit.wait_s(10.0, 0.15) - 0.05) < 1e-9
    limit.spend(3.0)  # after a long pause no more than one is made up for
    assert abs(limit.wait_s(10.0, 3.0) - 0.0) < 1e-9
    limit.spend(3.0)
    assert abs(limit.wait_s(10.0, 3.0) - 0.1) < 1e-9


def test_calls_beyond_the_limit_are_refused_in_any_second():
    now_s = 0.0
    calls = CallLimit(5, now=lambda: now_s)
    admitted = []
    for k in range(300):  # 100 a second, for 3 s
        now_s = 0.01 * k
        if calls.admit():
            admitted.append(now_s)
    assert len(admitted) == 15
    assert all(later - earlier >= 1.0 - 1e-9 for earlier, later in zip(admitted, admitted[5:], strict=False))
