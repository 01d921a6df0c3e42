"""Files of tensors and plain data: written whole or not at all, read without running code from them."""

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from svfm_ros.config.options import to_mapping
from svfm_ros.config.svfm import TrainConfig
from svfm_ros.errors import DataError

__all__ = ["load_state", "read_tensors", "save_state", "write_tensors"]

_KIND = "svfm_ros training state"


def write_tensors(path: Path, payload: dict[str, Any]) -> None:
    """Write beside the target, flush to disk, rename into place: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            torch.save(payload, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(path: Path, kind: str, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What ``write_tensors`` wrote, if its "kind" is the one asked for; anything else is refused in one sentence."""
    try:
        payload = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise DataError(f"expected a {kind} at {path}, got no file") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"expected a {kind} at {path}, got a file that is damaged or something else") from error
    if not isinstance(payload, dict) or payload.get("kind") != kind:
        raise DataError(f"expected a {kind} at {path}, got something else")
    return payload


def save_state(path: Path, state: dict[str, Any], config: TrainConfig) -> None:
    """The state of a training in the middle."""
    write_tensors(path, {"kind": _KIND, "config": to_mapping(config), **state})


def load_state(path: Path, config: TrainConfig) -> dict[str, Any] | None:
    """That state, or None if there is no file; the options must be those it was made with."""
    if not path.exists():
        return None
    state = read_tensors(path, _KIND)
    if state["config"] != to_mapping(config):
        raise DataError(f"expected {path} to hold a training with the same options, got different ones; remove it")
    return state
