"""torchdiffeq's solvers with the same interface: one step size for the whole batch, as in the paper's experiments."""

from typing import Any

import torch
from torch import Tensor, nn

from svfm_ros.config.svfm_config import SolverConfig
from svfm_ros.errors import ConfigError, DataError
from svfm_ros.svfm.solver.array_backend import Field
from svfm_ros.svfm.solver.solution import Solution, Status

__all__ = ["solve_torchdiffeq"]

_PER_STEP = {"rk4": 4, "euler": 1}  # evaluations
_MESSAGES_OF = {
    "max_num_steps": Status.MAX_STEPS,
    "underflow in dt": Status.STEP_UNDERFLOW,
    "non-finite": Status.NON_FINITE,
}


class _CountedField(nn.Module):
    """The field with one time for all rows, as torchdiffeq calls it; counts evaluations and steps."""

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.field = field  # registers the parameters if the field is a module
        self.nfe = self.accepted = self.rejected = 0

    def forward(self, t: Tensor, h: Tensor) -> Tensor:
        self.nfe += 1
        return self.field(t.to(h.dtype).expand(len(h)), h)

    def watch_steps(self) -> None:
        """Count the accepted and rejected steps of torchdiffeq's adaptive solvers."""
        self.callback_accept_step = self._accept
        self.callback_reject_step = self._reject

    def _accept(self, *_: Any) -> None:
        self.accepted += 1

    def _reject(self, *_: Any) -> None:
        self.rejected += 1


def solve_torchdiffeq(
    field: Field, h0: Tensor, times: Tensor, config: SolverConfig, parameters: tuple[Tensor, ...] = ()
) -> Solution:
    """Solve from ``h0 (B, D)`` along ``times (T,)`` or ``(B, T)`` with equal rows; inputs are checked already."""
    if times.ndim == 2 and not bool((times == times[0]).all()):
        raise DataError(f"expected the same times in every row for {config.method}, got rows that differ; use dopri5")
    counted = _CountedField(field)
    try:
        states = _odeint(counted, h0, times[0] if times.ndim == 2 else times, config, parameters)
    except AssertionError as error:  # how torchdiffeq reports a failure
        status = next((s for text, s in _MESSAGES_OF.items() if text in str(error)), None)
        if status is None:
            raise
        states = torch.cat([h0[None], h0.new_full((times.shape[-1] - 1, *h0.shape), torch.nan)])
        return _solution(counted, times, states, h0.new_full((len(h0),), int(status), dtype=torch.long), config)
    finite = states.detach().isfinite().all(dim=2).all(dim=0)
    return _solution(counted, times, states, torch.where(finite, int(Status.DONE), int(Status.NON_FINITE)), config)


def _odeint(
    field: _CountedField, h0: Tensor, times: Tensor, config: SolverConfig, parameters: tuple[Tensor, ...]
) -> Tensor:
    from torchdiffeq import odeint, odeint_adjoint

    method = config.method.removeprefix("torchdiffeq:")
    settings: dict[str, Any] = {"rtol": config.rtol, "atol": config.atol, "method": method}
    settings["options"] = _options(config)
    if method == "dopri5":
        field.watch_steps()
    if not config.adjoint:
        return odeint(field, h0, times.to(torch.float64), **settings)  # type: ignore[no-any-return]
    known = parameters or tuple(p for p in field.parameters() if p.requires_grad)
    if not known:
        raise ConfigError("adjoint: expected a field that is a module, or its parameters, got neither")
    return odeint_adjoint(field, h0, times.to(torch.float64), adjoint_params=known, **settings)  # type: ignore[no-any-return]


def _options(config: SolverConfig) -> dict[str, Any]:
    if config.method in _PER_STEP:
        return {"step_size": config.step_size} if config.step_size else {}
    options: dict[str, Any] = {"max_num_steps": config.max_steps}
    if config.first_step:
        options["first_step"] = config.first_step
    if config.max_step:
        options["max_step"] = config.max_step
    return options


def _solution(field: _CountedField, times: Tensor, states: Tensor, status: Tensor, config: SolverConfig) -> Solution:
    per_step = _PER_STEP.get(config.method)
    accepted = field.accepted if per_step is None else field.nfe // per_step
    nfe, kept, dropped = (torch.full_like(status, n) for n in (field.nfe, accepted, field.rejected))
    return Solution(times, states, nfe, kept, dropped, status)
