"""Walks as CSV files, for walks from other trackers: columns ``walk_id,t,x,y`` and, if wanted, ``resident``.

``t`` is Unix time in seconds, ``x`` and ``y`` are metres; rows of a walk stand together, in order of time. Other
columns are left unread. A walk's heading is not in the file: it is taken from the direction of travel.
"""

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros import atomic_files
from svfm_ros.atomic_files import read_regular
from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError, short
from svfm_ros.types import Walk

__all__ = ["NOBODY", "headings", "read_walks_csv", "write_walks_csv"]

Array = NDArray[np.float64]

NOBODY = "unknown"
"""The resident of walks that carry no name."""

_REQUIRED = ("walk_id", "t", "x", "y")
_LAST_STAMP_S = 9.2e9  # what fits into 64 bits of nanoseconds
_FARTHEST_M = 1e9  # from the origin of the house
_MOST_BYTES = 1 << 30
_LONGEST_NAME = 255  # of a walk or a resident
_SHOWN = 200  # letters of a header in a sentence
_STANDING_M = 1e-6  # steps below this have no direction


@dataclass(frozen=True, slots=True)
class _Table:
    """The cells of a file, column by column, and the line of each row."""

    path: Path
    columns: dict[str, Sequence[str]]
    lines: Sequence[int]  # (rows,)

    @property
    def rows(self) -> int:
        """How many rows there are below the header."""
        return len(self.lines)

    def error_at(self, row: int, text: str) -> DataError:
        """An error that names the line of a row."""
        return DataError(f"{self.path}, line {self.lines[row]}: {text}")


@dataclass(frozen=True, slots=True)
class _Span:
    """The rows ``[begin, end)`` of one walk."""

    walk_id: str
    begin: int
    end: int


def read_walks_csv(path: Path, resident: str = NOBODY) -> list[Walk]:
    """All walks of a file, in its order; ``resident`` is used where the file names none."""
    table = _read_table(Path(path))
    spans = _spans(table)
    owners = _residents(table, spans, resident)
    x, y = (_metres(table, name) for name in ("x", "y"))
    stamps = _stamps_ns(table)
    _check_times(table, spans, stamps)
    poses = np.stack([x, y, np.zeros_like(x)], axis=1)  # (rows, 3)
    return [_walk(s, owner, stamps, poses) for s, owner in zip(spans, owners, strict=True)]


def _walk(span: _Span, resident: str, stamps: NDArray[np.int64], poses: Array) -> Walk:
    part = poses[span.begin : span.end].copy()
    part[:, 2] = headings(part[:, :2])
    return Walk(span.walk_id, resident, stamps[span.begin : span.end].copy(), part)


def headings(xy: ArrayLike) -> Array:
    """Direction of travel ``(T,)`` along positions ``(T, 2)``; where someone stands, the last direction holds."""
    positions = np.asarray(xy, dtype=float)
    step = np.diff(positions, axis=0)
    moves = np.flatnonzero(np.hypot(step[:, 0], step[:, 1]) > _STANDING_M)
    if not len(moves):
        return np.zeros(len(positions))
    direction = np.arctan2(step[moves, 1], step[moves, 0])
    latest = np.searchsorted(moves, np.arange(len(positions)), side="right") - 1
    return np.asarray(direction[np.maximum(latest, 0)])


def _read_table(path: Path) -> _Table:
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8-sig")  # spreadsheets begin with a byte order mark
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        return _quoted_table(path, text) if '"' in text else _plain_table(path, text)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file in UTF-8: {error}") from error


def _plain_table(path: Path, text: str) -> _Table:
    """A file without quotes, which is split three times as fast as by the csv module."""
    rows = text.split("\n")
    header = _header(path, rows[0].split(","))
    lines = [i for i, row in enumerate(rows[1:], 2) if row]
    rows = [row for row in rows[1:] if row]
    width = len(header)
    for i, row in enumerate(rows):
        if row.count(",") != width - 1:
            raise _ragged(path, lines[i], width, row.count(",") + 1)
    cells = ",".join(rows).split(",")
    return _filled(path, {name: cells[i::width] for i, name in enumerate(header)}, lines)


def _quoted_table(path: Path, text: str) -> _Table:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = _header(path, next(reader, []))
    rows, lines = [], []
    for row in reader:
        if row:
            rows.append(row)
            lines.append(reader.line_num)
            if len(row) != len(header):
                raise _ragged(path, reader.line_num, len(header), len(row))
    columns = zip(*rows, strict=True) if rows else itertools.repeat(())
    return _filled(path, dict(zip(header, columns, strict=False)), lines)


def _ragged(path: Path, line: int, expected: int, got: int) -> DataError:
    return DataError(f"{path}, line {line}: expected {expected} values, got {got}")


def _filled(path: Path, columns: dict[str, Sequence[str]], lines: list[int]) -> _Table:
    if not lines:
        raise DataError(f"{path}: expected at least one walk, got a header and nothing else")
    return _Table(path, columns, lines)


def _header(path: Path, cells: Sequence[str]) -> list[str]:
    header = [cell.strip() for cell in cells]
    missing = [name for name in _REQUIRED if name not in header]
    if missing:
        got = ",".join(header)[:_SHOWN] or "nothing"
        raise DataError(f"{path}, line 1: expected the columns {','.join(_REQUIRED)}, but {missing[0]} is not in {got}")
    name, times = Counter(header).most_common(1)[0]
    if times > 1:
        raise DataError(f"{path}, line 1: expected each column once, got {short(name)} {times} times")
    return header


def _spans(table: _Table) -> list[_Span]:
    """The runs of equal ids; an id that comes back later is refused."""
    ids = [walk_id.strip() for walk_id in table.columns["walk_id"]]
    begins = [0, *(i for i in range(1, table.rows) if ids[i] != ids[i - 1])]
    spans = [_Span(ids[a], a, b) for a, b in itertools.pairwise([*begins, table.rows])]
    seen: set[str] = set()
    for span in spans:
        if not 0 < len(span.walk_id) <= _LONGEST_NAME:
            got = f"{len(span.walk_id)} letters" if span.walk_id else "an empty cell"
            raise table.error_at(span.begin, f"expected a walk_id of at most {_LONGEST_NAME} letters, got {got}")
        if span.walk_id in seen:
            raise table.error_at(span.begin, f"walk {span.walk_id!r} comes back after another walk: expected ids once")
        if span.end - span.begin < 2:
            raise table.error_at(span.begin, f"walk {span.walk_id!r} has one point: expected at least two")
        seen.add(span.walk_id)
    return spans


def _residents(table: _Table, spans: list[_Span], default: str) -> list[str]:
    """One resident per walk."""
    if "resident" not in table.columns:
        return [default] * len(spans)
    cells = [cell.strip() or default for cell in table.columns["resident"]]
    for span in spans:
        if len(cells[span.begin]) > _LONGEST_NAME:
            got = len(cells[span.begin])
            raise table.error_at(span.begin, f"expected a resident of at most {_LONGEST_NAME} letters, got {got}")
        for row in range(span.begin + 1, span.end):
            if cells[row] != cells[span.begin]:
                mixed = (
                    f"walk {span.walk_id!r} belongs to {cells[span.begin]!r}, got {cells[row]!r}: expected one resident"
                )
                raise table.error_at(row, mixed)
    return [cells[span.begin] for span in spans]


def _numbers(table: _Table, name: str) -> Array:
    cells = table.columns[name]
    try:
        values = np.array(cells, dtype=float)
    except ValueError:
        row = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        raise table.error_at(row, f"expected a number in column {name}, got {short(cells[row])}") from None
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise table.error_at(row, f"expected a finite number in column {name}, got {short(cells[row])}")
    return values


def _metres(table: _Table, name: str) -> Array:
    values = _numbers(table, name)
    far = np.abs(values) > _FARTHEST_M
    if far.any():
        row = int(np.argmax(far))
        raise table.error_at(row, f"expected {name} in metres within a house, got {short(table.columns[name][row])}")
    return values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _stamps_ns(table: _Table) -> NDArray[np.int64]:
    """The time column, exact to the nanosecond: a float would lose the last three digits."""
    seconds = _numbers(table, "t")
    late = np.abs(seconds) > _LAST_STAMP_S
    if late.any():
        row = int(np.argmax(late))
        raise table.error_at(row, f"expected t in Unix seconds, got {short(table.columns['t'][row])}")
    return np.array([_to_ns(cell) for cell in table.columns["t"]], dtype=np.int64)


def _to_ns(cell: str) -> int:
    if cell[-10:-9] == "." and cell[-9:].isdecimal():  # nine decimals, as we write them: drop the point
        return int(cell[:-10] + cell[-9:])
    return round(Decimal(cell.strip()) * NS_PER_S)


def _check_times(table: _Table, spans: list[_Span], stamps: NDArray[np.int64]) -> None:
    goes_on = np.ones(table.rows, dtype=np.bool_)
    goes_on[1:] = np.diff(stamps) > 0
    goes_on[[span.begin for span in spans]] = True
    if not goes_on.all():
        row = int(np.argmin(goes_on))
        now, before = table.columns["t"][row], table.columns["t"][row - 1]
        walk_id = table.columns["walk_id"][row].strip()
        raise table.error_at(row, f"expected the times of walk {walk_id!r} to increase, got {now} after {before}")


def write_walks_csv(walks: Iterable[Walk], path: Path) -> int:
    """Write walks so that ``read_walks_csv`` gives back stamps and positions to the last digit; returns how many.

    The column ``resident`` is there where any walk carries a name.
    """
    walks = list(walks)
    named = any(walk.resident != NOBODY for walk in walks)
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*_REQUIRED, "resident"] if named else _REQUIRED)
    seen: set[str] = set()
    for walk in walks:
        if walk.walk_id in seen:
            raise DataError(f"expected each walk once, got {walk.walk_id!r} twice")
        seen.add(walk.walk_id)
        writer.writerows(_rows_of(walk, named))
    try:
        atomic_files.write_whole(Path(path), buffer.getvalue().encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from error
    return len(seen)


def _rows_of(walk: Walk, named: bool) -> Iterable[tuple[str | float, ...]]:
    times = map(_seconds_text, walk.stamps_ns.tolist())
    x, y = walk.poses[:, 0].tolist(), walk.poses[:, 1].tolist()
    columns = (itertools.repeat(walk.walk_id), times, x, y, itertools.repeat(walk.resident))
    return zip(*columns[: None if named else -1], strict=False)


def _seconds_text(stamp_ns: int) -> str:
    whole, rest = divmod(abs(stamp_ns), NS_PER_S)
    return f"{'-' if stamp_ns < 0 else ''}{whole}.{rest:09d}"
