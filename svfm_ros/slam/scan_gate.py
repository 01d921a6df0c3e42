"""Checks scans before use, and keeps a steady clock from their stamps.

Scans that cannot be used are counted, with a reason. Scans are taken in the order they arrive, whatever their stamps: a
stamp that repeats or goes back does not stop SLAM, the time since the last scan is then the usual one.

A sensor sweeps the same angles in the same time. A scan with other angles or another duration is damaged: its echoes
would match the map at a wrong pose and deform it. When several in a row have the same new values, the sensor was
replaced or its settings were changed.
"""

import math
from collections import Counter, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.types import Scan

__all__ = ["LONGEST_SWEEP_S", "ScanGate"]

_LONG_GAP_S = 2.0
LONGEST_SWEEP_S = 10.0
_SAME_RAD, _SAME_SWEEP_S, _SAME_RANGE = 0.1, 0.1, 1.5  # changes of angles, duration and greatest range in use
_NEW_SHAPE_SCANS = 5  # so many in a row with another shape are accepted
_ANY_SHAPE_SCANS = 20  # with so many more scans that differ than scans that do not, the sensor has no fixed shape
_BREAK_S = 10.0  # after a longer pause or step of the clock the sensor may be elsewhere
_SPARSE_S, _SPARSE_BREAK_S = 1.0, 60.0  # with a longer period, scans are taken only during motion: pauses are long
_BACK_S = 1.0  # and after a longer step back: a recording may have begun again
_DEFAULT_PERIOD_S = 1.0  # until an interval was measured: as in thinned logs
_COARSE_SCANS = 3  # after so many scans with one stamp, the next advance belongs to all of them
_PERIODS = 15  # intervals that the usual one is the median of
_FAULTY_SCANS = 20  # after a stamp that went back, so many further ones are suspect
_SUSPECT_PERIODS = 10.0  # a suspect interval that is longer than this many usual ones is replaced by a usual one


class ScanGate:
    """Checks one scan after another; ``counters`` is shared with the rest of SLAM."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._last_ns: int | None = None
        self._last_ranges: NDArray[np.float32] | None = None
        self._periods_s: deque[float] = deque(maxlen=_PERIODS)
        self._suspect = 0
        self._repeats = 0  # scans in a row with the stamp of the one before
        self._beams = 0
        self._shape: _Shape | None = None
        self._other: _Shape | None = None  # of the last scan, if it had another shape than those before
        self._others = 0  # scans in a row that had it
        self._unlike = 0  # scans with any other shape, less those with the same
        self._has_shape = True
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
        self._last_ranges, self._shape, self._others = scan.ranges, _Shape.of(scan), 0
        self._unlike = max(0, self._unlike - 1)
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
        repeats, self._repeats = self._repeats, self._repeats + 1 if measured_s == 0.0 else 0
        if measured_s > 0.0 and repeats >= _COARSE_SCANS:
            return self._coarse_interval(measured_s / (repeats + 1), usual_s)
        self._suspect = max(0, self._suspect - 1)
        break_s = _BREAK_S if usual_s < _SPARSE_S else _SPARSE_BREAK_S
        self.stepped = measured_s < -_BACK_S or measured_s > max(break_s, _SUSPECT_PERIODS * usual_s)
        if measured_s > 0.0 and not (self._suspect and measured_s > _SUSPECT_PERIODS * usual_s):
            self._periods_s.append(measured_s)
            return stamp_ns - self._last_ns, ""
        if measured_s == 0.0:
            self._counters["stamps_repeated"] += 1
            return round(usual_s * NS_PER_S), "the stamp did not advance: scans are taken in their order"
        self._counters["clock_steps"] += 1
        self._suspect = _FAULTY_SCANS
        return round(usual_s * NS_PER_S), f"the clock stepped by {measured_s:.3f} s: scans are taken in their order"

    def _coarse_interval(self, mean_s: float, usual_s: float) -> tuple[int, str]:
        """The mean interval since the stamp last advanced; the usual one where that is too long to be true."""
        if mean_s <= _LONG_GAP_S:
            self._periods_s.append(mean_s)
            return round(mean_s * NS_PER_S), ""
        self._counters["clock_steps"] += 1
        return round(usual_s * NS_PER_S), "the stamp advances too seldom: scans are taken in their order"

    def _find_fault(self, scan: Scan) -> tuple[str, str]:
        ranges = np.asarray(scan.ranges)
        if ranges.ndim != 1 or ranges.size == 0 or ranges.dtype.kind not in "fiu":
            return "empty", f"expected a row of ranges, got an array of shape {ranges.shape} and type {ranges.dtype}"
        if not (math.isfinite(scan.angle_min) and math.isfinite(scan.angle_step)) or scan.angle_step == 0.0:
            return "malformed", f"expected angles, got {scan.angle_min} and steps of {scan.angle_step}"
        if not abs(scan.time_increment_s) * ranges.size <= LONGEST_SWEEP_S:  # NaN fails as well
            return "malformed", f"expected a sweep of seconds at most, got beams {scan.time_increment_s} s apart"
        if math.isnan(scan.range_min) or math.isnan(scan.range_max):
            return "malformed", f"expected a least and a greatest range, got {scan.range_min} and {scan.range_max}"
        before = self._last_ranges
        if scan.stamp_ns == self._last_ns and before is not None and np.array_equal(ranges, before, equal_nan=True):
            return "doubles", "the same scan with the same stamp was taken before"
        if self._has_other_shape(_Shape.of(scan)):
            return "malformed", "the angles or times of the beams are not those of the scans before: it may be damaged"
        return "", ""

    def _has_other_shape(self, shape: "_Shape") -> bool:
        """Whether the scan differs from those before, until enough scans in a row differ in the same way."""
        if self._shape is None or not self._has_shape or shape.is_like(self._shape):
            return False
        same = self._other is not None and shape.is_like(self._other)
        self._other, self._others, self._unlike = shape, self._others + 1 if same else 1, self._unlike + 1
        self._has_shape = self._unlike < _ANY_SHAPE_SCANS
        return self._has_shape and self._others < _NEW_SHAPE_SCANS


@dataclass(frozen=True, slots=True)
class _Shape:
    """What stays the same from scan to scan of a sensor; the number of beams may vary."""

    angle_min: float
    field_of_view: float  # rad
    sweep_s: float
    range_max: float

    @classmethod
    def of(cls, scan: Scan) -> "_Shape":
        """The shape of a scan."""
        beams = len(scan.ranges)
        return cls(scan.angle_min, scan.angle_step * beams, scan.time_increment_s * beams, scan.range_max)

    def is_like(self, other: "_Shape") -> bool:
        """Whether both may come from the same sensor."""
        sweep_s = max(_SAME_SWEEP_S, 0.5 * abs(other.sweep_s))
        return (
            abs(self.angle_min - other.angle_min) <= _SAME_RAD
            and abs(self.field_of_view - other.field_of_view) <= _SAME_RAD
            and abs(self.sweep_s - other.sweep_s) <= sweep_s
            and other.range_max <= _SAME_RANGE * self.range_max
            and self.range_max <= _SAME_RANGE * other.range_max
        )
