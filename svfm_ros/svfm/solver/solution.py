"""The result of a solve: states, evaluations and steps per row, and a status per row."""

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum

from torch import Tensor

from svfm_ros.errors import DataError

__all__ = ["Solution", "Status"]


class Status(IntEnum):
    """How a row ended; ``message`` says what happened and what to do."""

    DONE = 0
    MAX_STEPS = 1
    NON_FINITE = 2
    STEP_UNDERFLOW = 3

    @property
    def message(self) -> str:
        """What happened and what to change."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.DONE: "reached the last time",
    Status.MAX_STEPS: "reached max_steps before the last time: raise max_steps, loosen rtol and atol, or bound the "
    "length of the field",
    Status.NON_FINITE: "the field gave NaN or infinity however small the step: check the weights and the state it "
    "started from, and bound the length of the field",
    Status.STEP_UNDERFLOW: "no step was small enough: the field jumps or runs off to infinity there; make it smooth, "
    "bound its length, or loosen rtol and atol",
}


@dataclass(frozen=True, slots=True)
class Solution:
    """The rows of a batch along time. A row that failed holds NaN at every time it did not reach."""

    times: Tensor  # (T,) or (B, T), as given
    states: Tensor  # (T, B, D)
    nfe: Tensor  # (B,), evaluations of the field that the row needed
    accepted: Tensor  # (B,), steps accepted
    rejected: Tensor  # (B,), steps rejected
    status: Tensor  # (B,), values of Status

    @property
    def ok(self) -> Tensor:
        """Which rows reached the last time ``(B,)``."""
        return self.status == Status.DONE

    @property
    def end(self) -> Tensor:
        """States at the last time ``(B, D)``."""
        return self.states[-1]

    def message(self, row: int) -> str:
        """The message of that row's status."""
        return Status(int(self.status[row])).message

    def check(self) -> "Solution":
        """The solution itself, or a DataError that counts the rows that failed and says what to do."""
        if bool(self.ok.all()):
            return self
        counts = Counter(Status(s) for s in self.status.tolist())
        failures = [f"{n} of {len(self.status)} rows: {s.message}" for s, n in counts.items() if s is not Status.DONE]
        raise DataError("the solver expected every row to reach its last time, got " + "; ".join(failures))
