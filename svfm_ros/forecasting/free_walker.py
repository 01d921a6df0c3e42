"""The free walker: the next move of someone who follows no known habit, from their last moves alone.

An augmented stochastic field (the paper's A-): its state is position and the last six moves. A small network sees these
moves in the walker's own frame and returns centre and scale of two Student-t densities, along and across. It knows
nothing of the house, so it can be learnt from other people elsewhere (``fit/free_walker_fit.py``) and serves on the
first day.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.forecasting.field_step import student_log_density

__all__ = [
    "FEATURES",
    "HIDDEN",
    "MEMORY",
    "TICK_S",
    "FreeWalker",
    "FreeWalkerPrior",
    "context",
    "free_log_densities",
    "free_predict",
]

Array = NDArray[np.float64]

MEMORY = 6
"""Moves that the walker's state holds."""
FEATURES = 2 * MEMORY + 4
"""Moves in the walker's frame (12), their unsteadiness, the speed, the last turn, how many moves are known."""
HIDDEN = 24
_SCALE_M = 0.25  # features are in these units
_LEAST_M = 0.005  # smallest base scale of a move, metres
_MOST_M = 0.2  # largest: an odd move must not make the next ones ever more odd
TICK_S = 0.4
"""The network's own time step; moves of another step are rescaled."""


@dataclass(frozen=True, slots=True)
class FreeWalker:
    """Weights of the network and of the first move."""

    w1: Array  # (FEATURES, HIDDEN)
    b1: Array  # (HIDDEN,)
    w2: Array  # (HIDDEN, HIDDEN)
    b2: Array  # (HIDDEN,)
    w3: Array  # (HIDDEN, 4): centre along, across; log scale along, across
    b3: Array  # (4,)
    nu: Array  # (2,), degrees of freedom along and across
    first: Array  # (2,), scale in metres and degrees of freedom of a move about which nothing is known

    @property
    def parts(self) -> tuple[Array, ...]:
        """As compiled code takes them."""
        return self.w1, self.b1, self.w2, self.b2, self.w3, self.b3, self.nu, self.first

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """As named arrays."""
        names = ("w1", "b1", "w2", "b2", "w3", "b3", "nu", "first")
        return {name: np.asarray(getattr(self, name), dtype=np.float32) for name in names}

    @classmethod
    def from_arrays(cls, x: dict[str, NDArray[np.generic]]) -> "FreeWalker":
        """The reverse of ``arrays``."""
        return cls(**{name: np.ascontiguousarray(value, dtype=float) for name, value in x.items()})


@dataclass(frozen=True, slots=True)
class FreeWalkerPrior:
    """The population's free walker and the precision of each of its weights."""

    free: FreeWalker
    precision: dict[str, Array]  # by the names of the network's weights, and ``log_nu``

    def save(self, path: Path) -> None:
        """Write it as one file (safetensors)."""
        from safetensors.numpy import save_file

        parts = {**self.free.arrays(), **{f"precision.{n}": x.astype(np.float32) for n, x in self.precision.items()}}
        save_file({name: np.ascontiguousarray(x) for name, x in parts.items()}, path)

    @classmethod
    def load(cls, path: Path | None = None) -> "FreeWalkerPrior":
        """Read it; without a path, the one that ships with the package."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        where = Path(path) if path is not None else Path(__file__).with_name("population.safetensors")
        try:
            parts = load_file(where)
            free = FreeWalker.from_arrays({n: x for n, x in parts.items() if "." not in n})
            precision = {n.split(".")[1]: x.astype(float) for n, x in parts.items() if n.startswith("precision.")}
        except (SafetensorError, OSError, TypeError) as error:
            raise DataError(f"expected a population prior at {where}, got something else") from error
        return cls(free, precision)


@kernel
def context(moves, count, features):  # type: ignore[no-untyped-def]
    """Fill ``features`` from the last moves (MEMORY, 2), newest first, of which ``count`` are known.

    Returns the walker's direction as a unit vector and the base scale in metres. The direction is that of the mean of
    the last two moves, or of all known ones where these are too short.
    """
    known = min(count, MEMORY)
    sx, sy, mx, my = 0.0, 0.0, 0.0, 0.0
    for j in range(known):
        mx += moves[j, 0]
        my += moves[j, 1]
        if j < 2:
            sx += moves[j, 0]
            sy += moves[j, 1]
    if math.sqrt(sx * sx + sy * sy) < 0.02:
        sx, sy = mx, my
    length = math.sqrt(sx * sx + sy * sy)
    ux, uy = (sx / length, sy / length) if length > 1e-6 else (1.0, 0.0)
    n = max(known, 1)
    mx, my = mx / n, my / n
    unsteady = 0.0
    for j in range(MEMORY):
        if j < known:
            x, y = moves[j, 0], moves[j, 1]
            unsteady += (x - mx) ** 2 + (y - my) ** 2
        else:
            x, y = mx, my
        features[2 * j] = (x * ux + y * uy) / _SCALE_M
        features[2 * j + 1] = (y * ux - x * uy) / _SCALE_M
    unsteady = math.sqrt(unsteady / n)
    speed = math.sqrt(mx * mx + my * my)
    features[2 * MEMORY] = math.log(unsteady + 0.01) + 3.0
    features[2 * MEMORY + 1] = math.log(speed + 0.02) + 1.5
    features[2 * MEMORY + 2] = (features[1] - features[3]) * 2.0
    features[2 * MEMORY + 3] = known / MEMORY - 0.5
    return ux, uy, min(_LEAST_M + 0.3 * unsteady + 0.06 * speed, _MOST_M)


@kernel
def free_predict(moves, count, weights, features, hidden, out):  # type: ignore[no-untyped-def]
    """Direction (ux, uy), centre (along, across), scales (2) and degrees of freedom (2) of the next move.

    ``features`` (FEATURES,), ``hidden`` (2, HIDDEN) and ``out`` (4,) are scratch.
    """
    w1, b1, w2, b2, w3, b3, nu, first = weights
    if count == 0:
        return 1.0, 0.0, 0.0, 0.0, first[0], first[0], first[1], first[1]
    ux, uy, base_m = context(moves, count, features)
    for j in range(len(b1)):
        total = b1[j]
        for i in range(len(features)):
            total += features[i] * w1[i, j]
        hidden[0, j] = math.tanh(total)
    for j in range(len(b2)):
        total = b2[j]
        for i in range(len(b1)):
            total += hidden[0, i] * w2[i, j]
        hidden[1, j] = math.tanh(total)
    for j in range(4):
        total = b3[j]
        for i in range(len(b2)):
            total += hidden[1, i] * w3[i, j]
        out[j] = total
    last_v = moves[0, 0] * ux + moves[0, 1] * uy
    last_u = moves[0, 1] * ux - moves[0, 0] * uy
    scale_v = base_m * math.exp(min(max(out[2], -4.0), 4.0))
    scale_u = base_m * math.exp(min(max(out[3], -4.0), 4.0))
    return ux, uy, last_v + base_m * out[0], last_u + base_m * out[1], scale_v, scale_u, nu[0], nu[1]


@kernel
def free_log_densities(xy, position_var, weights, ticks, out):  # type: ignore[no-untyped-def]
    """Log densities (I,) of the moves between positions (I + 1, 2); ``ticks`` is dt over the network's own step."""
    moves = np.zeros((MEMORY, 2))
    features, hidden, raw = np.zeros(FEATURES), np.zeros((2, HIDDEN)), np.zeros(4)
    for i in range(len(xy) - 1):
        dx, dy = (xy[i + 1, 0] - xy[i, 0]) / ticks, (xy[i + 1, 1] - xy[i, 1]) / ticks
        ux, uy, c_v, c_u, s_v, s_u, nu_v, nu_u = free_predict(moves, min(i, MEMORY), weights, features, hidden, raw)
        noise = position_var[i] / (ticks * ticks)
        s_v, s_u = math.sqrt(s_v * s_v + noise), math.sqrt(s_u * s_u + noise)
        along, across = dx * ux + dy * uy, dy * ux - dx * uy
        log_p = student_log_density((along - c_v) / s_v, nu_v) + student_log_density((across - c_u) / s_u, nu_u)
        out[i] = log_p - math.log(s_v * s_u) - 2.0 * math.log(ticks)
        moves[1:] = moves[:-1].copy()
        moves[0, 0], moves[0, 1] = dx, dy
