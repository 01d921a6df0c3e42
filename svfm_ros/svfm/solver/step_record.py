"""Record of the steps of a solve: steps per row, states at the requested times, and the accepted steps.

Steps are stored as they are tried and evaluated together every 64 steps, so that a hundred requested times take little
more time than one.

For gradients, ``replay`` computes the accepted steps a second time under autograd. This pass has no rejected steps and
no finished rows: rows are sorted by their number of steps, so that the unfinished ones are always first. Step sizes are
constants; the gradient is exactly that of the computed states.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from svfm_ros.svfm.solver.array_backend import Array, Arrays, Field, take_rows
from svfm_ros.svfm.solver.dopri5_step import DENSE, NODES, STAGES

__all__ = ["KeptSteps", "RowResults", "StepRecord", "interpolate", "replay"]

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
    """Stores the steps tried, evaluates them into ``results``; ``requested (B, A)`` is the time left at inner times."""

    def __init__(self, arrays: Arrays, results: RowResults, requested: Tensor, keep_steps: bool = False) -> None:
        self._arrays, self._results, self._requested = arrays, results, requested
        self._dense = requested.shape[1] > 0 and not keep_steps
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
        no_times = self._requested.new_empty(0)
        kept = self._kept or [KeptSteps(self._results.tried[:0], no_times, no_times)]
        return KeptSteps(*(torch.cat([getattr(k, name) for k in kept]) for name in ("row", "left", "h")))

    def _fill(self, rows: Tensor, lefts: Tensor) -> None:
        """States at the requested times that accepted steps have passed."""
        requested = self._requested.index_select(0, rows)  # (n, A)
        # The step that passed a requested time is the first after which no more than that time is left.
        step = torch.searchsorted(-lefts[1:].t().contiguous(), -requested)  # (n, A)
        row, column = ((step < len(lefts) - 1) & (requested < lefts[0].unsqueeze(1))).nonzero(as_tuple=True)
        step = step[row, column]
        x = (lefts[step, row] - requested[row, column]) / self._arrays.stack(self._h)[step, row]
        states = self._arrays.stack(self._state)  # (s, n, D)
        columns = states.shape[2]
        index = step * len(rows) + row
        coefficients = self._arrays.stack(self._coefficients).transpose(0, 1).reshape(4, -1, columns)  # (4, s·n, D)
        start = states.view(-1, columns).index_select(0, index)
        found = interpolate(start, coefficients.index_select(1, index), x.to(start.dtype).unsqueeze(1))
        self._results.states[column + 1, rows[row]] = found


@dataclass(frozen=True, slots=True)
class _Schedule:
    """The accepted steps by row, the row with most steps first."""

    order: Tensor  # (B,), indices in the caller's batch
    left: Tensor  # (J, B), time left before each step, in that order
    h: Tensor  # (J, B)
    sizes: list[int]  # J numbers: how many rows take the j-th step


def _schedule(kept: KeptSteps, n_rows: int) -> _Schedule:
    counts = torch.bincount(kept.row, minlength=n_rows)
    order = counts.argsort(descending=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(n_rows, device=order.device)
    by_row = kept.row.argsort(stable=True)
    row = kept.row[by_row]
    nth = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    n_steps = int(counts.max())  # waits for the device once per solve
    left, h = kept.left.new_zeros(2, n_steps, n_rows).unbind(0)
    left[nth, rank[row]] = kept.left[by_row]
    h[nth, rank[row]] = kept.h[by_row]
    return _Schedule(order, left, h, (h > 0).sum(1).tolist())


def _combine(start: Tensor, weights: tuple[float, ...], stages: list[Tensor]) -> Tensor:
    for weight, stage in zip(weights, stages, strict=False):
        if weight:
            start = torch.add(start, stage, alpha=weight)
    return start


def _step(field: Field, t: Tensor, h: Tensor, state: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """New state, its slope and the seven stages, each times the step."""
    column = h.to(state.dtype).unsqueeze(1)
    stages = [slope * column]
    point = state
    for node, weights in zip(NODES, STAGES, strict=True):
        point = _combine(state, weights, stages)
        slope = field((t + node * h).to(state.dtype), point)
        stages.append(slope * column)
    return point, slope, stages


def _between(start: Tensor, stages: list[Tensor], x: Tensor) -> Tensor:
    zero = torch.zeros_like(start)
    coefficients = torch.stack([_combine(zero, weights, stages) for weights in DENSE])
    return interpolate(start, coefficients, x.to(start.dtype).unsqueeze(1))


def replay(
    field: Field, h0: Tensor, slope: Tensor, end: Tensor, requested: Tensor, kept: KeptSteps, arrived: Tensor
) -> Tensor:
    """States ``(A + 2, B, D)`` with a graph; ``slope`` is the field at the start, with its own graph.

    ``requested (B, A)`` is the time left at the times between first and last; ``arrived (B,)``: rows that reached it.
    """
    plan = _schedule(kept, len(h0))
    order, end, requested = plan.order, end[plan.order], requested[plan.order]
    state, slope = h0[order], slope[order]
    table = _StateTable(h0, requested.shape[1] + 2)
    for j, (n, n_next) in enumerate(pairwise([*plan.sizes, 0])):
        if j == 0 or n < plan.sizes[j - 1]:
            part = take_rows(field, order[:n])
        left, h = plan.left[j, :n], plan.h[j, :n]
        start = state[:n]
        state, slope, stages = _step(part, end[:n] - left, h, start, slope[:n])
        row, column = ((requested[:n] < left.unsqueeze(1)) & (requested[:n] >= (left - h).unsqueeze(1))).nonzero(
            as_tuple=True
        )
        if len(row):
            x = (left[row] - requested[row, column]) / h[row]
            table.add(column + 1, order[row], _between(start[row], [stage[row] for stage in stages], x))
        last = torch.arange(n_next, n, device=order.device)
        last = last[arrived[order[last]]]
        table.add(torch.full_like(last, -1), order[last], state[last])
    return table.states()


class _StateTable:
    """States by (time, row), assembled once at the end."""

    def __init__(self, h0: Tensor, n_times: int) -> None:
        self._blank = h0.new_full((n_times, *h0.shape), torch.nan)
        rows = torch.arange(len(h0), device=h0.device)
        self._times, self._rows, self._values = [torch.zeros_like(rows)], [rows], [h0]

    def add(self, times: Tensor, rows: Tensor, values: Tensor) -> None:
        self._times.append(times)
        self._rows.append(rows)
        self._values.append(values)

    def states(self) -> Tensor:
        index = (torch.cat(self._times), torch.cat(self._rows))
        return self._blank.index_put(index, torch.cat(self._values))
