"""One step of dopri5 for many rows, each with its own size: the stages, the verdict on the error, the first step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.config.solver_config import SolverConfig
from svfm_ros.svfm.solver.array_backend import Array, Arrays, Evaluate, Field
from svfm_ros.svfm.solver.butcher_tableau import tableau

__all__ = ["GROW", "STRETCH", "Attempt", "Stepper", "choose_first_step"]

SAFETY = 0.9  # aim a little below the longest step that would do
SHRINK, GROW = 0.2, 10.0  # one step changes the next one by no more than this
STRETCH = 1.1  # a step may be this much longer than planned if it then arrives; SAFETY leaves room for it

_PROBE = 0.01  # the first look ahead moves the state by this share of its size
_LOOK = 0.1  # but goes no further than this share of the way
_SHARPNESS = 5.4e-4  # on a linear field dopri5's error is this times h⁵ times the fifth derivative
_CAUTION = 0.5  # the first step, over what that would allow


@dataclass(slots=True)
class Attempt:
    """Where a step would lead."""

    state: Array  # (n, D)
    slope: Array  # (n, D), the field there: it opens the next step
    rating: Array  # (n,), mean square of the error over what is allowed; a step passes up to 1


class Stepper:
    """Takes steps for a fixed number of rows; the stages of the last one stay in ``flat (7, n·D)``."""

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
        """The step that would just meet the tolerance, with some room; it grows by no more than ``growth (n,)``."""
        factor = SAFETY * rating**-0.1
        factor = self._arrays.xp.where(factor > SHRINK, factor, SHRINK)  # NaN counts as far too long
        return self._arrays.xp.minimum(factor, growth) * h


def choose_first_step(
    field: Field, t: Tensor, left: Tensor, state: Tensor, slope: Tensor, config: SolverConfig
) -> Tensor:
    """A first step from one look ahead ``(n,)``, at most the whole way.

    The look tells in what time the field changes by its own size. If the higher derivatives follow suit, dopri5's
    error is known. A field that does not change is crossed in one step.
    """
    scale = 1.0 / (config.atol + config.rtol * state.abs())
    speed = _rms(slope * scale)
    probe = torch.minimum(_PROBE / (config.rtol * speed), _LOOK * left.to(state.dtype))
    ahead = field((t + probe).to(state.dtype), torch.addcmul(state, slope, probe.unsqueeze(1)))
    change = _rms((ahead - slope) * scale)
    speed = torch.maximum(speed, _rms(ahead * scale))
    step = _CAUTION * (probe * speed / change).pow(0.8) * (_SHARPNESS * speed).pow(-0.2)
    # A field at rest gives 0 / 0 and is crossed at once; one that breaks off nearby asks for small steps.
    step = torch.where(speed.isfinite(), torch.fmin(step, left), probe * 0.1)
    return step.to(left.dtype)


def _rms(values: Tensor) -> Tensor:
    return values.square().mean(dim=1).sqrt()
