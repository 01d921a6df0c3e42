"""When a recorded message is due, by the monotonic clock.

Every due time is reckoned from one anchor, so small delays never add up. Changing the rate, pausing and going on move
the anchor to the present.
"""

import threading
import time
from collections.abc import Callable

from svfm_ros.clock import NS_PER_S

__all__ = ["Budget", "Pacer"]


class Pacer:
    """Maps recorded time to now. ``now`` gives seconds that only ever grow."""

    def __init__(self, start_ns: int, rate: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._changed = threading.Condition()
        self._rate = rate
        self._paused = False
        self._stopped = False
        self._anchor_ns, self._anchor_s = start_ns, now()

    def restart(self, start_ns: int) -> None:
        """Be at that recorded time now."""
        with self._changed:
            self._anchor_ns, self._anchor_s = start_ns, self._now()
            self._changed.notify_all()

    def set_rate(self, rate: float) -> None:
        """Go on from here, faster or slower."""
        with self._changed:
            self._move_anchor()
            self._rate = rate
            self._changed.notify_all()

    def pause(self, paused: bool) -> None:
        """Stand still, or go on from where it stood."""
        with self._changed:
            self._move_anchor()
            self._paused = paused
            self._changed.notify_all()

    def stop(self) -> None:
        """Release whoever waits."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @property
    def stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped

    def recorded_now_ns(self) -> int:
        """The recorded time that is now."""
        with self._changed:
            return self._recorded_now_ns()

    def lag_s(self, stamp_ns: int) -> float:
        """How long ago that recorded time was due, in seconds of the clock on the wall; below zero: still to come."""
        with self._changed:
            return (self._recorded_now_ns() - stamp_ns) / NS_PER_S / self._rate

    def wait(self, stamp_ns: int, at_most_s: float) -> bool:
        """Wait until that recorded time is due, but not longer than told; True when it is due."""
        with self._changed:
            end_s = self._now() + at_most_s
            while not self._stopped:
                due_s = (stamp_ns - self._recorded_now_ns()) / NS_PER_S / self._rate
                left_s = end_s - self._now()
                if due_s <= 0.0 and not self._paused:
                    return True
                if left_s <= 0.0:
                    return False
                self._changed.wait(left_s if self._paused else min(due_s, left_s))
        return False

    def _recorded_now_ns(self) -> int:
        if self._paused:
            return self._anchor_ns
        return self._anchor_ns + round((self._now() - self._anchor_s) * self._rate * NS_PER_S)

    def _move_anchor(self) -> None:
        self._anchor_ns, self._anchor_s = self._recorded_now_ns(), self._now()


class Budget:
    """Holds work to so many times a second; who comes a little early because the last one was late need not wait."""

    def __init__(self) -> None:
        self._due_s, self._period_s = 0.0, 0.0

    def wait_s(self, rate_hz: float, now_s: float) -> float:
        """How long to wait before the next piece of work."""
        self._period_s = 1.0 / rate_hz
        return min(max(self._due_s - now_s, 0.0), self._period_s)

    def spend(self, now_s: float) -> None:
        """A piece of work begins."""
        self._due_s = max(self._due_s, now_s - self._period_s) + self._period_s
