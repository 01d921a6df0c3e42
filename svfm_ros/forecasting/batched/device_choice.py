"""Which device forecasts run on. Without a GPU, torch is never imported."""

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["faster", "gpu_count"]

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
