"""Memory that is given back: for processes that run for weeks.

The C library keeps what is freed for later use, in as many heaps as there are threads, and begins to take large arrays
from there, too, once it has seen some come and go. In between them, holes stay that nobody can use: a process that
makes and drops maps and tables grows for hours. Told to map large arrays one by one, it gives each back when it goes.
"""

import ctypes

__all__ = ["give_memory_back"]

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8  # as glibc numbers them
_LARGE_BYTES = 256 * 1024
_HEAPS = 2


def give_memory_back() -> bool:
    """Set it for this process; False where the C library knows nothing of it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = ((_MMAP_THRESHOLD, _LARGE_BYTES), (_TRIM_THRESHOLD, _LARGE_BYTES), (_ARENA_MAX, _HEAPS))
    return all(mallopt(name, value) == 1 for name, value in options)
