"""What happened step by step: what each row cost, where it was at the asked times, and which steps it kept.

Steps are written down as they are tried, at no cost but memory, and read together once per so many steps. So asking
for a hundred times costs little more than asking for one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from svfm_ros.svfm.solver.array_backend import Array, Arrays

__all__ = ["Course", "Journal", "KeptSteps", "interpolate"]

_PAGES = 64  # steps written down before they are read


@dataclass(frozen=True, slots=True)
class KeptSteps:
    """Steps that were kept, one entry each; those of a row stand in the order they were taken."""

    row: Tensor  # (S,)
    left: Tensor  # (S,), time left before the step
    h: Tensor  # (S,)


@dataclass(slots=True)
class Course:
    """What a solve found, in the order of the caller's batch."""

    states: Tensor  # (T, B, D), NaN where a row did not get to
    tried: Tensor  # (B,)
    rejected: Tensor  # (B,)
    status: Tensor  # (B,)


def interpolate(state: Tensor, coefficients: Tensor, x: Tensor) -> Tensor:
    """The quartic at ``x (m, 1)`` in [0, 1] from the state ``(m, D)`` at 0 and coefficients ``(4, m, D)``."""
    one, two, three, four = coefficients.unbind(0)
    return state + x * (one + x * (two + x * (three + x * four)))


class Journal:
    """Reads every step into a course; ``asked`` holds the time left ``(B, A)`` at the times between first and last."""

    def __init__(self, arrays: Arrays, course: Course, asked: Tensor, keep_steps: bool = False) -> None:
        self._arrays, self._course, self._asked = arrays, course, asked
        self._dense = asked.shape[1] > 0 and not keep_steps
        self._kept: list[KeptSteps] | None = [] if keep_steps else None
        self._left: list[Array] = []  # (n,) each, before the step
        self._h: list[Array] = []  # (n,) each
        self._state: list[Array] = []  # (n, D) each, before the step
        self._coefficients: list[Array] = []  # (4, n·D) each

    def write(self, left: Array, h: Array, state: Array, stages: Array, dense: Array) -> None:
        """A step is tried from here; ``dense`` turns its stages into the interpolant's coefficients."""
        self._left.append(left)
        self._h.append(h)
        if self._dense:
            self._state.append(state)
            self._coefficients.append(self._arrays.product(dense, stages))

    @property
    def full(self) -> bool:
        """Whether it is time to read."""
        return len(self._left) >= _PAGES

    def read(self, ids: Array, left: Array) -> None:
        """Read what was written; all of it is about these rows, which now have so much time left."""
        if not self._left:
            return
        rows = self._arrays.unwrap(ids)
        lefts = self._arrays.stack([*self._left, left])  # (s + 1, n), falling
        moved = lefts[1:] < lefts[:-1]  # (s, n)
        tried = lefts[:-1] > 0
        self._course.tried[rows] += tried.sum(0)
        self._course.rejected[rows] += (tried & ~moved).sum(0)
        if self._kept is not None:
            step, row = moved.nonzero(as_tuple=True)
            self._kept.append(KeptSteps(rows[row], lefts[step, row], self._arrays.stack(self._h)[step, row]))
        if self._dense:
            self._fill(rows, lefts)
        for pages in (self._left, self._h, self._state, self._coefficients):
            pages.clear()

    def kept_steps(self) -> KeptSteps:
        """All steps that were kept, in the order they were taken."""
        no_times = self._asked.new_empty(0)
        kept = self._kept or [KeptSteps(self._course.tried[:0], no_times, no_times)]
        return KeptSteps(*(torch.cat([getattr(k, name) for k in kept]) for name in ("row", "left", "h")))

    def _fill(self, rows: Tensor, lefts: Tensor) -> None:
        """States at the asked times that were passed; a step that was not kept passes none."""
        asked = self._asked.index_select(0, rows)  # (n, A)
        # The first step after which no more than the asked time is left is the one that passed it.
        step = torch.searchsorted(-lefts[1:].t().contiguous(), -asked)  # (n, A)
        row, column = ((step < len(lefts) - 1) & (asked < lefts[0].unsqueeze(1))).nonzero(as_tuple=True)
        step = step[row, column]
        x = (lefts[step, row] - asked[row, column]) / self._arrays.stack(self._h)[step, row]
        states = self._arrays.stack(self._state)  # (s, n, D)
        columns = states.shape[2]
        place = step * len(rows) + row
        coefficients = self._arrays.stack(self._coefficients).transpose(0, 1).reshape(4, -1, columns)  # (4, s·n, D)
        start = states.view(-1, columns).index_select(0, place)
        found = interpolate(start, coefficients.index_select(1, place), x.to(start.dtype).unsqueeze(1))
        self._course.states[column + 1, rows[row]] = found
