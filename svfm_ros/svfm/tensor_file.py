"""Files of tensors and plain data: written whole or not at all, read without running code from them."""

import io
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch

from svfm_ros.atomic_files import write_whole
from svfm_ros.errors import DataError

__all__ = ["read_tensors", "write_tensors"]


def write_tensors(path: Path, payload: dict[str, Any]) -> None:
    """Write or replace the file; a reader sees the old one or the new one."""
    buffer = io.BytesIO()
    torch.save(payload, buffer)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, buffer.getvalue())


def read_tensors(path: Path, kind: str, device: torch.device | str = "cpu") -> dict[str, Any]:
    """The payload that ``write_tensors`` wrote, if it is of this kind; DataError for anything else."""
    try:
        with zipfile.ZipFile(path) as archive:  # torch does not verify check sums
            if archive.testzip() is not None:
                raise zipfile.BadZipFile
        payload = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise DataError(f"expected a {kind} at {path}, got no file") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        LookupError,
    ) as error:
        raise DataError(f"expected a {kind} at {path}, got a file that is damaged or something else") from error
    if not isinstance(payload, dict) or payload.get("kind") != kind:
        raise DataError(f"expected a {kind} at {path}, got something else")
    return payload
