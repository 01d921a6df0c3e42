"""Walks and alignments as rows of the store's tables, with checksums.

Points and covariances are kept in single precision, which is a micrometre at ten metres; stamps and poses to the last
bit. Of a covariance the upper triangle is kept: xx, xy, xt, yy, yt, tt.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from sqlite3 import SQLITE_CORRUPT, Connection, DatabaseError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.types import WALK_SCHEMA, Alignment, MatchResult, Pose2, Walk

__all__ = [
    "ENTRY_TYPES",
    "StoredWalk",
    "TrackRow",
    "WalkEntry",
    "alignment_from",
    "alignment_row",
    "check_walk",
    "entry_of",
    "fingerprint_of",
]
__all__ += ["match_from", "read_entries", "read_rows", "track_of", "walk_from"]

_ENTRY = "w.number, w.walk_id, w.resident, w.start_ns, w.end_ns, w.poses, w.points"
_TRACK = "t.schema, t.crc32, t.stamps_ns, t.poses, t.points, t.covariance"
_ALIGNMENT = "a.crc32, a.x, a.y, a.theta, a.accepted, a.reason, a.match"
ENTRY_TYPES = (int, str, str, int, int, int, int)
_UPPER = np.triu_indices(3)
_TRACK_TYPES = (int, int, bytes, bytes, bytes)
_WRONG = (TypeError, ValueError, KeyError, AttributeError, RecursionError)  # of values that are not what they should be


@dataclass(frozen=True, slots=True)
class WalkEntry:
    """The row of one walk in the table of walks."""

    walk_id: str
    resident: str
    start_ns: int
    end_ns: int
    poses: int
    points: int


@dataclass(frozen=True, slots=True)
class TrackRow:
    """The arrays of one walk as bytes, and a checksum of them and of the walk's entry."""

    schema: int
    crc32: int
    stamps_ns: bytes  # (T,) int64
    poses: bytes  # (T, 3) float64
    points: bytes  # (P, 2) float32
    covariance: bytes | None  # (T, 6) float32


def check_walk(walk: Walk) -> None:
    """Refuse a walk whose parts do not fit together."""
    where = f"walk {walk.walk_id!r}"
    if not walk.walk_id or not walk.resident:
        raise DataError(f"{where}: expected an id and a resident, got {walk.walk_id!r} and {walk.resident!r}")
    if not (_is_text(walk.walk_id) and _is_text(walk.resident)):
        raise DataError(f"{where}: expected an id and a resident in Unicode, got {walk.resident!r}")
    if walk.schema != WALK_SCHEMA:
        raise DataError(f"{where}: expected schema {WALK_SCHEMA}, got {walk.schema}")
    count = len(walk.stamps_ns)
    if count < 2 or walk.poses.shape != (count, 3) or walk.points.shape != (len(walk.points), 2):
        shapes = f"{walk.stamps_ns.shape}, {walk.poses.shape}, {walk.points.shape}"
        raise DataError(f"{where}: expected at least two stamps (T,), poses (T, 3) and points (P, 2), got {shapes}")
    if np.any(np.diff(walk.stamps_ns) <= 0):
        raise DataError(f"{where}: expected stamps that increase")
    if not (np.isfinite(walk.poses).all() and np.isfinite(walk.points).all()):
        raise DataError(f"{where}: expected finite poses and points")
    if walk.covariance is not None and walk.covariance.shape != (count, 3, 3):
        raise DataError(f"{where}: expected covariances ({count}, 3, 3), got {walk.covariance.shape}")
    if walk.covariance is not None and not np.isfinite(walk.covariance).all():
        raise DataError(f"{where}: expected finite covariances")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def entry_of(walk: Walk) -> WalkEntry:
    """The entry of a walk."""
    start_ns, end_ns = int(walk.stamps_ns[0]), int(walk.stamps_ns[-1])
    return WalkEntry(walk.walk_id, walk.resident, start_ns, end_ns, len(walk.poses), len(walk.points))


def fingerprint_of(walk: Walk) -> bytes:
    """16 bytes that two walks share only if they have the same resident, stamps and poses."""
    track = _bytes(walk.stamps_ns, "<i8") + _bytes(walk.poses, "<f8")
    return hashlib.blake2b(json.dumps(walk.resident).encode() + track, digest_size=16).digest()


def track_of(walk: Walk) -> TrackRow:
    """The arrays of a walk as bytes."""
    covariance = None if walk.covariance is None else _bytes(walk.covariance[:, *_UPPER], "<f4")
    arrays = (_bytes(walk.stamps_ns, "<i8"), _bytes(walk.poses, "<f8"), _bytes(walk.points, "<f4"), covariance)
    return TrackRow(walk.schema, _track_checksum(entry_of(walk), walk.schema, arrays), *arrays)


def _bytes(array: NDArray[Any], kind: str) -> bytes:
    return np.ascontiguousarray(array, dtype=kind).tobytes()


def _track_checksum(entry: WalkEntry, schema: int, arrays: tuple[bytes | None, ...]) -> int:
    crc32 = zlib.crc32(json.dumps([schema, *astuple(entry)]).encode())
    for data in arrays:
        crc32 = zlib.crc32(b"-" if data is None else data, crc32)
    return crc32


def walk_from(entry: WalkEntry, track: TrackRow, where: str) -> Walk:
    """The walk of an entry and its track; ``where`` names them in error messages."""
    kinds = tuple(map(type, (track.schema, track.crc32, track.stamps_ns, track.poses, track.points)))
    if kinds != _TRACK_TYPES or not isinstance(track.covariance, bytes | None):
        raise DataError(f"{where} is damaged: its track cannot be read")
    if track.schema != WALK_SCHEMA:
        raise DataError(f"{where} has schema {track.schema}: expected {WALK_SCHEMA}")
    arrays = (track.stamps_ns, track.poses, track.points, track.covariance)
    if track.crc32 != _track_checksum(entry, track.schema, arrays):
        raise DataError(f"{where} is damaged: its checksum does not match")
    try:
        stamps = np.frombuffer(track.stamps_ns, "<i8").astype(np.int64)
        poses = np.frombuffer(track.poses, "<f8").astype(np.float64).reshape(len(stamps), 3)
        points = np.frombuffer(track.points, "<f4").astype(np.float64).reshape(-1, 2)
        covariance = None if track.covariance is None else _full(track.covariance, len(stamps))
    except ValueError as error:
        raise DataError(f"{where} is damaged: its arrays do not fit together") from error
    walk = Walk(entry.walk_id, entry.resident, stamps, poses, points, track.schema, covariance)
    check_walk(walk)  # a checksum is not a signature
    return walk


def _full(data: bytes, count: int) -> NDArray[np.float64]:
    upper = np.frombuffer(data, "<f4").astype(np.float64).reshape(count, 6)
    full = np.zeros((count, 3, 3))
    full[:, *_UPPER] = upper
    full[:, _UPPER[1], _UPPER[0]] = upper
    return full


def alignment_row(alignment: Alignment) -> tuple[object, ...]:
    """A row of the table of alignments, without the walk's number."""
    pose = alignment.T_house_walk
    if not np.isfinite(pose.as_array()).all():
        raise DataError(f"walk {alignment.walk_id!r}: expected a finite pose in the house, got {pose}")
    match = None if alignment.match is None else json.dumps(_dict_of_match(alignment.match))
    x, y, theta = (float(value) + 0.0 for value in (pose.x, pose.y, pose.theta))  # SQLite keeps -0.0 as 0.0
    row = (x, y, theta, int(alignment.accepted), alignment.reason, match)
    return _row_checksum(alignment.walk_id, row), *row


def alignment_from(walk_id: str, row: tuple[Any, ...], where: str) -> Alignment:
    """The alignment in the row of a walk; ``where`` names it in error messages."""
    crc32, x, y, theta, accepted, reason, match = row
    if crc32 != _row_checksum(walk_id, row[1:]):
        raise DataError(f"{where} is damaged: its checksum does not match")
    try:
        pose = Pose2.from_array([x, y, theta])
        result = None if match is None else match_from(json.loads(match))
        if not np.isfinite(pose.as_array()).all() or not isinstance(reason, str):
            raise ValueError(pose)
    except _WRONG as error:
        raise DataError(f"{where} is damaged: its values cannot be read") from error
    return Alignment(walk_id, pose, result, bool(accepted), reason)


def _row_checksum(walk_id: str, row: tuple[object, ...]) -> int:
    return zlib.crc32(repr([walk_id, *row]).encode(errors="replace"))


def _dict_of_match(match: MatchResult) -> dict[str, Any]:
    return {
        "T_target_source": match.T_target_source.as_array().tolist(),
        "converged": bool(match.converged),
        "iterations": int(match.iterations),
        "inlier_ratio": float(match.inlier_ratio),
        "rmse_m": float(match.rmse_m),
        "information": np.asarray(match.information, dtype=float).tolist(),
    }


def match_from(plain: dict[str, Any]) -> MatchResult:
    """A match from its JSON object."""
    return MatchResult(
        Pose2.from_array(plain["T_target_source"]),
        plain["converged"],
        plain["iterations"],
        plain["inlier_ratio"],
        plain["rmse_m"],
        np.array(plain["information"], dtype=float),
    )


@dataclass(frozen=True, slots=True)
class StoredWalk:
    """One walk's rows."""

    entry: WalkEntry
    track: TrackRow | None
    alignment: tuple[Any, ...] | None

    def walk(self) -> Walk:
        """The walk as it was recorded."""
        where = f"walk {self.entry.walk_id!r}"
        if self.track is None:
            raise DataError(f"{where} is damaged: its track is missing")
        return walk_from(self.entry, self.track, where)

    def read_alignment(self) -> Alignment | None:
        """Its alignment, None without one."""
        where = f"the alignment of walk {self.entry.walk_id!r}"
        return None if self.alignment is None else alignment_from(self.entry.walk_id, self.alignment, where)


def read_entries(db: Connection) -> list[tuple[Any, ...]]:
    """The rows of all entries in order of time; where a page is damaged, those of the other pages."""
    query = f"SELECT {_ENTRY} FROM walks w"
    try:
        return db.execute(f"{query} ORDER BY w.start_ns, w.walk_id").fetchall()
    except DatabaseError as error:
        if getattr(error, "sqlite_errorcode", SQLITE_CORRUPT) & 0xFF != SQLITE_CORRUPT:
            raise
        (last,) = db.execute("SELECT max(number) FROM walks").fetchone()
    found = []
    for number in range(1, (last or 0) + 1):
        try:
            found += db.execute(f"{query} WHERE w.number = ?", (number,)).fetchall()
        except DatabaseError:
            continue
    return sorted(found, key=lambda row: (str(row[3]), row[1]))


def read_rows(db: Connection, numbers: Iterable[int], with_track: bool = True) -> Iterator[StoredWalk]:
    """The rows of some walks."""
    numbers = list(numbers)
    track = _TRACK if with_track else "NULL, NULL, NULL, NULL, NULL, NULL"
    query = f"SELECT {_ENTRY}, {track}, {_ALIGNMENT} FROM walks w"
    query += " LEFT JOIN tracks t USING (number) LEFT JOIN alignments a USING (number)"
    query += f" WHERE w.number IN ({', '.join('?' * len(numbers))})"
    for row in db.execute(query, numbers).fetchall():
        entry, arrays, alignment = row[1:7], row[7:13], row[13:]
        yield StoredWalk(
            WalkEntry(*entry),
            None if arrays[0] is None else TrackRow(*arrays),
            None if alignment[0] is None else alignment,
        )
