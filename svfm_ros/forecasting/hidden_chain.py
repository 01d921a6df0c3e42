"""What is hidden about a walker, as plain numbers: the chain of a model and its gate, copied out of torch once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.forecasting.habits import CELLS

if TYPE_CHECKING:  # these numbers are used where torch is not loaded
    from svfm_ros.forecasting.walk_model import WalkModel

__all__ = ["CLIP", "NOT_YET", "HiddenChain"]

CLIP = 4.0
"""No step says more about the next than one this many deviations off."""
NOT_YET = -6.0
"""Logit added to an end in the first steps: who is slow because they just got up has not arrived."""

Array = NDArray[np.float32]

_FEWEST = 4.0  # walks per field, for how wide paths may spread


@dataclass(frozen=True, slots=True)
class HiddenChain:
    """Probabilities are per step of ``dt_s``."""

    dt_s: float
    ramp: Array  # (R,), share of their speed that walkers reach in each of their first steps
    steady: Array  # (R,), share of the noise in these steps
    log_pace: NDArray[np.float64]  # (G,)
    log_pace_weight: NDArray[np.float64]  # (G,)
    pace_spread: float  # standard deviation of the log of the pace
    widen: float  # how much wider one more walk may be off than the walks it was learned from
    keep: tuple[float, float]  # correlation of the noise from one step to the next, along and across
    begin: tuple[float, float]  # spread of the noise in the first step, along and across; from there it grows to one
    pause: float
    resume: float
    switch: float
    habit_xy: NDArray[np.float64]  # (C, 2), where walks start, metres
    habit_shares: NDArray[np.float64]  # (C, CELLS, K), share of each field by the hour
    near_m: float
    trust: float  # how far a step may be trusted to tell fields apart, 0 to 1

    @classmethod
    def of(cls, model: "WalkModel") -> "HiddenChain":
        """The numbers of a model, wherever it lives."""
        chain = model.chain()
        used = _numpy(model.habit_walks) > 0
        return cls(
            dt_s=model.dt_s,
            ramp=np.exp(_numpy(chain.ramp)),
            steady=np.exp(_numpy(chain.steady)),
            log_pace=_numpy(chain.pace).astype(float),
            log_pace_weight=_numpy(chain.log_pace_weight).astype(float),
            pace_spread=float(model.log_pace_spread.detach().exp()) if model.config.paces > 1 else 0.0,
            widen=_widen(float(model.habit_walks.sum()) / model.config.components),
            keep=(float(chain.keep_v.detach()), float(chain.keep_u.detach())),
            begin=(float(chain.begin_v.detach()), float(chain.begin_u.detach())),
            pause=float(chain.pause.detach()),
            resume=float(chain.resume.detach()),
            switch=chain.switch,
            habit_xy=_numpy(model.habit_xy).astype(float)[used],
            habit_shares=np.exp(_numpy(model.habit_log).astype(float))[used],
            near_m=model.config.near_m,
            trust=_trust(float(model.habit_walks.sum()) / model.config.components, model.config.doubt_walks),
        )

    def log_prior(self, xy: NDArray[np.float64], hours: ArrayLike) -> NDArray[np.float64]:
        """Log of the share of each field (S, K) for people at positions (S, 2) at local hours, one or (S,)."""
        squared = ((xy[:, None] - self.habit_xy) ** 2).sum(-1)  # (S, C)
        near = np.exp(-0.5 * (squared - squared.min(1, keepdims=True)) / self.near_m**2)
        cell = np.floor(np.asarray(hours, dtype=float) * (CELLS / 24.0)).astype(np.int64) % CELLS
        habits = self.habit_shares[:, np.broadcast_to(cell, len(xy))]  # (C, S, K)
        mixed = np.einsum("sc,csk->sk", near, habits)
        return np.asarray(np.log(mixed / near.sum(1, keepdims=True)))


def _widen(walks: float) -> float:
    """Spread of one more draw over the spread fitted to n: the fitted middle is off, too, and the fit is too narrow."""
    n = max(walks, _FEWEST)
    return float(np.sqrt((n + 1.0) / (n - 1.0)))


def _trust(walks: float, doubt_walks: float) -> float:
    """Less, the fewer walks each field was learned from.

    Fields learned from ten walks each differ by chance where people in fact walk alike, and all steps of a walk then
    speak for the wrong one together. Without this, forecasts in the hall were worse than the habits alone.
    """
    return walks / (walks + doubt_walks)


def _numpy(x: object) -> Array:
    return np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)  # type: ignore[attr-defined]
