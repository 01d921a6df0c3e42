"""dopri5 with a step size and an end of its own for every row of a batch.

All rows are stepped together, each with the size that its own error allows. Rows that have reached their end stay in
the batch with a step of zero until enough of them can be removed at once. The result and the number of evaluations of a
row do not depend on the other rows.

Written by hand because it is faster than the libraries (``svfm bench solvers``): 2.4 to 2.9 times than torchdiffeq at
the same tolerance and 3.4 to 4.4 times at the same error; 2.8 to 4.2 times than torchode, 1.1 to 2.4 times than
torchode compiled by ``torch.compile``.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from svfm_ros.config.svfm_config import SolverConfig
from svfm_ros.svfm.solver.array_backend import Array, Arrays, Field, take_rows
from svfm_ros.svfm.solver.dopri5_step import GROW, STRETCH, Stepper, choose_first_step
from svfm_ros.svfm.solver.solution import Status
from svfm_ros.svfm.solver.step_record import RowResults, StepRecord

__all__ = ["integrate"]

_LEAVE_SHARE = 0.2  # rows are removed once this share of the batch has reached its end ...
_LEAVE_ROWS = 16  # ... and is at least so many rows: with fewer, a step takes the same time
_GPU_CHECK = 8  # steps between checks for finished rows on a GPU, where each check waits for the device
_STUCK_CHECK = 8  # steps between checks for rows whose step has become too small
_SMALLEST = 16 * 2.0**-52  # steps below this share of the time do not change it


@dataclass(slots=True)
class _ActiveRows:
    """The rows that are not finished. Time is stored as time left, so that the end is reached exactly."""

    ids: Array  # (n,), index in the caller's batch
    end: Array  # (n,), float64 like all times here
    left: Array  # (n,), zero at the end
    h: Array  # (n,), the step to try, never longer than what is left
    growth: Array  # (n,), largest growth factor of the next step
    state: Array  # (n, D)
    slope: Array  # (n, D), the field at the state

    def take(self, rows: Array) -> "_ActiveRows":
        return _ActiveRows(*(getattr(self, f.name)[rows] for f in fields(self)))


class _Integration:
    """One solve in progress."""

    def __init__(
        self,
        field: Field,
        rows: _ActiveRows,
        results: RowResults,
        config: SolverConfig,
        arrays: Arrays,
        record: StepRecord,
    ) -> None:
        self.rows, self.results, self.config, self.arrays, self.record = rows, results, config, arrays, record
        self.stretch = 1.0 if config.max_step else STRETCH
        self.begin(field)

    def begin(self, field: Field) -> None:
        """Allocate arrays for the current rows."""
        self.field, self.evaluate = field, self.arrays.bind(field)
        self.stepper = Stepper(self.arrays, self.rows.state, self.config)
        self.rating = self.rows.left

    def step(self) -> None:
        """Try one step in every row; rows whose error is small enough accept it."""
        rows, where = self.rows, self.arrays.xp.where
        found = self.stepper.attempt(self.evaluate, rows.end - rows.left, rows.h, rows.state, rows.slope)
        self.record.write(rows.left, rows.h, rows.state, self.stepper.flat, self.stepper.dense)
        self.rating = found.rating
        good = found.rating <= 1.0
        rows.left = where(good, rows.left - rows.h, rows.left)
        planned = self.stepper.next_step(rows.h, found.rating, rows.growth)
        if self.config.max_step:
            planned = planned.clip(max=self.config.max_step)
        rows.h = where(planned * self.stretch >= rows.left, rows.left, planned)
        rows.growth = where(good, GROW, 1.0)  # after a rejected step the size does not grow
        kept = self.arrays.spread(good, rows.state.shape[1])
        rows.state = where(kept, found.state, rows.state)
        rows.slope = where(kept, found.slope, rows.slope)

    def leave(self, stay: Tensor, status: Tensor) -> None:
        """Continue with the rows in ``stay``; the others end with their ``status``."""
        self.record.read(self.rows.ids, self.rows.left)
        gone, kept = (~stay).nonzero().squeeze(1), stay.nonzero().squeeze(1)
        self.settle(self.rows.take(self.arrays.wrap(gone)), status[gone])
        self.rows = self.rows.take(self.arrays.wrap(kept))
        self.begin(take_rows(self.field, kept))

    def settle(self, rows: _ActiveRows, status: Tensor) -> None:
        """Store end states and status of these rows."""
        ids, arrived = self.arrays.unwrap(rows.ids), (status == Status.DONE).unsqueeze(1)
        self.results.states[-1, ids] = torch.where(arrived, self.arrays.unwrap(rows.state), torch.nan)
        self.results.status[ids] = status

    def drop_stuck(self) -> None:
        """End the rows whose step has become too small to advance time."""
        left, h, end = (self.arrays.unwrap(a) for a in (self.rows.left, self.rows.h, self.rows.end))
        stuck = (left > 0) & ~(h > _SMALLEST * torch.maximum(end.abs(), (end - left).abs()))
        if bool(stuck.any()):
            finite = self.arrays.unwrap(self.rating).isfinite()
            reason = torch.where(finite, int(Status.STEP_UNDERFLOW), int(Status.NON_FINITE))
            self.leave(~stuck, torch.where(stuck, reason, int(Status.DONE)))

    def all_arrived(self) -> bool:
        """Whether every row is finished; when most are, the finished ones are removed."""
        n, n_under_way = len(self.rows.left), int(self.arrays.xp.count_nonzero(self.rows.left))
        if 0 < n_under_way <= n - max(_LEAVE_ROWS, _LEAVE_SHARE * n):
            left = self.arrays.unwrap(self.rows.left)
            self.leave(left > 0, torch.zeros_like(left, dtype=torch.long))
        return n_under_way == 0

    def run(self) -> None:
        """Step until every row has finished or failed."""
        every = 1 if self.results.states.device.type == "cpu" else _GPU_CHECK
        for n in range(1, self.config.max_steps + 1):
            self.step()
            if self.record.full:
                self.record.read(self.rows.ids, self.rows.left)
            if n % _STUCK_CHECK == 0:
                self.drop_stuck()
            if n % every == 0 and self.all_arrived():
                break
        self.record.read(self.rows.ids, self.rows.left)
        left = self.arrays.unwrap(self.rows.left)
        self.settle(self.rows, torch.where(left > 0, int(Status.MAX_STEPS), int(Status.DONE)))


def integrate(
    field: Field,
    state: Tensor,
    slope: Tensor,
    start: Tensor,
    end: Tensor,
    results: RowResults,
    config: SolverConfig,
    arrays: Arrays,
    record: StepRecord,
) -> None:
    """Solve from ``start (B,)`` to ``end (B,)`` from these states, whose slopes are known, and fill the results."""
    left = end - start
    h = torch.full_like(left, config.first_step)
    if not config.first_step:
        h = choose_first_step(field, start, left, state, slope, config)
    if config.max_step:
        h = h.clamp(max=config.max_step)
    ids = torch.arange(len(state), device=state.device)
    growth = torch.full_like(left, GROW)
    rows = _ActiveRows(*(arrays.wrap(a) for a in (ids, end, left, torch.minimum(h, left), growth, state, slope)))
    with np.errstate(all="ignore"):
        run = _Integration(field, rows, results, config, arrays, record)
        broken = ~slope.isfinite().all(dim=1)
        if bool(broken.any()):
            run.leave(~broken, torch.where(broken, int(Status.NON_FINITE), int(Status.DONE)))
        if len(run.rows.left):
            run.run()
