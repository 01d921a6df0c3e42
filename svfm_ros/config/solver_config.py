"""Options of the ODE solvers."""

from dataclasses import dataclass

from svfm_ros.config.options import check, option
from svfm_ros.errors import ConfigError

__all__ = ["METHODS", "SolverConfig"]

METHODS = ("dopri5", "torchdiffeq:dopri5", "rk4", "euler")


@dataclass(frozen=True, slots=True)
class SolverConfig:
    """Options of ``svfm_ros.svfm.solve``; times are in the unit of the field's time."""

    method: str = option(
        "dopri5",
        "dopri5 has a step size per row; the others are torchdiffeq's, with one step size per batch",
        choices=METHODS,
    )
    rtol: float = option(1e-6, "error allowed per step, relative to the state", low=1e-14, high=0.1)
    atol: float = option(1e-6, "error allowed per step, in units of the state", low=1e-14, high=1e6)
    max_steps: int = option(10_000, "steps tried per row before it fails", low=1, high=10_000_000)
    first_step: float = option(0.0, "size of the first step; 0 lets the solver choose", low=0.0)
    max_step: float = option(0.0, "no step is longer than this; 0 sets no limit", low=0.0)
    step_size: float = option(
        0.0, "step of rk4 and euler; 0 takes one step between consecutive requested times", low=0.0
    )
    adjoint: bool = option(False, "torchdiffeq's adjoint method for the gradient: less memory, more time")

    def __post_init__(self) -> None:
        check(self)
        if self.adjoint and self.method == "dopri5":
            raise ConfigError(
                "SolverConfig.adjoint: expected a method of torchdiffeq, such as torchdiffeq:dopri5, got dopri5"
            )
