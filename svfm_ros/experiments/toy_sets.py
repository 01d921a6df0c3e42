"""The paper's three sets of points for classification, and their Bayes rates.

Nested circles and moons are drawn by scikit-learn; exclusive or is uniform on a square. The Bayes rate of the first two
comes from their own density: a curve blurred by Gaussian noise.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from svfm_ros.errors import UsageError

__all__ = ["NOISE", "SETS", "Points", "bayes_rate", "draw_points"]

Array = NDArray[np.float64]

SETS = ("circles", "moons", "xor")
NOISE = {"circles": 0.05, "moons": 0.1, "xor": 0.0}
"""The default noise of each set."""

POINTS = 1000
_FACTOR = 0.5  # radius of the inner circle
_ALONG_CURVE = 400


@dataclass(frozen=True, slots=True)
class Points:
    """Points in the plane and their class."""

    x: Tensor  # (N, 2)
    label: Tensor  # (N,), 0 or 1


def draw_points(name: str, seed: int, noise: float | None = None, count: int = POINTS) -> Points:
    """``count`` points of a set; another seed gives other points."""
    noise = NOISE[name] if noise is None else noise
    x, label = _draw(name, seed, noise, count)
    return Points(torch.tensor(x, dtype=torch.float32), torch.tensor(label))


def _draw(name: str, seed: int, noise: float, count: int) -> tuple[Array, NDArray[np.int64]]:
    from sklearn.datasets import make_circles, make_moons

    if name == "circles":
        x, label = make_circles(count, noise=noise, factor=_FACTOR, random_state=seed)
    elif name == "moons":
        x, label = make_moons(count, noise=noise, random_state=seed)
    elif name == "xor":
        x = np.random.default_rng(seed).uniform(-1.0, 1.0, (count, 2))
        label = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    else:
        raise UsageError(f"expected one of {', '.join(SETS)}, got {name!r}")
    return x, label


def bayes_rate(name: str, noise: float, seed: int = 0, count: int = 20_000) -> float:
    """Accuracy of the best possible classifier, by Monte Carlo on the set's true density; 1 for exclusive or."""
    if name == "xor":
        return 1.0
    x, label = _draw(name, seed, noise, count)
    densities = np.stack([_curve_density(x, curve, noise) for curve in _curves(name)])  # (2, N), class 0 and 1
    return float(np.mean(densities.argmax(0) == label))


def _curves(name: str) -> tuple[Array, Array]:
    """Points along the curve of class 0 and of class 1, before noise."""
    if name == "circles":
        turn = np.linspace(0, 2 * np.pi, _ALONG_CURVE, endpoint=False)
        outer = np.column_stack((np.cos(turn), np.sin(turn)))
        return outer, outer * _FACTOR
    turn = np.linspace(0, np.pi, _ALONG_CURVE)
    upper = np.column_stack((np.cos(turn), np.sin(turn)))
    return upper, np.column_stack((1.0 - upper[:, 0], 0.5 - upper[:, 1]))


def _curve_density(x: Array, curve: Array, noise: float) -> Array:
    """Unnormalised density (N,) of a uniform curve with Gaussian noise; both classes share the constant."""
    squared = ((x[:, None, :] - curve[None]) ** 2).sum(-1)
    return np.asarray(np.exp(-0.5 * squared / noise**2).mean(1))
