"""State of SLAM as one file, so that mapping can continue after a restart.

A line of JSON holds format, version, length and checksum; the arrays follow as NumPy archive. A truncated or changed
file is refused. ``Slam.state()`` is quick and may be called between two scans; ``write_state`` may run in a thread.
``Slam.resumed(read_state(path))`` continues.
"""

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import read_regular, write_whole
from svfm_ros.clock import NS_PER_S
from svfm_ros.errors import DataError
from svfm_ros.slam.backend import Loop
from svfm_ros.slam.loops.submap import SubmapSpan
from svfm_ros.types import Constraint, Pose2

__all__ = ["SlamState", "read_state", "write_state"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_FORMAT, _VERSION = "svfm_ros slam state", 1
_MOST_BYTES = 1 << 30
_MOST = 1e15  # largest absolute value of any number
_MOST_NS = 2**31 * NS_PER_S  # what a ROS message can hold
_FARTHEST_M = 1000.0  # of keyframes from the origin: maps are drawn on dense grids
_LAYOUT: dict[str, tuple[Any, ...]] = {
    "points": (np.float32, "points", 4),
    "starts": (np.int64, "starts"),
    "poses": (np.float64, "poses", 3),
    "stamps_ns": (np.int64, "poses"),
    "walked_m": (np.float64, "poses"),
    "progress": (np.float64, "poses"),
    "doubts": (np.float64, "poses", 2),
    "chains": (np.int64, "poses"),
    "scan_stamps_ns": (np.int64, "scan_poses"),
    "scan_keyframes": (np.int64, "scan_poses"),
    "scan_poses": (np.float64, "scan_poses", 3),
    "open_submaps": (np.int64, "open_submaps"),
    "spans": (np.int64, "spans", 3),
    "steps_ends": (np.int64, "steps_ends", 2),
    "steps_motions": (np.float64, "steps_ends", 3),
    "steps_information": (np.float64, "steps_ends", 3, 3),
    "loops_ends": (np.int64, "loops_ends", 2),
    "loops_motions": (np.float64, "loops_ends", 3),
    "loops_information": (np.float64, "loops_ends", 3, 3),
    "loops_believed": (np.bool_, "loops_ends"),
}
"""Type of each array of the file, the array that has as many rows, and the shape of a row."""


@dataclass(frozen=True, slots=True)
class SlamState:
    """A map with K keyframes and T scans. Poses of scans are relative to their keyframes."""

    points: NDArray[np.float32]  # (P, 4), of all keyframes one after the other: x, y, normal
    starts: Ints  # (K + 1,)
    poses: Array  # (K, 3)
    stamps_ns: Ints  # (K,)
    walked_m: Array  # (K,)
    progress: Array  # (K,)
    variances: Array  # (K, 2), called doubts in the file
    chains: Ints  # (K,)
    scan_stamps_ns: Ints  # (T,)
    scan_keyframes: Ints  # (T,)
    scan_poses: Array  # (T, 3)
    open_submaps: Ints  # (at most 2,), their first keyframes
    spans: tuple[SubmapSpan, ...]
    steps: tuple[Constraint, ...]
    loops: tuple[Loop, ...]

    def __len__(self) -> int:
        return len(self.poses)


_PLAIN = tuple(name for name in SlamState.__slots__ if name not in ("spans", "steps", "loops"))
_FILE_NAMES = {"variances": "doubts"}


def write_state(state: SlamState, path: Path, *, keeps_previous: bool = False) -> None:
    """Write or replace the file, see ``write_whole``; when this returns it is on the disk, whole."""
    arrays = {_FILE_NAMES.get(name, name): getattr(state, name) for name in _PLAIN}
    arrays["spans"] = np.array([(s.submap_id, s.first, s.last) for s in state.spans], dtype=np.int64).reshape(-1, 3)
    arrays |= _packed("steps", state.steps) | _packed("loops", tuple(loop.constraint for loop in state.loops))
    arrays["loops_believed"] = np.array([loop.accepted for loop in state.loops], dtype=bool)
    body = io.BytesIO()
    np.savez(body, **arrays)
    data = body.getbuffer()  # no copy: a map can be large
    head = {"format": _FORMAT, "version": _VERSION, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    write_whole(path, json.dumps(head).encode() + b"\n", data, keeps_previous=keeps_previous)


def read_state(path: Path) -> SlamState:
    """Read a file back; one that is damaged, of another kind or of a newer version is refused."""
    line, _, data = read_regular(path, _MOST_BYTES).partition(b"\n")
    _check_head(path, line, data)
    try:
        arrays = _read_arrays(data)
        _check_arrays(arrays)
        state = _unpacked(arrays)
    # A checksum is not a signature: zipfile and NumPy report what they cannot read by more errors than they document.
    except Exception as error:
        raise DataError(f"expected the state of a map in {path}, got something else: {error}") from error
    return state


def _check_head(path: Path, line: bytes, data: bytes) -> None:
    try:
        head: dict[str, Any] = json.loads(line)
        kind, version, checksum = head["format"], int(head["version"]), head["sha256"]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"expected the state of a map in {path}, got another kind of file") from error
    if kind != _FORMAT:
        raise DataError(f"expected the state of a map in {path}, got {kind!r}")
    if version > _VERSION:
        raise DataError(f"expected version {_VERSION} or older of the state of a map in {path}, got {version}")
    if hashlib.sha256(data).hexdigest() != checksum:
        raise DataError(f"expected a whole file, got a damaged one: {path}")


def _read_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(data)) as members:
        if sum(member.file_size for member in members.infolist()) > len(data):
            raise DataError("expected arrays that are not compressed")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _check_arrays(arrays: dict[str, NDArray[Any]]) -> None:
    """Refuse wrong types or shapes, sizes that do not agree, and references to keyframes that do not exist."""
    for name, (kind, size, *columns) in _LAYOUT.items():
        array, rows = arrays[name], len(arrays[size])
        if array.dtype != kind or array.shape != (rows, *columns):
            raise DataError(f"{name} has type {array.dtype} and shape {array.shape}")
        if array.dtype.kind == "f" and not np.all(np.abs(array) < _MOST):  # NaN fails as well
            raise DataError(f"{name} holds numbers that are none or too large")
    k, starts, chains, spans = len(arrays["poses"]), arrays["starts"], arrays["chains"], arrays["spans"]
    whole = len(starts) == k + 1 and starts[0] == 0 and starts[-1] == len(arrays["points"])
    ascending = all(np.all(np.diff(a, axis=-1) >= 0) for a in (starts, chains, spans[:, 1:]))
    numbers = (
        chains,
        spans,
        *(arrays[name] for name in ("scan_keyframes", "open_submaps", "steps_ends", "loops_ends")),
    )
    if not whole or not ascending or not all(np.all((n >= 0) & (n < k + (n is spans))) for n in numbers):
        raise DataError("its numbers of keyframes do not agree")
    if any(np.any(np.abs(arrays[name]) >= _MOST_NS) for name in ("stamps_ns", "scan_stamps_ns")):
        raise DataError("it holds stamps that are no times")
    if np.any(np.abs(arrays["poses"][:, :2]) > _FARTHEST_M):
        raise DataError(f"it reaches farther than {_FARTHEST_M:.0f} m")


def _packed(name: str, constraints: tuple[Constraint, ...]) -> dict[str, NDArray[Any]]:
    return {
        f"{name}_ends": np.array([(c.from_id, c.to_id) for c in constraints], dtype=np.int64).reshape(-1, 2),
        f"{name}_motions": np.array([c.T_from_to.as_array() for c in constraints]).reshape(-1, 3),
        f"{name}_information": np.array([c.information for c in constraints]).reshape(-1, 3, 3),
    }


def _constraints(arrays: dict[str, NDArray[Any]], name: str) -> tuple[Constraint, ...]:
    kind: Any = "odometry" if name == "steps" else "loop"
    rows = zip(*(arrays[f"{name}_{part}"] for part in ("ends", "motions", "information")), strict=True)
    return tuple(Constraint(int(e[0]), int(e[1]), Pose2.from_array(m), i, kind) for e, m, i in rows)


def _unpacked(arrays: dict[str, NDArray[Any]]) -> SlamState:
    spans = tuple(SubmapSpan(*(int(v) for v in row)) for row in arrays["spans"])
    loops = zip(_constraints(arrays, "loops"), arrays["loops_believed"].tolist(), strict=True)
    return SlamState(
        **{name: arrays[_FILE_NAMES.get(name, name)] for name in _PLAIN},
        spans=spans,
        steps=_constraints(arrays, "steps"),
        loops=tuple(Loop(c, bool(b)) for c, b in loops),
    )
