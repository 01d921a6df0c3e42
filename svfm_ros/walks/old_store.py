"""Reads walk stores of the earlier format, a folder of files, so that they can be imported.

store.json          format, schema, frame
walks/*.walk        "svfm_ros walk", a line of JSON with the names, types and shapes of the arrays, the arrays, CRC-32
alignments/*.json   the alignment of the walk in the file of the same name, with a CRC-32
"""

import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from svfm_ros.atomic_files import read_regular
from svfm_ros.errors import DataError
from svfm_ros.types import Alignment, Pose2, Walk
from svfm_ros.walks.walk_rows import match_from

__all__ = ["OldWalk", "is_old_store", "read_old_frame", "read_old_walks"]

_SHEET, _FORMAT, _SCHEMA = "store.json", "svfm_ros walk store", 1
_MAGIC = b"svfm_ros walk\n"
_CRC_BYTES = 4
_KINDS = {"stamps_ns": "<i8", "poses": "<f8", "points": "<f4"}
_MOST_BYTES = 1 << 30
_WRONG = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True)
class OldWalk:
    """One walk file: the walk and its alignment, or why it cannot be read."""

    walk: Walk | None
    alignment: Alignment | None
    problem: str = ""


def is_old_store(folder: Path) -> bool:
    """Whether a folder is a walk store of the old format."""
    return (folder / _SHEET).is_file() and (folder / "walks").is_dir()


def read_old_frame(folder: Path) -> str:
    """The frame that the alignments of an old store lead to."""
    path = folder / _SHEET
    try:
        sheet = json.loads(read_regular(path, _MOST_BYTES))
        frame, schema = sheet["frame"], sheet["schema"]
    except DataError:
        raise
    except _WRONG as error:
        raise DataError(f"{path} is damaged: expected the description of a walk store") from error
    if sheet.get("format") != _FORMAT or schema != _SCHEMA or not isinstance(frame, str):
        raise DataError(f"{path}: expected the description of a walk store of schema {_SCHEMA}, got something else")
    return frame


def read_old_walks(folder: Path) -> Iterator[OldWalk]:
    """Every walk file of an old store, by name; a damaged one comes with the reason."""
    for path in sorted((folder / "walks").glob("*.walk")):
        try:
            walk = _walk(path)
        except DataError as error:
            yield OldWalk(None, None, str(error))
            continue
        beside = folder / "alignments" / f"{path.stem}.json"
        try:
            yield OldWalk(walk, _alignment(beside, walk.walk_id) if beside.exists() else None)
        except DataError as error:
            yield OldWalk(walk, None, str(error))


def _walk(path: Path) -> Walk:
    data = read_regular(path, _MOST_BYTES)
    end = data.find(b"\n", len(_MAGIC))
    checksum = int.from_bytes(data[-_CRC_BYTES:], "little")
    if not data.startswith(_MAGIC) or end < 0 or zlib.crc32(memoryview(data)[:-_CRC_BYTES]) != checksum:
        raise DataError(f"{path} is damaged: its checksum does not match")
    try:
        head, at, arrays = json.loads(data[len(_MAGIC) : end]), end + 1, {}
        for name, kind, shape in head["arrays"]:
            if kind != _KINDS[name]:
                raise ValueError(kind)
            arrays[name] = np.frombuffer(data, kind, math.prod(shape), at).reshape(shape)
            at += arrays[name].nbytes
        stamps, poses, points = (arrays[name] for name in _KINDS)
        found = (stamps.astype(np.int64), poses.astype(np.float64), points.astype(np.float64))
        return Walk(str(head["walk_id"]), str(head["resident"]), *found, schema=head["schema"])
    except _WRONG as error:
        raise DataError(f"{path} is damaged: its first lines do not describe a walk") from error


def _alignment(path: Path, walk_id: str) -> Alignment:
    data = read_regular(path, _MOST_BYTES)
    try:
        whole = json.loads(data)
        content: dict[str, Any] = whole["alignment"]
        if whole["crc32"] != zlib.crc32(json.dumps(content, sort_keys=True).encode()) or content["walk_id"] != walk_id:
            raise ValueError
        match = None if content["match"] is None else match_from(content["match"])
        pose = Pose2.from_array(content["T_house_walk"])
        return Alignment(walk_id, pose, match, bool(content["accepted"]), str(content["reason"]))
    except _WRONG as error:
        raise DataError(f"{path} is damaged: the walk is taken without its alignment") from error
