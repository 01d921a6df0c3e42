"""The free walker: the next move of someone who follows no known habit, from their last moves alone.

An augmented stochastic field (the paper's A-): its state is position and the last six moves. A small network sees these
moves in the walker's own frame and returns the probability of stopping now and the densities of the next move: two of
going on (centre and scale, along and across) and one of standing still. Each is a product of two Student-t. It knows
nothing of the house, so it can be learnt from other people elsewhere (``fit/free_walker_fit.py``) and serves on the
first day.

Standing is a hidden state: who stands sets off with the same probability at every tick, that of the people of this
home or scene, and then moves as at the start of a walk. Without the state, the noise of the position of someone who
stands was taken for slow walking, and forecasts walked away: of people who had stood for 3 s in the training folds of
Hotel, 24 % left their position within 5 s in forecasts and nobody in truth; with the state, 12 %.

Noise of the positions of someone who stands does not add up: the next move leads a share of the way back to the mean of
the last positions. The share is that of the home or scene, because it depends on how people are tracked.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import read_regular, write_whole
from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.forecasting.field_step import student_log_density

__all__ = [
    "FEATURES",
    "FREE_ANY",
    "FREE_COLUMNS",
    "FREE_GOING",
    "FREE_SETTING_OFF",
    "FREE_STANDING",
    "FREE_STOPS",
    "GOING",
    "HIDDEN",
    "LEAST_M",
    "LOG_SCALES",
    "LOG_STILL",
    "MEMORY",
    "MOST_M",
    "OUTPUTS",
    "PARTS",
    "SCALE_M",
    "STILL_M",
    "SWAY_M",
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
GOING = 2
"""Parts of the mixture that go on; one more stands."""
PARTS = GOING + 1
OUTPUTS = 5 * GOING + 2
"""For each part that goes on: centre along, across, log scale along, across, log weight; then log weight and log scale
of standing."""
LOG_SCALES, LOG_STILL = (-4.0, 4.0), (-3.0, 1.5)
"""Limits of log scales: relative to the base scale, and to ``STILL_M``."""
STILL_M = 0.02
"""Usual scale of the moves of someone who stands, metres."""
SWAY_M = 0.1
"""Positions of someone who stands are about so near to their mean, metres; who is farther off is not drawn back."""
SCALE_M = 0.25
"""Features are in these units."""
LEAST_M, MOST_M = 0.005, 0.2
"""Base scale of a move, metres: an odd move must not make the next ones ever more odd."""
TICK_S = 0.4
"""The network's own time step; moves of another step are rescaled."""

FREE_GOING, FREE_STANDING, FREE_SETTING_OFF, FREE_ANY, FREE_STOPS = range(5)
"""Columns that ``free_log_densities`` fills: log densities of a move of someone who walks on, who stands, who stood and
sets off; of someone of whom it is not known whether they stand; and the probability of stopping before the move."""
FREE_COLUMNS = 5

_WEIGHTS = {"w1": (FEATURES, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, HIDDEN), "b2": (HIDDEN,), "w3": (HIDDEN, OUTPUTS)}
_WEIGHTS |= {"b3": (OUTPUTS,)}
_PRIOR_SHAPES = {**_WEIGHTS, "nu": (2,), "first": (2,), "set_off": (1,), "precision.log_nu": (2,)}
_NO_SWAY = (0.0, 1.0)
_PRIOR_SHAPES |= {f"precision.{name}": shape for name, shape in _WEIGHTS.items()}
_MOST_PRIOR_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FreeWalker:
    """Weights of the network and of the first move."""

    w1: Array  # (FEATURES, HIDDEN)
    b1: Array  # (HIDDEN,)
    w2: Array  # (HIDDEN, HIDDEN)
    b2: Array  # (HIDDEN,)
    w3: Array  # (HIDDEN, OUTPUTS)
    b3: Array  # (OUTPUTS,)
    nu: Array  # (2,), degrees of freedom along and across
    first: Array  # (2,), scale in metres and degrees of freedom of a move about which nothing is known
    set_off: Array  # (1,), probability per tick that someone who stands sets off
    sway: Array = field(default_factory=lambda: np.array(_NO_SWAY))
    """Share of the way back that each move of someone who stands leads, and how much narrower that makes its scale."""

    @property
    def parts(self) -> tuple[Array, ...]:
        """As compiled code takes them."""
        return self.w1, self.b1, self.w2, self.b2, self.w3, self.b3, self.nu, self.first, self.set_off, self.sway

    def sets_off(self, dt_s: float) -> float:
        """Probability per step of ``dt_s`` that someone who stands sets off."""
        return float(1.0 - (1.0 - self.set_off[0]) ** (dt_s / TICK_S))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """As named arrays."""
        names = ("w1", "b1", "w2", "b2", "w3", "b3", "nu", "first", "set_off", "sway")
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
    numbers: dict[str, Array] = field(default_factory=dict)
    """Mean and precision (2,) of numbers that homes share, by name, as any real numbers (``raw``)."""

    def save(self, path: Path) -> None:
        """Write it as one file (safetensors), without the sway: it depends on how the people of a home are tracked."""
        from safetensors.numpy import save

        weights = {name: x for name, x in self.free.arrays().items() if name != "sway"}
        parts = {**weights, **{f"precision.{n}": x.astype(np.float32) for n, x in self.precision.items()}}
        parts |= {f"number.{n}": x.astype(np.float32) for n, x in self.numbers.items()}
        write_whole(Path(path), save({name: np.ascontiguousarray(x) for name, x in parts.items()}))

    @classmethod
    def load(cls, path: Path | None = None) -> "FreeWalkerPrior":
        """Read it; without a path, the one that ships with the package."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        where = Path(path) if path is not None else Path(__file__).with_name("population.safetensors")
        data = read_regular(where, _MOST_PRIOR_BYTES)
        try:
            parts = load(data)
        except (SafetensorError, KeyError, ValueError) as error:  # KeyError: a type that NumPy does not have
            raise DataError(f"expected a population prior at {where}, got something else") from error
        numbers = {n.split(".")[1]: x.astype(float) for n, x in parts.items() if n.startswith("number.")}
        shapes = {n: x.shape for n, x in parts.items() if not n.startswith("number.")}
        if shapes != _PRIOR_SHAPES or not all(np.isfinite(x).all() for x in parts.values()):  # type: ignore[call-overload]
            raise DataError(f"expected a population prior at {where}, got something else")
        if any(x.shape != (2,) or x[1] < 0.0 for x in numbers.values()):
            raise DataError(f"expected mean and precision of every number in {where}, got something else")
        free = FreeWalker.from_arrays({n: x for n, x in parts.items() if "." not in n})
        precision = {n.split(".")[1]: x.astype(float) for n, x in parts.items() if n.startswith("precision.")}
        return cls(free, precision, numbers)


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
        features[2 * j] = (x * ux + y * uy) / SCALE_M
        features[2 * j + 1] = (y * ux - x * uy) / SCALE_M
    unsteady = math.sqrt(unsteady / n)
    speed = math.sqrt(mx * mx + my * my)
    features[2 * MEMORY] = math.log(unsteady + 0.01) + 3.0
    features[2 * MEMORY + 1] = math.log(speed + 0.02) + 1.5
    features[2 * MEMORY + 2] = (features[1] - features[3]) * 2.0
    features[2 * MEMORY + 3] = known / MEMORY - 0.5
    return ux, uy, min(LEAST_M + 0.3 * unsteady + 0.06 * speed, MOST_M)


@kernel
def _way_back(moves, known):  # type: ignore[no-untyped-def]
    """Vector (x, y) from the position now to the mean of the last positions, metres; next to zero where that is far."""
    x, y = 0.0, 0.0
    for j in range(known):
        x -= (known - j) * moves[j, 0] / (known + 1)
        y -= (known - j) * moves[j, 1] / (known + 1)
    near = 1.0 / (1.0 + ((x * x + y * y) / (SWAY_M * SWAY_M)) ** 2)
    return near * x, near * y


@kernel
def _layer(x, weights, bias, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with bias + x @ weights; along the rows of the weights, so that it is compiled to vector code."""
    for j in range(len(out)):
        out[j] = bias[j]
    for i in range(len(x)):
        for j in range(len(out)):
            out[j] += x[i] * weights[i, j]


@kernel
def _squash(x):  # type: ignore[no-untyped-def]
    """Replace each number by its tanh."""
    for j in range(len(x)):
        x[j] = math.tanh(x[j])


@kernel
def free_predict(moves, count, weights, features, hidden, out, parts):  # type: ignore[no-untyped-def]
    """Direction (ux, uy) and degrees of freedom (along, across) of the next move.

    ``parts`` (PARTS, 5) gets the probability of each part of the mixture, its centre (along, across) and its scales in
    metres. ``features`` (FEATURES,), ``hidden`` (2, HIDDEN) and ``out`` (OUTPUTS,) are scratch.
    """
    w1, b1, w2, b2, w3, b3, nu, first, _, sway = weights
    if count == 0:
        parts[:] = 1.0
        parts[:, :3] = 0.0
        parts[0, 0], parts[0, 3], parts[0, 4] = 1.0, first[0], first[0]
        return 1.0, 0.0, first[1], first[1]
    ux, uy, base_m = context(moves, count, features)
    _layer(features, w1, b1, hidden[0])
    _squash(hidden[0])
    _layer(hidden[0], w2, b2, hidden[1])
    _squash(hidden[1])
    _layer(hidden[1], w3, b3, out)
    last_v = moves[0, 0] * ux + moves[0, 1] * uy
    last_u = moves[0, 1] * ux - moves[0, 0] * uy
    high = out[5 * GOING]
    for g in range(GOING):
        o = out[5 * g : 5 * g + 5]
        parts[g, 1], parts[g, 2] = last_v + base_m * o[0], last_u + base_m * o[1]
        parts[g, 3] = base_m * math.exp(min(max(o[2], LOG_SCALES[0]), LOG_SCALES[1]))
        parts[g, 4] = base_m * math.exp(min(max(o[3], LOG_SCALES[0]), LOG_SCALES[1]))
        high = max(high, o[4])
    still_m = sway[1] * STILL_M * math.exp(min(max(out[5 * GOING + 1], LOG_STILL[0]), LOG_STILL[1]))
    back_x, back_y = _way_back(moves, min(count, MEMORY))
    parts[GOING, 1], parts[GOING, 2] = sway[0] * (back_x * ux + back_y * uy), sway[0] * (back_y * ux - back_x * uy)
    parts[GOING, 3], parts[GOING, 4] = still_m, still_m
    parts[GOING, 0] = math.exp(out[5 * GOING] - high)
    for g in range(GOING):
        parts[g, 0] = math.exp(out[5 * g + 4] - high)
    parts[:, 0] /= parts[:, 0].sum()
    return ux, uy, nu[0], nu[1]


@kernel
def free_log_densities(xy, position_var, weights, ticks, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (I, FREE_COLUMNS) for the moves between positions (I + 1, 2).

    ``ticks`` is dt over the network's own step.
    """
    moves, parts = np.zeros((MEMORY, 2)), np.zeros((PARTS, 5))
    features, hidden, raw = np.zeros(FEATURES), np.zeros((2, HIDDEN)), np.zeros(OUTPUTS)
    log_each = np.zeros(PARTS)
    first_m, first_nu = weights[7]
    for i in range(len(xy) - 1):
        dx, dy = (xy[i + 1, 0] - xy[i, 0]) / ticks, (xy[i + 1, 1] - xy[i, 1]) / ticks
        ux, uy, nu_v, nu_u = free_predict(moves, min(i, MEMORY), weights, features, hidden, raw, parts)
        noise, unit = position_var[i] / (ticks * ticks), 2.0 * math.log(ticks)
        along, across = dx * ux + dy * uy, dy * ux - dx * uy
        for g in range(PARTS):
            s_v, s_u = math.sqrt(parts[g, 3] ** 2 + noise), math.sqrt(parts[g, 4] ** 2 + noise)
            log_p = student_log_density((along - parts[g, 1]) / s_v, nu_v)
            log_p += student_log_density((across - parts[g, 2]) / s_u, nu_u)
            log_each[g] = log_p - math.log(s_v * s_u) - unit
        stops = parts[GOING, 0]
        high = log_each[:GOING].max()
        going = (parts[:GOING, 0] * np.exp(log_each[:GOING] - high)).sum() / max(1.0 - stops, 1e-12)
        scale = math.sqrt(first_m**2 + noise)
        log_first = student_log_density(dx / scale, first_nu) + student_log_density(dy / scale, first_nu)
        out[i, FREE_GOING] = math.log(going + 1e-300) + high
        out[i, FREE_STANDING] = log_each[GOING]
        out[i, FREE_SETTING_OFF] = log_first - 2.0 * math.log(scale) - unit
        out[i, FREE_STOPS] = stops
        high = max(out[i, FREE_GOING], out[i, FREE_STANDING])
        any_of = (1.0 - stops) * math.exp(out[i, FREE_GOING] - high) + stops * math.exp(out[i, FREE_STANDING] - high)
        out[i, FREE_ANY] = math.log(any_of) + high
        moves[1:] = moves[:-1].copy()
        moves[0, 0], moves[0, 1] = dx, dy
