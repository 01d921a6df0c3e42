"""Record of the steps of a solve: steps per row, states at the requested times, and the accepted steps.

Steps are stored as they are tried and evaluated together every 64 steps, so that a hundred requested times take little
more time than one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.svfm.solver.array_backend import Array, Arrays

__all__ = ["KeptSteps", "RowResults", "StepRecord", "interpolate"]

_STEPS_PER_READ = 64  # steps stored before they are evaluated


@dataclass(frozen=True, slots=True)
class KeptSteps:
    """Accepted steps, one entry each; those of a row are in the order of time."""

    row: Tensor  # (S,)
    left: Tensor  # (S,), time left before the step
    h: Tensor  # (S,)


@dataclass(slots=True)
class RowResults:
    """Results of a solve, in the order of the caller's batch."""

    states: Tensor  # (T, B, D), NaN at times that a row did not reach
    tried: Tensor  # (B,)
    rejected: Tensor  # (B,)
    status: Tensor  # (B,)


def interpolate(state: Tensor, coefficients: Tensor, x: Tensor) -> Tensor:
    """The quartic at ``x (m, 1)`` in [0, 1] from the state ``(m, D)`` at 0 and coefficients ``(4, m, D)``."""
    one, two, three, four = coefficients.unbind(0)
    return state + x * (one + x * (two + x * (three + x * four)))


class StepRecord:
    """Stores the steps tried and evaluates them into ``results``; ``asked (B, A)`` is the time left at inner times."""

    def __init__(self, arrays: Arrays, results: RowResults, asked: Tensor, keep_steps: bool = False) -> None:
        self._arrays, self._results, self._asked = arrays, results, asked
        self._dense = asked.shape[1] > 0 and not keep_steps
        self._kept: list[KeptSteps] | None = [] if keep_steps else None
        self._left: list[Array] = []  # (n,) each, before the step
        self._h: list[Array] = []  # (n,) each
        self._state: list[Array] = []  # (n, D) each, before the step
        self._coefficients: list[Array] = []  # (4, n·D) each

    def write(self, left: Array, h: Array, state: Array, stages: Array, dense: Array) -> None:
        """Store a step that is tried; ``dense`` times its stages gives the interpolant's coefficients."""
        self._left.append(left)
        self._h.append(h)
        if self._dense:
            self._state.append(state)
            self._coefficients.append(self._arrays.product(dense, stages))

    @property
    def full(self) -> bool:
        """Whether the stored steps should be evaluated."""
        return len(self._left) >= _STEPS_PER_READ

    def read(self, ids: Array, left: Array) -> None:
        """Evaluate and clear the stored steps of rows ``ids``, which now have ``left`` time left."""
        if not self._left:
            return
        rows = self._arrays.unwrap(ids)
        lefts = self._arrays.stack([*self._left, left])  # (s + 1, n), falling
        moved = lefts[1:] < lefts[:-1]  # (s, n)
        tried = lefts[:-1] > 0
        self._results.tried[rows] += tried.sum(0)
        self._results.rejected[rows] += (tried & ~moved).sum(0)
        if self._kept is not None:
            step, row = moved.nonzero(as_tuple=True)
            self._kept.append(KeptSteps(rows[row], lefts[step, row], self._arrays.stack(self._h)[step, row]))
        if self._dense:
            self._fill(rows, lefts)
        for stored in (self._left, self._h, self._state, self._coefficients):
            stored.clear()

    def kept_steps(self) -> KeptSteps:
        """All accepted steps, in the order of time."""
        no_times = self._asked.new_empty(0)
        kept = self._kept or [KeptSteps(self._results.tried[:0], no_times, no_times)]
        return KeptSteps(*(torch.cat([getattr(k, name) for k in kept]) for name in ("row", "left", "h")))

    def _fill(self, rows: Tensor, lefts: Tensor) -> None:
        """States at the requested times that accepted steps have passed."""
        asked = self._asked.index_select(0, rows)  # (n, A)
        # The step that passed a requested time is the first after which no more than that time is left.
        step = torch.searchsorted(-lefts[1:].t().contiguous(), -asked)  # (n, A)
        row, column = ((step < len(lefts) - 1) & (asked < lefts[0].unsqueeze(1))).nonzero(as_tuple=True)
        step = step[row, column]
        x = (lefts[step, row] - asked[row, column]) / self._arrays.stack(self._h)[step, row]
        states = self._arrays.stack(self._state)  # (s, n, D)
        columns = states.shape[2]
        index = step * len(rows) + row
        coefficients = self._arrays.stack(self._coefficients).transpose(0, 1).reshape(4, -1, columns)  # (4, s·n, D)
        start = states.view(-1, columns).index_select(0, index)
        found = interpolate(start, coefficients.index_select(1, index), x.to(start.dtype).unsqueeze(1))
        self._results.states[column + 1, rows[row]] = found
