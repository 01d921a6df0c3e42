"""One step of dopri5 for many rows with a size each: stages, error estimate, next step size, first step size.

The Butcher tableau is that of Dormand and Prince (1980), its dense output that of Shampine (1986).
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from svfm_ros.config.svfm_config import SolverConfig
from svfm_ros.svfm.solver.array_backend import Array, Arrays, Evaluate, Field

__all__ = [
    "DENSE",
    "ERROR",
    "GROW",
    "NODES",
    "STAGES",
    "STRETCH",
    "Attempt",
    "Stepper",
    "Tableau",
    "choose_first_step",
    "tableau",
]

NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
"""Times of the stages after the first one, from 0 to 1 within the step."""

_LAST = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)

STAGES: tuple[tuple[float, ...], ...] = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    _LAST,
)
"""Weights of the earlier stages in each stage's state. The last one is the next step's first."""

_FOURTH_ORDER = (1951 / 21600, 0.0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60)

ERROR = tuple(b - low for b, low in zip((*_LAST, 0.0), _FOURTH_ORDER, strict=True))
"""Weights of the difference between the fifth and the fourth order, the error estimate."""

_MIDDLE = (
    6025192743 / 30085553152 / 2,
    0.0,
    51252292925 / 65400821598 / 2,
    -2691868925 / 45128329728 / 2,
    187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2,
    11237099 / 235043384 / 2,
)


def _dense_weights() -> tuple[tuple[float, ...], ...]:
    first = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    final = first[::-1]
    rows = list(zip(first, final, (*_LAST, 0.0), _MIDDLE, strict=True))
    return (
        first,
        tuple(-4 * a + b - 5 * new + 16 * middle for a, b, new, middle in rows),
        tuple(5 * a - 3 * b + 14 * new - 32 * middle for a, b, new, middle in rows),
        tuple(-2 * a + 2 * b - 8 * new + 16 * middle for a, b, new, middle in rows),
    )


DENSE = _dense_weights()
"""Weights of x, x², x³, x⁴ ``(4, 7)``: the quartic with the step's two ends, their slopes and its middle."""


@dataclass(frozen=True, slots=True)
class Tableau:
    """The weights in one dtype on one device."""

    nodes: Tensor  # (6, 1), always float64, like time
    stages: tuple[Tensor, ...]  # vectors of 1 to 6 weights
    error: Tensor  # (7,)
    dense: Tensor  # (4, 7)


@lru_cache(maxsize=16)
def tableau(dtype: torch.dtype, device: torch.device) -> Tableau:
    """The weights for states of that dtype on that device."""
    with torch.inference_mode(False):
        return Tableau(
            nodes=torch.tensor(NODES, dtype=torch.float64, device=device).unsqueeze(1),
            stages=tuple(torch.tensor(row, dtype=dtype, device=device) for row in STAGES),
            error=torch.tensor(ERROR, dtype=dtype, device=device),
            dense=torch.tensor(DENSE, dtype=dtype, device=device),
        )


SAFETY = 0.9  # factor below the longest step that the error allows
SHRINK, GROW = 0.2, 10.0  # limits of the ratio of consecutive steps
STRETCH = 1.1  # a step may be this much longer than planned if it then reaches the end; SAFETY leaves room for it

_PROBE = 0.01  # the probe moves the state by this share of its size ...
_PROBE_SHARE = 0.1  # ... and covers at most this share of the interval
_SHARPNESS = 5.4e-4  # on a linear field dopri5's error is this times h⁵ times the fifth derivative
_CAUTION = 0.5  # the first step as a share of what that error allows


@dataclass(slots=True)
class Attempt:
    """Result of a step before it is accepted or rejected."""

    state: Array  # (n, D)
    slope: Array  # (n, D), the field there: first stage of the next step
    rating: Array  # (n,), mean square of error over tolerance; accepted up to 1


class Stepper:
    """Computes steps for a fixed number of rows; ``flat (7, n·D)`` holds the stages of the last one."""

    def __init__(self, arrays: Arrays, like: Array, config: SolverConfig) -> None:
        weights = tableau(arrays.unwrap(like).dtype, arrays.unwrap(like).device)
        self._arrays, self._rtol, self._atol = arrays, config.rtol, config.atol
        self._nodes, self._error = arrays.wrap(weights.nodes), arrays.wrap(weights.error)
        self._columns = like.shape[1]
        self._mean = arrays.empty((self._columns,), like)
        self._mean[:] = 1.0 / self._columns
        self.dense = arrays.wrap(weights.dense)
        stages = arrays.empty((7, *like.shape), like)
        self.flat = stages.reshape(7, -1)
        self._slots = tuple(stages)
        self._plan = [(arrays.wrap(w), self.flat[: i + 1], stages[i + 1]) for i, w in enumerate(weights.stages)]

    def attempt(self, field: Evaluate, t: Array, h: Array, state: Array, slope: Array) -> Attempt:
        """Six evaluations of the field, from a state whose slope is known."""
        multiply, product = self._arrays.xp.multiply, self._arrays.product
        times = self._arrays.nodes(self._arrays.cast(t + self._nodes * h, state))
        step = self._arrays.spread(self._arrays.cast(h, state), self._columns)
        multiply(slope, step, out=self._slots[0])
        point = state
        for time, (weights, stages, slot) in zip(times, self._plan, strict=True):
            point = state + product(weights, stages).reshape(state.shape)
            slope = field(time, point)
            multiply(slope, step, out=slot)
        return Attempt(point, slope, self._rate(state, point))

    def _rate(self, state: Array, point: Array) -> Array:
        size = self._arrays.xp.maximum(abs(state), abs(point))
        error = self._arrays.product(self._error, self.flat).reshape(size.shape) / (size * self._rtol + self._atol)
        return self._arrays.product(error * error, self._mean)

    def next_step(self, h: Array, rating: Array, growth: Array) -> Array:
        """The step that just meets the tolerance, times SAFETY; it grows by no more than ``growth (n,)``."""
        factor = SAFETY * rating**-0.1
        factor = self._arrays.xp.where(factor > SHRINK, factor, SHRINK)  # NaN counts as an error that is too large
        return self._arrays.xp.minimum(factor, growth) * h


def choose_first_step(
    field: Field, t: Tensor, left: Tensor, state: Tensor, slope: Tensor, config: SolverConfig
) -> Tensor:
    """The first step size ``(n,)`` from one probe ahead, at most the whole interval.

    The probe gives the time in which the field changes by its own size. Assuming that higher derivatives scale alike,
    it predicts dopri5's error. A constant field is solved in one step.
    """
    scale = 1.0 / (config.atol + config.rtol * state.abs())
    speed = _rms(slope * scale)
    probe = torch.minimum(_PROBE / (config.rtol * speed), _PROBE_SHARE * left.to(state.dtype))
    ahead = field((t + probe).to(state.dtype), torch.addcmul(state, slope, probe.unsqueeze(1)))
    change = _rms((ahead - slope) * scale)
    speed = torch.maximum(speed, _rms(ahead * scale))
    step = _CAUTION * (probe * speed / change).pow(0.8) * (_SHARPNESS * speed).pow(-0.2)
    # A zero field gives 0 / 0 and takes one step; a field that is not finite nearby starts with small steps.
    step = torch.where(speed.isfinite(), torch.fmin(step, left), probe * 0.1)
    return step.to(left.dtype)


def _rms(values: Tensor) -> Tensor:
    return values.square().mean(dim=1).sqrt()
