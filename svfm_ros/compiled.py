"""Compiles loops with numba.

Compiled code is cached next to the sources, or in the user's cache folder where these cannot be written. Where neither
can be written, functions are compiled in each process.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., Any])

# All of fastmath but the assumption that there is no NaN and no infinity: scans contain both.
_FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}


def kernel(function: F) -> F:
    """Compile a function of numbers and arrays; it runs without Python's lock and its machine code is cached."""
    options: dict[str, Any] = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy"}
    try:
        compiled: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder to keep the code in
        compiled = numba.njit(**options)(function)
    return compiled
