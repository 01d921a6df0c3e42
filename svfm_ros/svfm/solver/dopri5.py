"""dopri5 for a batch in which every row has its own step size and stops on its own.

All rows take their step together, each as long as its own error allows. Rows that have arrived stay in the batch, with
a step of zero, until enough of them have gathered to be worth leaving out; from then on they cost nothing. What a row
costs and where it goes does not depend on its neighbours.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from svfm_ros.config.solver_config import SolverConfig
from svfm_ros.svfm.solver.array_backend import Array, Arrays, Field, take_rows
from svfm_ros.svfm.solver.dopri5_step import GROW, STRETCH, Stepper, choose_first_step
from svfm_ros.svfm.solver.solution import Status
from svfm_ros.svfm.solver.step_record import Course, Journal

__all__ = ["integrate"]

_LEAVE_SHARE = 0.2  # rows are left out once this share of the batch has arrived ...
_LEAVE_ROWS = 16  # ... and is at least so many rows: below that a step costs the same with or without them
_GPU_LOOK = 8  # on a GPU, asking who has arrived makes the host wait, so ask every so many steps
_STUCK_LOOK = 8  # steps between two looks for rows that get nowhere
_SMALLEST = 16 * 2.0**-52  # steps below this share of the clock's reading no longer move the clock


@dataclass(slots=True)
class _Rows:
    """The rows under way. Time is kept as what is left of it, so that a row arrives exactly."""

    ids: Array  # (n,), place in the caller's batch
    end: Array  # (n,), float64 like all times here
    left: Array  # (n,), zero once arrived
    h: Array  # (n,), the step to try, never longer than what is left
    growth: Array  # (n,), by how much the next step may grow
    state: Array  # (n, D)
    slope: Array  # (n, D), the field at the state

    def take(self, rows: Array) -> "_Rows":
        return _Rows(*(getattr(self, f.name)[rows] for f in fields(self)))


class _Run:
    """One solve under way."""

    def __init__(
        self, field: Field, rows: _Rows, course: Course, config: SolverConfig, arrays: Arrays, journal: Journal
    ) -> None:
        self.rows, self.course, self.config, self.arrays, self.journal = rows, course, config, arrays, journal
        self.stretch = 1.0 if config.max_step else STRETCH
        self.begin(field)

    def begin(self, field: Field) -> None:
        """Make room for the rows at hand."""
        self.field, self.evaluate = field, self.arrays.bind(field)
        self.stepper = Stepper(self.arrays, self.rows.state, self.config)
        self.rating = self.rows.left

    def step(self) -> None:
        """Every row tries its step; those whose error is small enough keep it."""
        rows, where = self.rows, self.arrays.xp.where
        found = self.stepper.attempt(self.evaluate, rows.end - rows.left, rows.h, rows.state, rows.slope)
        self.journal.write(rows.left, rows.h, rows.state, self.stepper.flat, self.stepper.dense)
        self.rating = found.rating
        good = found.rating <= 1.0
        rows.left = where(good, rows.left - rows.h, rows.left)
        planned = self.stepper.next_step(rows.h, found.rating, rows.growth)
        if self.config.max_step:
            planned = planned.clip(max=self.config.max_step)
        rows.h = where(planned * self.stretch >= rows.left, rows.left, planned)
        rows.growth = where(good, GROW, 1.0)  # right after a failure a step does not grow
        kept = self.arrays.spread(good, rows.state.shape[1])
        rows.state = where(kept, found.state, rows.state)
        rows.slope = where(kept, found.slope, rows.slope)

    def leave(self, stay: Tensor, status: Tensor) -> None:
        """Go on with some rows only; the others ended like that."""
        self.journal.read(self.rows.ids, self.rows.left)
        gone, kept = (~stay).nonzero().squeeze(1), stay.nonzero().squeeze(1)
        self.settle(self.rows.take(self.arrays.wrap(gone)), status[gone])
        self.rows = self.rows.take(self.arrays.wrap(kept))
        self.begin(take_rows(self.field, kept))

    def settle(self, rows: _Rows, status: Tensor) -> None:
        """Write down how these rows ended."""
        ids, arrived = self.arrays.unwrap(rows.ids), (status == Status.DONE).unsqueeze(1)
        self.course.states[-1, ids] = torch.where(arrived, self.arrays.unwrap(rows.state), torch.nan)
        self.course.status[ids] = status

    def drop_stuck(self) -> None:
        """Give up rows whose step has become too small to move their clock."""
        left, h, end = (self.arrays.unwrap(a) for a in (self.rows.left, self.rows.h, self.rows.end))
        stuck = (left > 0) & ~(h > _SMALLEST * torch.maximum(end.abs(), (end - left).abs()))
        if bool(stuck.any()):
            finite = self.arrays.unwrap(self.rating).isfinite()
            reason = torch.where(finite, int(Status.STEP_UNDERFLOW), int(Status.NON_FINITE))
            self.leave(~stuck, torch.where(stuck, reason, int(Status.DONE)))

    def all_arrived(self) -> bool:
        """Whether no row is under way; when few of many are, the others are left out."""
        n, n_under_way = len(self.rows.left), int(self.arrays.xp.count_nonzero(self.rows.left))
        if 0 < n_under_way <= n - max(_LEAVE_ROWS, _LEAVE_SHARE * n):
            left = self.arrays.unwrap(self.rows.left)
            self.leave(left > 0, torch.zeros_like(left, dtype=torch.long))
        return n_under_way == 0

    def run(self) -> None:
        """Step until every row has ended."""
        look = 1 if self.course.states.device.type == "cpu" else _GPU_LOOK
        for n in range(1, self.config.max_steps + 1):
            self.step()
            if self.journal.full:
                self.journal.read(self.rows.ids, self.rows.left)
            if n % _STUCK_LOOK == 0:
                self.drop_stuck()
            if n % look == 0 and self.all_arrived():
                break
        self.journal.read(self.rows.ids, self.rows.left)
        left = self.arrays.unwrap(self.rows.left)
        self.settle(self.rows, torch.where(left > 0, int(Status.MAX_STEPS), int(Status.DONE)))


def integrate(
    field: Field,
    state: Tensor,
    slope: Tensor,
    start: Tensor,
    end: Tensor,
    course: Course,
    config: SolverConfig,
    arrays: Arrays,
    journal: Journal,
) -> None:
    """Solve from ``start (B,)`` to ``end (B,)`` from these states, whose slopes are known, and fill the course."""
    left = end - start
    h = torch.full_like(left, config.first_step)
    if not config.first_step:
        h = choose_first_step(field, start, left, state, slope, config)
    if config.max_step:
        h = h.clamp(max=config.max_step)
    ids = torch.arange(len(state), device=state.device)
    growth = torch.full_like(left, GROW)
    rows = _Rows(*(arrays.wrap(a) for a in (ids, end, left, torch.minimum(h, left), growth, state, slope)))
    with np.errstate(all="ignore"):
        run = _Run(field, rows, course, config, arrays, journal)
        broken = ~slope.isfinite().all(dim=1)
        if bool(broken.any()):
            run.leave(~broken, torch.where(broken, int(Status.NON_FINITE), int(Status.DONE)))
        if len(run.rows.left):
            run.run()
