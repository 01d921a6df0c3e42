"""One alignment as one small JSON file with a checksum, readable by people and by anything else."""

import json
import zlib
from typing import Any

import numpy as np

from svfm_ros.errors import DataError
from svfm_ros.types import Alignment, MatchResult, Pose2

__all__ = ["decode_alignment", "encode_alignment"]

_SCHEMA = 1


def encode_alignment(alignment: Alignment) -> bytes:
    """The bytes of an alignment's file."""
    content = {
        "schema": _SCHEMA,
        "walk_id": alignment.walk_id,
        "T_house_walk": alignment.T_house_walk.as_array().tolist(),
        "match": None if alignment.match is None else _plain_match(alignment.match),
        "accepted": bool(alignment.accepted),
        "reason": alignment.reason,
    }
    return json.dumps({"alignment": content, "crc32": _checksum(content)}, indent=1).encode()


def decode_alignment(data: bytes, where: str) -> Alignment:
    """The alignment in the bytes of a file; ``where`` names the file in complaints."""
    try:
        whole = json.loads(data)
        content, checksum = whole["alignment"], whole["crc32"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where} is damaged: expected an alignment as JSON") from error
    if checksum != _checksum(content):
        raise DataError(f"{where} is damaged: its checksum does not match")
    if content["schema"] != _SCHEMA:
        raise DataError(f"{where} holds an alignment of schema {content['schema']}: expected {_SCHEMA}")
    match = None if content["match"] is None else _revived_match(content["match"])
    pose = Pose2.from_array(content["T_house_walk"])
    return Alignment(content["walk_id"], pose, match, content["accepted"], content["reason"])


def _checksum(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _plain_match(match: MatchResult) -> dict[str, Any]:
    return {
        "T_target_source": match.T_target_source.as_array().tolist(),
        "converged": bool(match.converged),
        "iterations": int(match.iterations),
        "inlier_ratio": float(match.inlier_ratio),
        "rmse_m": float(match.rmse_m),
        "information": np.asarray(match.information, dtype=float).tolist(),
    }


def _revived_match(plain: dict[str, Any]) -> MatchResult:
    return MatchResult(
        Pose2.from_array(plain["T_target_source"]),
        plain["converged"],
        plain["iterations"],
        plain["inlier_ratio"],
        plain["rmse_m"],
        np.array(plain["information"], dtype=float),
    )
