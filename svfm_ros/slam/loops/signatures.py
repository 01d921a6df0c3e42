"""Which places look alike? Signatures that do not change when a place is turned.

A signature is taken of the walls within a few metres of a spot: how far they are from the spot and from each other. It
costs next to nothing, says nothing about where, and only orders the submaps that are worth a thorough look.
"""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel

__all__ = ["likeness", "signatures"]

Array = NDArray[np.float64]

_REACH_M = 6.0
_BINS = 24  # of pairwise distances up to twice the reach, and as many of distances from the spot
_MOST_POINTS = 200


def signatures(points: Array, spots: Array) -> Array:
    """Of points ``(N, 2)`` as seen from each spot ``(S, 2)``: ``(S, 48)``, each of length one."""
    raw = np.array([_signature(_around(points, spot), _REACH_M, _BINS) for spot in spots]).reshape(len(spots), -1)
    length = np.linalg.norm(raw, axis=1, keepdims=True)
    return np.asarray(raw / np.maximum(length, 1e-12))


def likeness(one: Array, others: Array) -> float:
    """Of a place with signature ``(48,)`` to the most similar of others ``(S, 48)``: 1 when equal."""
    return float(np.max(others @ one, initial=0.0))


def _around(points: Array, spot: Array) -> Array:
    near = points - spot
    near = near[np.hypot(near[:, 0], near[:, 1]) < _REACH_M]
    return np.ascontiguousarray(near[:: max(1, len(near) // _MOST_POINTS)])


@kernel
def _signature(points: Array, reach_m: float, bins: int) -> Array:
    """Square roots of histograms (so that large bins do not drown small ones), from the spot and between points."""
    out = np.zeros(2 * bins)
    n = len(points)
    for i in range(n):
        from_spot = np.sqrt(points[i, 0] ** 2 + points[i, 1] ** 2)
        out[min(bins - 1, int(from_spot / reach_m * bins))] += 1.0 / max(n, 1)
        for j in range(i):
            apart = np.sqrt((points[i, 0] - points[j, 0]) ** 2 + (points[i, 1] - points[j, 1]) ** 2)
            out[bins + min(bins - 1, int(apart / (2.0 * reach_m) * bins))] += 2.0 / max(n * n, 1)
    return np.sqrt(out)
