"""Holds back messages whose stamps leave the stream they arrive in, until the stream itself has moved there.

One scan with a wrong stamp (zero, or forged) must not make SLAM start over. A recording that begins again, or a clock
that was set, moves all later stamps: then the old stream is silent, and nothing that was held back is lost.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from svfm_ros.clock import NS_PER_S

__all__ = ["StampGate"]

T = TypeVar("T")

_BACK_NS = 1 * NS_PER_S
_AHEAD_NS = 60 * NS_PER_S
_QUIET_S = 0.5  # silence of the old stream after which another one is believed
_AT_LEAST = 5  # messages of that other stream
_MOST = 1000  # messages that are held back


class StampGate(Generic[T]):
    """``stamp_ns`` reads the stamp of an item."""

    def __init__(self, stamp_ns: Callable[[T], int]) -> None:
        self._stamp_ns = stamp_ns
        self._last_ns: int | None = None
        self._last_s = 0.0  # arrival of the last item that was let through
        self._held: list[T] = []
        self.refused = 0  # items with stamps that no later one agreed with

    @property
    def holds(self) -> int:
        """Items that are held back now."""
        return len(self._held)

    def admit(self, item: T, arrival_s: float) -> list[T]:
        """The items to handle now, in the order of their arrival; ``arrival_s`` is monotonic."""
        stamp_ns = self._stamp_ns(item)
        if self._last_ns is None or _continues(self._last_ns, stamp_ns):
            self._refuse()
            return self._let_through([item], arrival_s)
        if self._held and not _continues(self._stamp_ns(self._held[-1]), stamp_ns):
            self._refuse()
        self._held = [*self._held[-_MOST:], item]
        return self.release(arrival_s)

    def release(self, now_s: float) -> list[T]:
        """The items held back, if the stream has moved to them: the old one is silent, and they are enough."""
        if now_s - self._last_s < _QUIET_S or len(self._held) < _AT_LEAST:
            return []
        held, self._held = self._held, []
        return self._let_through(held, now_s)

    def _let_through(self, items: list[T], arrival_s: float) -> list[T]:
        self._last_ns, self._last_s = self._stamp_ns(items[-1]), arrival_s
        return items

    def _refuse(self) -> None:
        self.refused += len(self._held)
        self._held = []


def _continues(before_ns: int, stamp_ns: int) -> bool:
    return -_BACK_NS <= stamp_ns - before_ns <= _AHEAD_NS
