"""One walk as one file: a line that names the format, a line of JSON that says what follows, the arrays, a checksum.

    svfm_ros walk
    {"schema": 1, "walk_id": …, "resident": …, "start_ns": …, "end_ns": …, "arrays": [[name, dtype, shape], …]}
    the arrays, one after the other, row by row, in little-endian
    CRC-32 of all bytes before it, as four bytes in little-endian

Ten lines of any language read it. Points are kept in single precision, which is a micrometre at ten metres; stamps and
poses to the last bit.
"""

import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.types import WALK_SCHEMA, Walk

__all__ = ["WalkHead", "decode_walk", "encode_walk", "parse_head", "peek_resident"]

_MAGIC = b"svfm_ros walk\n"
_CRC_BYTES = 4
_DTYPES = {"stamps_ns": "<i8", "poses": "<f8", "points": "<f4"}
_COLUMNS = {"stamps_ns": (), "poses": (3,), "points": (2,)}


@dataclass(frozen=True, slots=True)
class WalkHead:
    """What the file says of its walk without reading the arrays."""

    walk_id: str
    resident: str
    start_ns: int
    end_ns: int
    poses: int
    points: int


def encode_walk(walk: Walk) -> bytes:
    """The bytes of a walk's file; refuses a walk that does not hold together."""
    _check(walk)
    arrays = {name: np.ascontiguousarray(getattr(walk, name), dtype=kind) for name, kind in _DTYPES.items()}
    head = {
        "schema": walk.schema,
        "walk_id": walk.walk_id,
        "resident": walk.resident,
        "start_ns": int(walk.stamps_ns[0]),
        "end_ns": int(walk.stamps_ns[-1]),
        "arrays": [[name, _DTYPES[name], list(array.shape)] for name, array in arrays.items()],
    }
    body = b"".join([_MAGIC, json.dumps(head).encode(), b"\n", *(array.tobytes() for array in arrays.values())])
    return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little")


def _check(walk: Walk) -> None:
    where = f"walk {walk.walk_id!r}"
    if not walk.walk_id or not walk.resident:
        raise DataError(f"{where}: expected an id and a resident, got {walk.walk_id!r} and {walk.resident!r}")
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


def decode_walk(data: bytes, where: str) -> Walk:
    """The walk in the bytes of a file; ``where`` names the file in complaints."""
    head, begin = _parse_head(data, where)
    sizes = _sizes(head)
    if len(data) != begin + sum(sizes) + _CRC_BYTES:
        raise DataError(f"{where} is damaged: expected {begin + sum(sizes) + _CRC_BYTES} bytes, got {len(data)}")
    if zlib.crc32(memoryview(data)[:-_CRC_BYTES]) != int.from_bytes(data[-_CRC_BYTES:], "little"):
        raise DataError(f"{where} is damaged: its checksum does not match")
    arrays: dict[str, NDArray[Any]] = {}
    for (name, kind, shape), size in zip(head["arrays"], sizes, strict=True):
        arrays[name] = np.frombuffer(data, kind, math.prod(shape), begin).reshape(shape)
        begin += size
    stamps, poses = arrays["stamps_ns"].astype(np.int64), arrays["poses"].astype(np.float64)
    return Walk(head["walk_id"], head["resident"], stamps, poses, arrays["points"].astype(np.float64), head["schema"])


def parse_head(data: bytes, size: int, where: str) -> WalkHead:
    """What a file of ``size`` bytes that begins with ``data`` holds; its length is checked, its checksum is not."""
    head, begin = _parse_head(data, where)
    expected = begin + sum(_sizes(head)) + _CRC_BYTES
    if size != expected:
        raise DataError(f"{where} is damaged: expected {expected} bytes, got {size}")
    count = {name: shape[0] for name, _, shape in head["arrays"]}
    return WalkHead(
        head["walk_id"], head["resident"], head["start_ns"], head["end_ns"], count["stamps_ns"], count["points"]
    )


def peek_resident(path: Path) -> str | None:
    """Whose walk a damaged file held, if its head can still be read."""
    try:
        _, head, *_ = path.read_bytes().split(b"\n", 2)
        resident = json.loads(head)["resident"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return resident if isinstance(resident, str) else None


def _parse_head(data: bytes, where: str) -> tuple[dict[str, Any], int]:
    """The head and where the arrays begin."""
    end = data.find(b"\n", len(_MAGIC))
    if not data.startswith(_MAGIC) or end < 0:
        raise DataError(f"{where} is damaged: expected it to begin as a walk does")
    try:
        head = json.loads(data[len(_MAGIC) : end])
    except ValueError as error:
        raise DataError(f"{where} is damaged: its head is not readable") from error
    if isinstance(head, dict) and isinstance(head.get("schema"), int) and head["schema"] != WALK_SCHEMA:
        raise DataError(f"{where} holds a walk of schema {head['schema']}: expected {WALK_SCHEMA}")
    if not _is_head(head):
        raise DataError(f"{where} is damaged: its head does not describe a walk")
    return head, end + 1


def _is_head(head: Any) -> bool:
    """Whether a head is one that ``encode_walk`` could have written."""
    try:
        texts = isinstance(head["walk_id"], str) and isinstance(head["resident"], str)
        numbers = all(type(head[key]) is int for key in ("schema", "start_ns", "end_ns"))
        arrays = {name: (kind, tuple(shape)) for name, kind, shape in head["arrays"]}
        count = arrays["stamps_ns"][1][0]
        kinds = all(arrays[name][0] == kind for name, kind in _DTYPES.items())
        shapes = all(type(n) is int and n >= 0 for _, shape in arrays.values() for n in shape)
        columns = all(arrays[name][1][1:] == columns for name, columns in _COLUMNS.items())
    except (KeyError, TypeError, ValueError, IndexError):
        return False
    fits = len(head["arrays"]) == len(_DTYPES) and arrays["poses"][1][0] == count
    return texts and numbers and kinds and shapes and columns and fits


def _sizes(head: dict[str, Any]) -> list[int]:
    """Bytes of each array."""
    return [int(kind[-1]) * math.prod(shape) for _, kind, shape in head["arrays"]]  # "<f8" has 8 bytes
