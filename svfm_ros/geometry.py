"""Rigid transforms of the plane, vectorised.

A pose is an array ``(..., 3)`` of ``x, y, theta`` in metres and radians. ``T_a_b`` takes coordinates in b to
coordinates in a, so ``compose(T_a_b, T_b_c)`` is ``T_a_c``: inner names cancel.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["apply", "compose", "exp", "inverse", "log", "relative", "wrap_angle"]

Array = NDArray[np.float64]

# Below this angle sin(x)/x and (1 - cos(x))/x are replaced by their series; the error of the series is of order 1e-16.
SMALL_ANGLE_RAD = 1e-4


def wrap_angle(theta_rad: ArrayLike) -> Array:
    """The same angle in [-pi, pi)."""
    return np.asarray((np.asarray(theta_rad, dtype=float) + np.pi) % (2.0 * np.pi) - np.pi)


def compose(T_a_b: ArrayLike, T_b_c: ArrayLike) -> Array:
    """``T_a_c`` for poses ``(..., 3)``; leading dimensions broadcast."""
    a, b = np.asarray(T_a_b, dtype=float), np.asarray(T_b_c, dtype=float)
    c, s = np.cos(a[..., 2]), np.sin(a[..., 2])
    x = a[..., 0] + c * b[..., 0] - s * b[..., 1]
    y = a[..., 1] + s * b[..., 0] + c * b[..., 1]
    return np.stack(np.broadcast_arrays(x, y, wrap_angle(a[..., 2] + b[..., 2])), axis=-1)


def inverse(T_a_b: ArrayLike) -> Array:
    """``T_b_a``."""
    p = np.asarray(T_a_b, dtype=float)
    c, s = np.cos(p[..., 2]), np.sin(p[..., 2])
    x = -c * p[..., 0] - s * p[..., 1]
    y = s * p[..., 0] - c * p[..., 1]
    return np.stack([x, y, wrap_angle(-p[..., 2])], axis=-1)


def relative(T_a_b: ArrayLike, T_a_c: ArrayLike) -> Array:
    """``T_b_c``: c as seen from b."""
    return compose(inverse(T_a_b), T_a_c)


def apply(T_a_b: ArrayLike, points_b: ArrayLike) -> Array:
    """Points ``(N, 2)`` of b in a; a stack of poses ``(..., 3)`` gives ``(..., N, 2)``."""
    p, q = np.asarray(T_a_b, dtype=float), np.asarray(points_b, dtype=float)
    c, s = np.cos(p[..., 2, None]), np.sin(p[..., 2, None])
    x = p[..., 0, None] + c * q[..., 0] - s * q[..., 1]
    y = p[..., 1, None] + s * q[..., 0] + c * q[..., 1]
    return np.stack([x, y], axis=-1)


def _sine_and_cosine_quotients(theta: Array) -> tuple[Array, Array]:
    """``sin(t)/t`` and ``(1 - cos(t))/t``, exact near zero."""
    small = np.abs(theta) < SMALL_ANGLE_RAD
    safe = np.where(small, 1.0, theta)
    sine = np.where(small, 1.0 - theta**2 / 6.0, np.sin(safe) / safe)
    cosine = np.where(small, theta / 2.0, (1.0 - np.cos(safe)) / safe)
    return sine, cosine


def exp(twist: ArrayLike) -> Array:
    """The pose reached by following a constant twist ``(..., 3)`` (vx, vy, omega) for one unit of time."""
    t = np.asarray(twist, dtype=float)
    sine, cosine = _sine_and_cosine_quotients(t[..., 2])
    x = sine * t[..., 0] - cosine * t[..., 1]
    y = cosine * t[..., 0] + sine * t[..., 1]
    return np.stack([x, y, wrap_angle(t[..., 2])], axis=-1)


def log(T_a_b: ArrayLike) -> Array:
    """The twist whose ``exp`` is the pose; the turn is taken in [-pi, pi)."""
    p = np.asarray(T_a_b, dtype=float)
    theta = wrap_angle(p[..., 2])
    sine, cosine = _sine_and_cosine_quotients(theta)
    norm = sine**2 + cosine**2
    vx = (sine * p[..., 0] + cosine * p[..., 1]) / norm
    vy = (sine * p[..., 1] - cosine * p[..., 0]) / norm
    return np.stack([vx, vy, theta], axis=-1)
