"""How loops are compiled: numba, ahead of use, kept on disk.

Compiled code is cached next to the sources, or in the user's cache folder where those cannot be written. Where neither
can be written, functions are compiled anew in each process: slower to start, the same to use.
"""

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.np import linalg

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., Any])

# All of fastmath but the licence to assume that there is no NaN and no infinity: scans are full of both.
_FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}


def kernel(function: F) -> F:
    """Compile a function of numbers and arrays; it runs without Python's lock and its machine code is cached."""
    options: dict[str, Any] = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy"}
    try:
        compiled: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder to keep the code in
        compiled = numba.njit(**options)(function)
    return compiled


def _load_without_linear_algebra() -> None:
    """Before it runs anything numba loads scipy's linear algebra, to see if it is there; no loop of ours uses it.

    That takes up to half a second, and is long for a node that was killed. Who uses it gets it a moment later.
    """

    def not_now() -> None:
        raise ImportError

    found, linalg.ensure_blas = linalg.ensure_blas, not_now
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = found
    arraymath._HAVE_BLAS = True


with contextlib.suppress(AttributeError, ImportError):  # another numba may do it another way
    _load_without_linear_algebra()
