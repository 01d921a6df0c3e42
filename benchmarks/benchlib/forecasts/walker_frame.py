"""Vectors in a walker's own axes: along the direction of walking and to the left of it."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["from_own_axes", "heading_move", "to_own_axes"]

Array = NDArray[np.float64]


def to_own_axes(vectors: Array, along: Array) -> Array:
    """Vectors ``(..., 2)`` as their parts along ``along`` ``(..., 2)`` and to the left of it."""
    unit, left = _axes(along)
    return np.stack([(vectors * unit).sum(-1), (vectors * left).sum(-1)], axis=-1)


def from_own_axes(parts: Array, along: Array) -> Array:
    """The inverse of ``to_own_axes``."""
    unit, left = _axes(along)
    return np.asarray(parts[..., :1] * unit + parts[..., 1:] * left)


def heading_move(seen: Array, moves: int = 2) -> Array:
    """Mean of the last moves of positions ``(..., P, 2)``, at most ``moves`` of them: ``(..., 2)``; P at least 2."""
    used = min(moves, seen.shape[-2] - 1)
    return np.asarray((seen[..., -1, :] - seen[..., -1 - used, :]) / used)


def _axes(along: Array) -> tuple[Array, Array]:
    length = np.linalg.norm(along, axis=-1, keepdims=True)
    unit = np.where(length > 1e-9, along / np.maximum(length, 1e-9), np.array([1.0, 0.0]))
    return unit, np.stack([-unit[..., 1], unit[..., 0]], axis=-1)
