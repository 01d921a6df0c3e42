"""Arrays that grow: room is doubled when it runs out, so a row costs the same on average however many there are."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["grown"]

T = TypeVar("T", bound=np.generic)


def grown(array: NDArray[T], rows: int) -> NDArray[T]:
    """The array itself if it has that many rows, else a copy at least twice as long; old views keep the old one."""
    if rows <= len(array):
        return array
    longer = np.empty((max(rows, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer
