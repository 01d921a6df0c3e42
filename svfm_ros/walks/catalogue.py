"""What a store holds, without opening every walk: one line per walk, each with its own checksum.

The walks are the truth and the catalogue is a copy of their heads. A line counts only while a file of its name has the
same size and time; files without a line are opened, lines without a file are passed over. So the catalogue may be old,
torn or missing: that costs time, never a walk.
"""

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path

from svfm_ros import atomic_files
from svfm_ros.errors import DataError
from svfm_ros.walks.walk_file import parse_head

__all__ = [
    "WALK_SUFFIX",
    "Inventory",
    "StoreProblem",
    "WalkEntry",
    "append_lines",
    "look_into",
    "merged",
    "read_lines",
    "take_stock",
    "write_lines",
]

WALK_SUFFIX = ".walk"
_HEAD_BYTES = 1024  # holds the whole head of nearly every walk


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """One walk of a store: what it is and which file holds it."""

    walk_id: str
    resident: str
    start_ns: int
    end_ns: int
    poses: int
    points: int
    file: str
    size: int
    mtime_ns: int


_VALUES = attrgetter(*(f.name for f in fields(WalkEntry)))  # ten times as fast as dataclasses.astuple


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """A file that cannot be used, and why; the file stays where it is."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """What lies in a folder of walks."""

    entries: dict[str, WalkEntry]  # by walk id, in order of time
    problems: tuple[StoreProblem, ...]


def take_stock(folder: Path, known: Iterable[WalkEntry]) -> Inventory:
    """Look at every file of a folder; files that match a known entry are not opened."""
    by_file = {entry.file: entry for entry in known}
    found: list[WalkEntry] = []
    problems: list[StoreProblem] = []
    for name, size, mtime_ns in _listing(folder):
        entry = by_file.get(name)
        if entry is None or (entry.size, entry.mtime_ns) != (size, mtime_ns):
            try:
                entry = look_into(os.path.join(folder, name))
            except FileNotFoundError:
                continue  # deleted since the folder was listed
            except (DataError, OSError) as error:
                problems.append(StoreProblem(folder / name, str(error)))
                continue
        found.append(entry)
    return _ordered(folder, found, problems)


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every walk file, by name."""
    listing = []
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(WALK_SUFFIX) and not file.name.startswith("."):
                try:
                    status = file.stat()
                except FileNotFoundError:
                    continue
                listing.append((file.name, status.st_size, status.st_mtime_ns))
    return sorted(listing)


def look_into(path: str) -> WalkEntry:
    """The entry of one file."""
    # Ten thousand files are opened when the catalogue is missing: plain calls are quicker than file objects.
    handle = os.open(path, os.O_RDONLY)
    try:
        status = os.fstat(handle)
        data = os.read(handle, _HEAD_BYTES)
        if data.count(b"\n", 0, _HEAD_BYTES) < 2:  # names can be long
            data += os.read(handle, status.st_size)
    finally:
        os.close(handle)
    h, size, time_ns = parse_head(data, status.st_size, path), status.st_size, status.st_mtime_ns
    name = os.path.basename(path)
    return WalkEntry(h.walk_id, h.resident, h.start_ns, h.end_ns, h.poses, h.points, name, size, time_ns)


def _ordered(folder: Path, found: list[WalkEntry], problems: list[StoreProblem]) -> Inventory:
    entries: dict[str, WalkEntry] = {}
    for entry in found:
        if entry.walk_id in entries:
            other = entries[entry.walk_id].file
            reason = f"{folder / entry.file} holds walk {entry.walk_id!r} again: expected it in {other} alone"
            problems.append(StoreProblem(folder / entry.file, reason))
        else:
            entries[entry.walk_id] = entry
    return Inventory(merged({}, entries.values()), tuple(problems))


def merged(old: dict[str, WalkEntry], new: Iterable[WalkEntry]) -> dict[str, WalkEntry]:
    """Old and new entries by id, in order of time."""
    latest = max((entry.start_ns for entry in old.values()), default=0)
    added = sorted(new, key=_when)
    both = {**old, **{entry.walk_id: entry for entry in added}}
    if not old or not added or added[0].start_ns > latest:  # the usual case: walks come in as they happen
        return both
    return {entry.walk_id: entry for entry in sorted(both.values(), key=_when)}


def _when(entry: WalkEntry) -> tuple[int, str]:
    return entry.start_ns, entry.walk_id


def read_lines(path: Path) -> list[WalkEntry]:
    """All entries whose line is whole; a later line of the same file counts."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    entries = [_parse(line) for line in data.split(b"\n")]
    return list({entry.file: entry for entry in entries if entry is not None}.values())


def _line(entry: WalkEntry) -> bytes:
    text = json.dumps(_VALUES(entry)).encode()
    return b"%08x %s" % (zlib.crc32(text), text)


def _parse(line: bytes) -> WalkEntry | None:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        return WalkEntry(*json.loads(text))
    except (ValueError, TypeError):  # a line of another version
        return None


def append_lines(path: Path, entries: Iterable[WalkEntry]) -> None:
    """Add entries at the end; each begins a new line, also after one that was torn."""
    with path.open("ab") as file:
        file.write(b"".join(b"\n" + _line(entry) for entry in entries))


def write_lines(path: Path, entries: Iterable[WalkEntry]) -> None:
    """Replace the whole catalogue."""
    atomic_files.write_whole(path, b"\n".join(_line(entry) for entry in entries))
