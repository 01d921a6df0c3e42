"""``solve(field, h0, times, config=...)``: one function for every solver."""

import torch
from torch import Tensor

from svfm_ros.config.svfm_config import SolverConfig
from svfm_ros.errors import DataError
from svfm_ros.svfm.solver.array_backend import Arrays, Field, HostArrays, TensorArrays, take_rows
from svfm_ros.svfm.solver.dopri5 import integrate
from svfm_ros.svfm.solver.solution import Solution, Status
from svfm_ros.svfm.solver.step_record import RowResults, StepRecord, replay
from svfm_ros.svfm.solver.torchdiffeq_solver import solve_torchdiffeq

__all__ = ["Field", "Solution", "SolverConfig", "Status", "solve"]

_DEFAULT = SolverConfig()


def solve(
    field: Field,
    h0: Tensor,
    times: Tensor,
    *,
    config: SolverConfig = _DEFAULT,
    parameters: tuple[Tensor, ...] = (),
) -> Solution:
    """Solve ``dh/dt = field(t, h)`` from ``h0 (B, D)`` at the first time; states at all times.

    ``times`` is ``(T,)`` for all rows or ``(B, T)``, rising or falling. With the default method every row has its own
    steps; the last time is reached by a step, those between come from dopri5's fourth-order interpolant. Gradients flow
    to ``h0`` and to whatever the field depends on; the second pass they need is not counted in ``nfe``. ``parameters``
    are for the adjoint method with a field that is not a module.
    """
    _check_state(h0)
    times = _checked_times(times, h0)
    if config.method != "dopri5":
        return solve_torchdiffeq(field, h0, times, config, parameters)
    return _solve_dopri5(field, h0, times, config, HostArrays() if h0.device.type == "cpu" else TensorArrays())


def _solve_dopri5(field: Field, h0: Tensor, times: Tensor, config: SolverConfig, arrays: Arrays) -> Solution:
    forward = times.expand(len(h0), -1).to(torch.float64)  # (B, T)
    if bool(forward[0, 0] > forward[0, 1]):
        forward, field = -forward, _Backwards(field)
    start, end, requested = forward[:, 0], forward[:, -1], forward[:, -1:] - forward[:, 1:-1]
    slope = field(start.to(h0.dtype), h0)
    _check_slope(slope, h0)
    with_gradient = torch.is_grad_enabled() and (slope.requires_grad or h0.requires_grad)
    with torch.no_grad():
        results = _blank_results(h0, times.shape[-1])
        record = StepRecord(arrays, results, requested, keep_steps=with_gradient)
        integrate(field, h0.contiguous(), slope.contiguous(), start, end, results, config, arrays, record)
    if with_gradient:
        arrived = results.status == Status.DONE
        results.states = replay(field, h0, slope, end, requested, record.kept_steps(), arrived)
    nfe = 6 * results.tried + (1 if config.first_step else 2)
    return Solution(times, results.states, nfe, results.tried - results.rejected, results.rejected, results.status)


class _Backwards:
    """The same field with time reversed."""

    def __init__(self, field: Field) -> None:
        self._field = field

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        return -self._field(-t, h)

    def take(self, rows: Tensor) -> "_Backwards":
        return _Backwards(take_rows(self._field, rows))


def _blank_results(h0: Tensor, n_times: int) -> RowResults:
    states = h0.new_full((n_times, *h0.shape), torch.nan)
    states[0] = h0
    zeros = torch.zeros(len(h0), dtype=torch.long, device=h0.device)
    return RowResults(states, zeros, zeros.clone(), zeros.clone())


def _check_state(h0: Tensor) -> None:
    if not isinstance(h0, Tensor) or h0.ndim != 2 or 0 in h0.shape:
        raise DataError(f"h0: expected a tensor (rows, columns) with at least one of each, got {_describe(h0)}")
    if h0.dtype not in (torch.float32, torch.float64):
        raise DataError(f"h0: expected float32 or float64, got {h0.dtype}")
    if not bool(h0.detach().isfinite().all()):
        raise DataError("h0: expected finite numbers, got NaN or infinity")


def _checked_times(times: Tensor, h0: Tensor) -> Tensor:
    if not isinstance(times, Tensor) or times.ndim not in (1, 2) or (times.ndim == 2 and len(times) != len(h0)):
        raise DataError(f"times: expected a tensor (T,) or ({len(h0)}, T), got {_describe(times)}")
    if times.shape[-1] < 2:
        raise DataError(f"times: expected at least two, got {times.shape[-1]}: a horizon of zero")
    times = times.detach().to(h0.device)
    if not times.is_floating_point():
        times = times.to(torch.float64)
    if not bool(times.isfinite().all()):
        raise DataError("times: expected finite numbers, got NaN or infinity")
    gaps = times.diff(dim=-1)
    if bool((gaps == 0).all()):
        raise DataError("times: expected times that rise or fall, got all equal: a horizon of zero")
    if not (bool((gaps > 0).all()) or bool((gaps < 0).all())):
        raise DataError("times: expected times that rise, or that fall, in every row alike, got some that do not")
    return times


def _check_slope(slope: Tensor, h0: Tensor) -> None:
    if not isinstance(slope, Tensor) or slope.shape != h0.shape or slope.dtype != h0.dtype:
        raise DataError(f"field: expected {_describe(h0)} for {_describe(h0)}, got {_describe(slope)}")


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return type(value).__name__
