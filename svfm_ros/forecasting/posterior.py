"""What the walk so far says about what is hidden: field, pace, noise, pausing.

The forward recursion of training, run along the positions seen. As the walker turns towards the kitchen, the
belief turns with them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.forecasting.forward_kernel import run_forward
from svfm_ros.forecasting.hidden_chain import HiddenChain
from svfm_ros.types import Walk

__all__ = ["Belief", "Hidden", "SeenSteps", "check_positions", "on_ticks", "weigh"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hidden:
    """What is hidden, drawn for S paths, right before their next step."""

    component: NDArray[np.int64]  # (S,)
    pace: NDArray[np.float32]  # (S,), factor on the speed
    eps_v: NDArray[np.float32]  # (S,), standardised noise along the way in the last step
    eps_u: NDArray[np.float32]  # (S,), and across
    pausing: NDArray[np.bool_]  # (S,)
    step: int  # how many steps were taken before


@dataclass(frozen=True, slots=True)
class Belief:
    """Probabilities of what is hidden after the positions seen, and the noise each possibility implies."""

    probability: Array  # (2, K, G), walking and pausing
    log_pace: Array  # (G,)
    eps_v: Array  # (K, G)
    eps_u: Array  # (K, G)
    steps: int  # moves seen
    log_likelihood: float

    @property
    def components(self) -> Array:
        """Share of each field (K,)."""
        return np.asarray(self.probability.sum((0, 2)))

    def draw(self, rows: int, rng: np.random.Generator) -> Hidden:
        """Samples of what is hidden; paces are spread evenly between the values of the grid."""
        index = rng.choice(self.probability.size, size=rows, p=self.probability.ravel())
        pausing, component, pace = np.unravel_index(index, self.probability.shape)
        gap = self.log_pace[1] - self.log_pace[0] if len(self.log_pace) > 1 else 0.0
        log_pace = self.log_pace[pace] + gap * (rng.random(rows) - 0.5)
        return Hidden(
            component=component.astype(np.int64),
            pace=np.exp(log_pace).astype(np.float32),
            eps_v=self.eps_v[component, pace].astype(np.float32),
            eps_u=self.eps_u[component, pace].astype(np.float32),
            pausing=pausing.astype(np.bool_),
            step=self.steps,
        )


def check_positions(xy: Array) -> None:
    """Whether steps can be seen in positions ``xy``; said in one sentence where not."""
    if xy.ndim != 2 or xy.shape[1] != 2 or len(xy) < 2 or not np.isfinite(xy).all():
        raise DataError(f"walk so far: expected at least two finite positions (T, 2), got shape {xy.shape}")


def on_ticks(walk: Walk, dt_s: float) -> Array:
    """Positions (T, 2) every ``dt_s``, the last of them where the walk is now; a start shorter than a tick is lost."""
    if not len(walk.stamps_ns) or np.any(np.diff(walk.stamps_ns) <= 0):
        raise DataError("walk so far: expected positions with stamps that increase")
    if not np.isfinite(walk.xy).all():
        raise DataError("walk so far: expected finite positions, got NaN or infinity")
    times = walk.times_s
    count = int(np.floor(times[-1] / dt_s + 1e-6))
    ticks = times[-1] - dt_s * np.arange(count, -1, -1)
    return np.stack([np.interp(ticks, times, walk.xy[:, i]) for i in (0, 1)], axis=1)


@dataclass(frozen=True, slots=True)
class SeenSteps:
    """What the steps of one walk say, whatever the hour."""

    xy: Array  # (T, 2), positions on the model's ticks
    log_says: Array  # (I, 2, K, G), of each move while walking and while pausing; I = T - 1
    eps_v: Array  # (K, G), noise along in the last step
    eps_u: Array  # (K, G), and across


def weigh(seen: SeenSteps, chain: HiddenChain, start_hour: float, trust: float = 1.0) -> Belief:
    """What the steps say for a walk that began at that local hour; ``trust`` below 1 tempers it."""
    moves = len(seen.log_says)
    hours = start_hour + chain.dt_s / 3600.0 * np.arange(moves + 1)
    few = slice(None) if chain.switch else slice(1)
    log_choice = chain.log_prior(seen.xy[few], hours[few])  # (T or 1, K)
    state = log_choice[0][:, None] + chain.log_pace_weight  # (K, G)
    state = np.stack([np.log1p(-chain.pause) + state, np.log(chain.pause) + state])
    run_forward(state, trust * seen.log_says, log_choice[1:], chain.pause, chain.resume, chain.switch)
    high = state.max()
    probability = np.exp(state - high)
    return Belief(
        probability=probability / probability.sum(),
        log_pace=chain.log_pace,
        eps_v=seen.eps_v,
        eps_u=seen.eps_u,
        steps=moves,
        log_likelihood=float(high + np.log(probability.sum())),
    )
