"""Checks scans before use, and keeps a steady clock from their stamps.

Scans that cannot be used are counted, with a reason. Scans are taken in the order they arrive, whatever their stamps: a
stamp that repeats or goes back does not stop SLAM, the time since the last scan is then the usual one.
"""

import math
from collections import Counter, deque

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.types import Scan

__all__ = ["ScanGate"]

_LONG_GAP_S = 2.0
_LONGEST_SWEEP_S = 10.0
_BREAK_S = 10.0  # the sensor may be elsewhere after a longer pause or step of the clock
_BACK_S = 1.0  # and after a step back: perhaps a recording began again
_DEFAULT_PERIOD_S = 0.1
_PERIODS = 15  # intervals that the usual one is the median of
_FAULTY_SCANS = 20  # after a stamp that went back, so many further ones are suspect
_SUSPECT_PERIODS = 10.0  # a suspect interval longer than this many usual ones is ignored


class ScanGate:
    """Remembers stamps and shapes; ``counters`` is shared with the rest of SLAM."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._last_ns: int | None = None
        self._last_ranges: NDArray[np.float32] | None = None
        self._periods_s: deque[float] = deque(maxlen=_PERIODS)
        self._suspect = 0
        self._beams = 0
        self.elapsed_ns = 0
        """Time of the last scan that passed, on a clock that never goes back."""
        self.stepped = False
        """Whether there was a long pause or step of the clock before the last scan: the sensor may be elsewhere."""

    def fault(self, scan: Scan) -> str:
        """Why the scan cannot be used; empty when it can."""
        name, reason = self._find_fault(scan)
        if name:
            self._counters[name] += 1
        return reason

    def passed(self, scan: Scan) -> str:
        """Record a scan that is used and advance the clock; returns what is unusual about it, if anything."""
        gap_ns, clock_note = self._interval(scan.stamp_ns)
        self.elapsed_ns += gap_ns
        before, self._beams, self._last_ns = self._beams, len(scan.ranges), scan.stamp_ns
        self._last_ranges = scan.ranges
        if before not in (0, self._beams):
            self._counters["beam_count_changed"] += 1
            return f"beam count changed from {before} to {self._beams}"
        if gap_ns > _LONG_GAP_S * NS_PER_S:
            self._counters["gaps"] += 1
        return clock_note

    def _interval(self, stamp_ns: int) -> tuple[int, str]:
        """Nanoseconds since the last scan, never below zero, and a note where the stamps cannot be used."""
        self.stepped = False
        if self._last_ns is None:
            return 0, ""
        measured_s = (stamp_ns - self._last_ns) / NS_PER_S
        usual_s = float(np.median(self._periods_s)) if self._periods_s else _DEFAULT_PERIOD_S
        self._suspect = max(0, self._suspect - 1)
        self.stepped = measured_s < -_BACK_S or measured_s > max(_BREAK_S, _SUSPECT_PERIODS * usual_s)
        if measured_s > 0.0 and not (self._suspect and measured_s > _SUSPECT_PERIODS * usual_s):
            self._periods_s.append(measured_s)
            return stamp_ns - self._last_ns, ""
        if measured_s == 0.0:
            self._counters["stamps_repeated"] += 1
            return round(usual_s * NS_PER_S), "the stamp did not advance: scans are taken in their order"
        self._counters["clock_steps"] += 1
        self._suspect = _FAULTY_SCANS
        return round(usual_s * NS_PER_S), f"the clock stepped by {measured_s:.3f} s: scans are taken in their order"

    def _find_fault(self, scan: Scan) -> tuple[str, str]:
        ranges = np.asarray(scan.ranges)
        if ranges.ndim != 1 or ranges.size == 0 or ranges.dtype.kind not in "fiu":
            return "empty", f"expected a row of ranges, got an array of shape {ranges.shape} and type {ranges.dtype}"
        if not (math.isfinite(scan.angle_min) and math.isfinite(scan.angle_step)) or scan.angle_step == 0.0:
            return "malformed", f"expected angles, got {scan.angle_min} and steps of {scan.angle_step}"
        if not abs(scan.time_increment_s) * ranges.size <= _LONGEST_SWEEP_S:  # NaN fails as well
            return "malformed", f"expected a sweep of seconds at most, got beams {scan.time_increment_s} s apart"
        if math.isnan(scan.range_min) or math.isnan(scan.range_max):
            return "malformed", f"expected a least and a greatest range, got {scan.range_min} and {scan.range_max}"
        before = self._last_ranges
        if scan.stamp_ns == self._last_ns and before is not None and np.array_equal(ranges, before, equal_nan=True):
            return "doubles", "the same scan with the same stamp was taken before"
        return "", ""
