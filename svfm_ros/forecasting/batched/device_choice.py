"""Which device forecasts run on: by name, or the faster one. Without a GPU, torch is never imported."""

import ctypes
import re
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from svfm_ros.errors import ConfigError

__all__ = ["faster", "gpu_count", "pick_device"]

T = TypeVar("T")

_TRIALS = 3


def gpu_count() -> int:
    """CUDA devices that the driver offers; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def pick_device(name: str) -> str:
    """``auto`` (the GPU if there is one), ``cpu``, ``cuda`` or ``cuda:N``."""
    if name == "cpu":
        return name
    import torch  # takes seconds

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise ConfigError(f"expected a device among auto, cpu, cuda, cuda:N, got {name!r}")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise ConfigError(f"expected a CUDA device for {name!r}, got a machine without one; 'auto' falls back to cpu")
    if match.group(1) is not None and int(match.group(1)) >= count:
        raise ConfigError(f"expected a CUDA device below {count}, got {name!r}")
    return name


def faster(choices: Sequence[T], run: Callable[[T], object], clock: Callable[[], float] = time.perf_counter) -> T:
    """The choice with which ``run`` takes the least time: best of three, after one run that is not timed."""

    def took(choice: T) -> float:
        run(choice)
        times = []
        for _ in range(_TRIALS):
            began = clock()
            run(choice)
            times.append(clock() - began)
        return min(times)

    return min(choices, key=took)
