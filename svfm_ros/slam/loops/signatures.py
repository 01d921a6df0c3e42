"""Rotation-invariant signatures of wall points, to rank submaps by similarity.

A signature is a pair of histograms over the wall points within a few metres of a position: distances from the position
and between the points. It only orders the submaps for the search that follows.
"""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

__all__ = ["signatures", "similarity"]

Array = NDArray[np.float64]

_REACH_M = 6.0
_BINS = 24  # of pairwise distances up to twice the reach, and as many of distances from the position
_MOST_POINTS = 200


def signatures(points: Array, positions: Array) -> Array:
    """Signatures of points ``(N, 2)`` around each position ``(S, 2)``: ``(S, 48)``, each of length one."""
    raw = np.array([_signature(_around(points, position), _REACH_M, _BINS) for position in positions]).reshape(
        len(positions), -1
    )
    length = np.linalg.norm(raw, axis=1, keepdims=True)
    return np.asarray(raw / np.maximum(length, 1e-12))


def similarity(one: Array, others: Array) -> float:
    """Cosine similarity of a signature ``(48,)`` to the most similar of others ``(S, 48)``: 1 when equal."""
    return float(np.max(others @ one, initial=0.0))


def _around(points: Array, position: Array) -> Array:
    near = points - position
    near = near[np.hypot(near[:, 0], near[:, 1]) < _REACH_M]
    return np.ascontiguousarray(near[:: max(1, len(near) // _MOST_POINTS)])


@kernel
def _signature(points: Array, reach_m: float, bins: int) -> Array:
    """Square roots of the histograms (to balance large and small bins), from the position and between points."""
    out = np.zeros(2 * bins)
    n = len(points)
    for i in range(n):
        from_position = np.sqrt(points[i, 0] ** 2 + points[i, 1] ** 2)
        out[min(bins - 1, int(from_position / reach_m * bins))] += 1.0 / max(n, 1)
        for j in range(i):
            apart = np.sqrt((points[i, 0] - points[j, 0]) ** 2 + (points[i, 1] - points[j, 1]) ** 2)
            out[bins + min(bins - 1, int(apart / (2.0 * reach_m) * bins))] += 2.0 / max(n * n, 1)
    return np.sqrt(out)
