"""State of SLAM as one file, so that mapping can continue after a restart.

A line of JSON holds format, version, length and checksum; the arrays follow as NumPy archive. A truncated or changed
file is refused. ``Slam.state()`` is quick and may be called between two scans; ``write_state`` may run in a thread.
``Slam.resumed(read_state(path))`` continues.
"""

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import write_whole
from svfm_ros.errors import DataError
from svfm_ros.slam.backend import Loop
from svfm_ros.slam.loops.submap import SubmapSpan
from svfm_ros.types import Constraint, Pose2

__all__ = ["SlamState", "read_state", "write_state"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_FORMAT, _VERSION = "svfm_ros slam state", 1


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
    try:
        line, _, data = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise DataError(f"expected the state of a map in {path}, got: {error}") from error
    _check_head(path, line, data)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            state = _unpacked({name: arrays[name] for name in arrays.files})
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise DataError(f"expected the state of a map in {path}, got something else: {error}") from error
    _check(path, state)
    return state


def _check_head(path: Path, line: bytes, data: bytes) -> None:
    try:
        head: dict[str, Any] = json.loads(line)
        kind, version, checksum = head["format"], int(head["version"]), head["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"expected the state of a map in {path}, got another kind of file") from error
    if kind != _FORMAT:
        raise DataError(f"expected the state of a map in {path}, got {kind!r}")
    if version > _VERSION:
        raise DataError(f"expected version {_VERSION} or older of the state of a map in {path}, got {version}")
    if hashlib.sha256(data).hexdigest() != checksum:
        raise DataError(f"expected a whole file, got a damaged one: {path}")


def _check(path: Path, state: SlamState) -> None:
    """Check that the sizes of the arrays agree."""
    k, t = len(state.poses), len(state.scan_poses)
    right = (
        all(len(a) == k for a in (state.stamps_ns, state.walked_m, state.progress, state.variances, state.chains))
        and len(state.starts) == k + 1
        and int(state.starts[-1]) == len(state.points)
        and len(state.scan_stamps_ns) == len(state.scan_keyframes) == t
        and int(state.scan_keyframes.max(initial=-1)) < k
        and bool(np.isfinite(state.poses).all())
    )
    if not right:
        raise DataError(f"expected arrays of matching sizes, got others: {path}")


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
