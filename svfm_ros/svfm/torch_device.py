"""The torch device of a name such as ``auto``, ``cpu`` or ``cuda:1``."""

import re

import torch

from svfm_ros.errors import ConfigError

__all__ = ["pick_device"]


def pick_device(name: str = "auto") -> torch.device:
    """``auto`` (the GPU if there is one), ``cpu``, ``cuda`` or ``cuda:N``."""
    if name == "cpu":
        return torch.device("cpu")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise ConfigError(f"expected a device among auto, cpu, cuda, cuda:N, got {name!r}")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise ConfigError(f"expected a CUDA device for {name!r}, got a machine without one; 'auto' falls back to cpu")
    if match.group(1) is not None and int(match.group(1)) >= count:
        raise ConfigError(f"expected a CUDA device below {count}, got {name!r}")
    return torch.device(name)
