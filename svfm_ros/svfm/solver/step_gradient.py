"""Gradients of a solve: the accepted steps are computed a second time under autograd.

The first pass finds the step sizes without a graph. The second pass has no rejected steps and no finished rows: rows
are sorted by their number of steps, so that the unfinished ones are always first. Step sizes are constants; the
gradient is exactly that of the computed states.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from svfm_ros.svfm.solver.array_backend import Field, take_rows
from svfm_ros.svfm.solver.butcher_tableau import DENSE, NODES, STAGES
from svfm_ros.svfm.solver.step_record import KeptSteps, interpolate

__all__ = ["replay"]


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
    field: Field, h0: Tensor, slope: Tensor, end: Tensor, asked: Tensor, kept: KeptSteps, arrived: Tensor
) -> Tensor:
    """States ``(A + 2, B, D)`` with a graph; ``slope`` is the field at the start, with its own graph.

    ``asked (B, A)`` is the time left at the times between first and last; ``arrived (B,)``: rows that reached it.
    """
    plan = _schedule(kept, len(h0))
    order, end, asked = plan.order, end[plan.order], asked[plan.order]
    state, slope = h0[order], slope[order]
    table = _StateTable(h0, asked.shape[1] + 2)
    for j, (n, n_next) in enumerate(pairwise([*plan.sizes, 0])):
        if j == 0 or n < plan.sizes[j - 1]:
            part = take_rows(field, order[:n])
        left, h = plan.left[j, :n], plan.h[j, :n]
        start = state[:n]
        state, slope, stages = _step(part, end[:n] - left, h, start, slope[:n])
        row, column = ((asked[:n] < left.unsqueeze(1)) & (asked[:n] >= (left - h).unsqueeze(1))).nonzero(as_tuple=True)
        if len(row):
            x = (left[row] - asked[row, column]) / h[row]
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
