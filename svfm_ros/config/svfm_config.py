"""Options of the paper's model, of its training and of the ODE solvers."""

import math
from dataclasses import dataclass
from typing import Literal

from svfm_ros.config.options import CheckedOptions, check, option
from svfm_ros.errors import ConfigError

__all__ = ["METHODS", "ModelConfig", "SolverConfig", "TrainConfig"]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model with three switches (stochastic, components, augment): the eight corners of the paper's cube."""

    dim: int = option(2, "dimensions of what is observed", low=1, high=64)
    stochastic: bool = option(True, "give each field a random direction and length (S-)")
    components: int = option(4, "number of fields K; above one it is a mixture (-M)", low=1, high=256)
    augment: int = option(0, "zeros appended to the state (A-)", low=0, high=64)
    hidden_layers: int = option(2, "hidden layers of each field's network", low=1, high=8)
    hidden_units: int = option(32, "units in each hidden layer", low=1, high=4096)
    activation: Literal["relu", "tanh", "silu", "softplus"] = option(
        "relu", "activation of the hidden units", choices=("relu", "tanh", "silu", "softplus")
    )
    max_speed: float = option(
        10.0, "smooth bound on a field's median length, in state units per unit of time; 0 is none", low=0.0
    )
    still_speed: float = option(0.01, "length below which direction noise fades out", low=0.0)
    max_log_spread: float = option(
        1.0, "largest standard deviation of log-length, and of direction as a tangent", low=1e-3, high=3.0
    )
    first_log_spread: float = option(0.1, "that standard deviation before training", low=1e-4, high=3.0)
    time: Literal["none", "raw", "cyclic"] = option(
        "none",
        "time as an input of the networks: none, t itself, or the time tuple",
        choices=("none", "raw", "cyclic"),
    )
    period: float = option(24.0, "period of the time tuple, in units of time (24 for hours)", low=1e-9)
    selection: Literal["stick", "filter"] = option(
        "stick", "pick a field once (pick and stick), or forward filtering", choices=("stick", "filter")
    )
    gate: Literal["linear", "mlp"] = option("linear", "network of the selection", choices=("linear", "mlp"))
    stickiness: float = option(3.0, "initial logit of staying with the same field under filtering", low=0.0, high=20.0)
    correlation: float = option(
        math.inf, "time over which a path's noise keeps its value; inf freezes it for the whole path", low=0.0
    )
    learn_correlation: bool = option(False, "learn the correlation time, starting from its value")
    floor: float = option(0.05, "standard deviation of the observation noise, in state units", low=1e-6)
    learn_floor: bool = option(False, "learn the observation noise, starting from its value")
    max_floor: float = option(0.1, "largest observation noise that may be learned, in state units", low=1e-6)

    def __post_init__(self) -> None:
        check(self)
        if self.learn_correlation and not 0.0 < self.correlation < math.inf:
            raise ConfigError(f"expected a finite correlation above 0 to learn from, got {self.correlation}")
        if self.learn_floor and self.floor >= self.max_floor:
            raise ConfigError(f"expected a floor below max_floor {self.max_floor}, got {self.floor}")
        if self.first_log_spread >= self.max_log_spread:
            raise ConfigError(f"expected first_log_spread below {self.max_log_spread}, got {self.first_log_spread}")

    @property
    def width(self) -> int:
        """Dimensions of the state, padding included."""
        return self.dim + self.augment

    @property
    def corner(self) -> str:
        """The paper's name for this corner of the cube, such as A-SVFM."""
        return ("A-" if self.augment else "") + ("S" if self.stochastic else "") + "VF" + "M" * (self.components > 1)


@dataclass(frozen=True, slots=True)
class TrainConfig(CheckedOptions):
    """Options of ``svfm_ros.svfm.train``, the training loop of every experiment."""

    seed: int = option(0, "seed of the initial weights, the order of batches and the noise", low=0)
    steps: int = option(2000, "steps of the optimiser", low=1)
    batch_size: int = option(100, "rows per step; 0 takes all of them", low=0)
    learning_rate: float = option(1e-2, "step size of Adam", low=1e-8, high=1.0)
    gate_learning_rate: float = option(1e-2, "the same for the selection's networks", low=0.0, high=1.0)
    final_rate: float = option(0.05, "share of the learning rate left at the end (cosine)", low=0.0, high=1.0)
    clip: float = option(10.0, "largest norm of the gradient; 0 does not clip", low=0.0)
    check_every: int = option(50, "steps between validations", low=1)
    patience: int = option(0, "validations without improvement before stopping; 0 never stops", low=0)
    restarts: int = option(
        1, "trainings from different initial weights; the best by validation is kept", low=1, high=100
    )


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
