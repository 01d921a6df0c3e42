"""CARMEN logs: lines of FLASER, ROBOTLASER1 or RAWLASER1, packed with gzip or not.

Public logs of this kind often carry *corrected* poses in place of odometry. So only the scans are read,
never the poses.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.sources.scan_source import MOST_NS, ScanSource, Warn, read_bytes
from svfm_ros.types import Scan

__all__ = ["looks_like_carmen", "open_carmen"]

_KINDS = ("ROBOTLASER1", "FLASER", "RAWLASER1")  # the first of these that a log holds is read
_WORDS = (*_KINDS, "PARAM", "ODOM", "SYNC", "RLASER", "NEFF", "TRUEPOS")
_SICK_LIMIT_M = 80.0  # SICK's 81.9 m and its neighbours stand for "no echo"
_RANGE_MIN_M = 0.02
# Many readings at the largest value stand for "no echo": at least this share of all, and this many times as many as
# in the metre below.
_PILE_SHARE = 0.001
_PILE_RATIO = 5.0


def looks_like_carmen(head: bytes) -> bool:
    """Whether the first bytes are those of a CARMEN log."""
    if b"\0" in head:
        return False
    words = [line.split(maxsplit=1)[0] for line in head.splitlines()[:-1] if line.strip()] or [head.split(b" ")[0]]
    names = [w.decode("ascii", "replace") for w in words if not w.startswith(b"#")]  # comments: #, ##, #PARAM, ...
    return all(name in _WORDS for name in names)


def open_carmen(path: Path) -> ScanSource:
    """Scans of a CARMEN log, one kind of line only: logs often hold the same sweep in two kinds."""
    source = ScanSource(path, "carmen", iter)  # type: ignore[arg-type]
    lines, kind = _laser_lines(path, read_bytes(path, source.warn))
    limit_m = _range_limit(path, lines, kind)
    source.read = lambda warn: _scans(path, lines, kind, limit_m, warn)
    stamps = [s.stamp_ns for s in (_parse(line, kind, limit_m) for line in (lines[0], lines[-1])) if s is not None]
    source.count = len(lines)
    source.duration_s = (stamps[-1] - stamps[0]) / NS_PER_S if len(stamps) == 2 else None
    return source


def _laser_lines(path: Path, data: bytes) -> tuple[list[bytes], str]:
    found = {kind: re.findall(rb"^" + kind.encode() + rb"\s.*$", data, re.MULTILINE) for kind in _KINDS}
    for kind, lines in found.items():
        if lines:
            return lines, kind
    raise DataError(f"{path}: expected a CARMEN log with lines of {', '.join(_KINDS)}, got none of them")


def _scans(path: Path, lines: list[bytes], kind: str, limit_m: float, warn: Warn) -> Iterator[Scan]:
    broken = 0
    for line in lines:
        scan = _parse(line, kind, limit_m)
        if scan is None:
            broken += 1
        else:
            yield scan
    if broken:
        warn(f"{path}: {broken} of {len(lines)} {kind} lines could not be read and were left out")


def _parse(line: bytes, kind: str, limit_m: float) -> Scan | None:
    """One line as a scan; ``None`` where it is cut off or garbled."""
    try:
        words = line.split()
        return _parse_flaser(words, limit_m) if kind == "FLASER" else _parse_newer(words, kind, limit_m)
    except (ValueError, IndexError, OverflowError):
        return None


def _parse_flaser(words: list[bytes], limit_m: float) -> Scan | None:
    """``FLASER n r1..rn x y theta odom_x odom_y odom_theta time host logger_time``: 180 degrees to the front."""
    n = int(words[1])
    if n < 1 or len(words) < n + 11:
        return None
    # 180 or 360 beams leave the last one out of the half circle, 181 and 361 close it.
    step = math.pi / (n if n % 90 == 0 else max(n - 1, 1))
    return Scan(_stamp(words[n + 8]), _ranges(words[2 : n + 2]), -math.pi / 2, step, _RANGE_MIN_M, limit_m)


def _parse_newer(words: list[bytes], kind: str, limit_m: float) -> Scan | None:
    """``KIND type start fov step max accuracy remissions n r1..rn m i1..im [11 numbers of the robot] time ...``."""
    start, step, longest = float(words[2]), float(words[4]), float(words[5])
    n = int(words[8])
    at = 9 + n
    after = at + 1 + int(words[at]) + (11 if kind == "ROBOTLASER1" else 0)
    if n < 1 or len(words) < after + 3 or step <= 0:
        return None
    limit_m = min(limit_m, longest) if longest > 0 else limit_m
    return Scan(_stamp(words[after]), _ranges(words[9:at]), start, step, _RANGE_MIN_M, limit_m)


def _ranges(words: list[bytes]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # 1e300 m is infinite: no echo
        return np.array([float(w) for w in words], dtype=np.float32)  # (N,)


def _stamp(word: bytes) -> int:
    seconds, _, fraction = word.decode("ascii").partition(".")
    if seconds.isdigit() and (fraction.isdigit() or not fraction):  # exact: a float would lose nanoseconds
        stamp_ns = int(seconds) * NS_PER_S + int(fraction[:9].ljust(9, "0") if fraction else 0)
    else:
        stamp_ns = round(float(word) * NS_PER_S)
    if abs(stamp_ns) >= MOST_NS:
        raise ValueError(stamp_ns)
    return stamp_ns


def _range_limit(path: Path, lines: list[bytes], kind: str) -> float:
    """The longest range that is a measurement, in metres."""
    every = max(1, len(lines) // 500)
    scans = (_parse(line, kind, np.inf) for line in lines[::every])
    ranges = [s.ranges for s in scans if s is not None]
    if not ranges:
        raise DataError(f"{path}: none of its {len(lines)} {kind} lines could be read")
    return min(_SICK_LIMIT_M, _limit_below_maximum(np.concatenate(ranges)))


def _limit_below_maximum(ranges: NDArray[np.float32]) -> float:
    """Just below the largest reading, where so many readings have it that it must stand for "no echo"."""
    finite = ranges[np.isfinite(ranges)]
    if not finite.size:
        return math.inf
    largest = float(finite.max())
    at_end = int(np.count_nonzero(finite >= largest - 0.005))
    just_below = int(np.count_nonzero((finite >= largest - 1.0) & (finite < largest - 0.005)))
    far = largest > 2.0 * float(np.median(finite))  # a round room piles up too
    piled = far and at_end > _PILE_SHARE * finite.size and at_end > _PILE_RATIO * just_below
    return largest - 0.01 if piled else math.inf
