"""Messages as they go over the wire (CDR, little endian), laid down from arrays without an object per element."""

import struct

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cdr"]


class Cdr:
    """Lays values down one after the other, each on a multiple of its size."""

    def __init__(self) -> None:
        self._data = bytearray()

    def align(self, size: int) -> None:
        """Fill up to a multiple of ``size``."""
        self._data.extend(b"\0" * (-len(self._data) % size))

    def put(self, kinds: str, *values: float) -> None:
        """Single values; ``kinds`` as in ``struct``, one letter each."""
        for kind, value in zip(kinds, values, strict=True):
            self.align(struct.calcsize(kind))
            self._data.extend(struct.pack("<" + kind, value))

    def text(self, text: str) -> None:
        """A string."""
        encoded = text.encode() + b"\0"
        self.put("I", len(encoded))
        self._data.extend(encoded)

    def rows(self, values: NDArray[np.float64], kind: str) -> None:
        """A sequence of rows of numbers, such as points; ``kind`` as in numpy."""
        self.put("I", len(values))
        if len(values):
            self.align(np.dtype(kind).itemsize)
            self._data.extend(np.ascontiguousarray(values, dtype=kind).tobytes())

    def raw(self, data: bytes) -> None:
        """Bytes that are laid out already."""
        self._data.extend(data)

    def finish(self) -> bytes:
        """The message, with the header that names the encoding."""
        return b"\0\1\0\0" + bytes(self._data)
