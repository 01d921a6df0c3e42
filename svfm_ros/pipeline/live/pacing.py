"""When recorded messages are due by the monotonic clock, how far a replay was, and limits for the rate of work.

Every due time is computed from one reference point, so small delays do not add up. Changing the rate, pausing and
resuming move the reference point to the present.
"""

import contextlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from svfm_ros.atomic_files import read_regular
from svfm_ros.clock import NS_PER_S

__all__ = ["CallLimit", "KeptPosition", "Pacer", "RateLimit"]

_MOST_BYTES = 10_000  # of the file with the position of a replay


class Pacer:
    """Maps recorded time to the present. ``now`` is a monotonic clock in seconds."""

    def __init__(self, start_ns: int, rate: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._changed = threading.Condition()
        self._rate = rate
        self._paused = False
        self._stopped = False
        self._reference_ns, self._reference_s = start_ns, now()

    def restart(self, start_ns: int) -> None:
        """Set the current recorded time."""
        with self._changed:
            self._reference_ns, self._reference_s = start_ns, self._now()
            self._changed.notify_all()

    def set_rate(self, rate: float) -> None:
        """Change the rate from now on."""
        with self._changed:
            self._set_reference()
            self._rate = rate
            self._changed.notify_all()

    def pause(self, paused: bool) -> None:
        """Pause, or resume at the same recorded time."""
        with self._changed:
            self._set_reference()
            self._paused = paused
            self._changed.notify_all()

    def stop(self) -> None:
        """End all waits."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @property
    def stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped

    @property
    def paused(self) -> bool:
        """Whether time stands still."""
        return self._paused

    @property
    def rate(self) -> float:
        """How many times faster than real time."""
        return self._rate

    def recorded_now_ns(self) -> int:
        """The current recorded time."""
        with self._changed:
            return self._recorded_now_ns()

    def lag_s(self, stamp_ns: int) -> float:
        """Seconds of real time since that recorded time was due; negative: until it is due."""
        with self._changed:
            return (self._recorded_now_ns() - stamp_ns) / NS_PER_S / self._rate

    def wait(self, stamp_ns: int, at_most_s: float) -> bool:
        """Wait until that recorded time is due, at most ``at_most_s``; True when it is due."""
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
            return self._reference_ns
        return self._reference_ns + round((self._now() - self._reference_s) * self._rate * NS_PER_S)

    def _set_reference(self) -> None:
        self._reference_ns, self._reference_s = self._recorded_now_ns(), self._now()


class KeptPosition:
    """The stamp of the last message of a replay in a small file, for a player that is started again after a kill.

    The file is replaced in one step at most every ``_KEEP_S``. It names its bag, and an old one counts as none.
    """

    _KEEP_S = 0.1
    _RECENT_S = 60.0

    def __init__(self, path: Path, bag: Path) -> None:
        self._path, self._bag = path, str(Path(bag).absolute())
        self._next_s = 0.0

    def read(self) -> int | None:
        """The position in nanoseconds; None where there is no recent one of this bag."""
        try:
            if time.time() - self._path.stat().st_mtime > self._RECENT_S:
                return None
            kept = json.loads(read_regular(self._path, _MOST_BYTES))
            return int(kept["stamp_ns"]) if kept["bag"] == self._bag else None
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def write(self, stamp_ns: int) -> None:
        """Keep a position; a folder that cannot be written to costs only the position."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._KEEP_S
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        with contextlib.suppress(OSError):
            part.touch(mode=0o600)
            part.write_text(json.dumps({"bag": self._bag, "stamp_ns": stamp_ns}))
            part.replace(self._path)

    def forget(self) -> None:
        """Remove the file: the replay has ended."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class RateLimit:
    """Limits how often work is done; work that was late does not delay the next."""

    def __init__(self) -> None:
        self._due_s, self._period_s = 0.0, 0.0

    def wait_s(self, rate_hz: float, now_s: float) -> float:
        """Seconds to wait before the next work."""
        self._period_s = 1.0 / rate_hz
        return min(max(self._due_s - now_s, 0.0), self._period_s)

    def spend(self, now_s: float) -> None:
        """Work begins now."""
        self._due_s = max(self._due_s, now_s - self._period_s) + self._period_s


class CallLimit:
    """Admits at most ``most`` calls in any second."""

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._times: deque[float] = deque(maxlen=most)

    def admit(self) -> bool:
        """Whether a call that arrives now is within the limit."""
        now_s = self._now()
        if len(self._times) == self._times.maxlen and now_s - self._times[0] < 1.0:
            return False
        self._times.append(now_s)
        return True
