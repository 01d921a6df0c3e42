"""Checks scans before use; those that cannot be used are counted, with a reason."""

import math
from collections import Counter

import numpy as np

from svfm_ros.clock import NS_PER_S
from svfm_ros.types import Scan

__all__ = ["ScanGate"]

_LONG_GAP_S = 2.0
_LONGEST_SWEEP_S = 10.0
_NEW_CLOCK = 5  # so many scans in a row from the past: the clock was set back for good


class ScanGate:
    """Remembers stamps and shapes; ``counters`` is shared with the rest of SLAM."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._last_ns: int | None = None
        self._beams = 0
        self._from_the_past = 0

    def gap_s(self, scan: Scan) -> float:
        """Seconds since the last scan that passed; 0 for the first one, or after the clock was set back."""
        return 0.0 if self._last_ns is None else max(0.0, (scan.stamp_ns - self._last_ns) / NS_PER_S)

    def fault(self, scan: Scan) -> str:
        """Why the scan cannot be used; empty when it can."""
        name, reason = self._find_fault(scan)
        if name:
            self._counters[name] += 1
        return reason

    def passed(self, scan: Scan) -> str:
        """Take note of a scan that was used; returns what is odd about it, if anything."""
        gap_s = self.gap_s(scan)
        before, self._beams, self._last_ns, self._from_the_past = self._beams, len(scan.ranges), scan.stamp_ns, 0
        if before not in (0, self._beams):
            self._counters["beam_count_changed"] += 1
            return f"beam count changed from {before} to {self._beams}"
        if gap_s > _LONG_GAP_S:
            self._counters["gaps"] += 1
        return ""

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
        if self._last_ns is None or scan.stamp_ns > self._last_ns:
            return "", ""
        if scan.stamp_ns == self._last_ns:
            return "doubles", "a scan with this stamp was taken before"
        self._from_the_past += 1
        if self._from_the_past >= _NEW_CLOCK:
            self._counters["clock_set_back"] += 1
            self._last_ns, self._from_the_past = None, 0
            return "", ""
        return (
            "stamps_back",
            f"stamp is {(self._last_ns - scan.stamp_ns) / NS_PER_S:.3f} s before that of the last scan",
        )
