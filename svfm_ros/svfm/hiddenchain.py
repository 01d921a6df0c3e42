"""What is hidden about a walker, as plain numbers: the chain of a model and its gate, copied out of torch once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.svfm.walkmodel import TIME_GAIN, WalkModel

__all__ = ["HiddenChain"]

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class HiddenChain:
    """Probabilities are per step of ``dt_s``."""

    dt_s: float
    ramp: Array  # (R,), share of their speed that walkers reach in each of their first steps
    log_pace: NDArray[np.float64]  # (G,)
    log_pace_weight: NDArray[np.float64]  # (G,)
    pace_spread: float  # standard deviation of the log of the pace
    keep: tuple[float, float]  # correlation of the noise from one step to the next, along and across
    pause: float
    resume: float
    switch: float
    gate: tuple[tuple[Array, Array], ...]  # weights and biases of its layers
    shift: Array  # (2,), metres
    unit_m: float

    @classmethod
    def of(cls, model: WalkModel) -> "HiddenChain":
        """The numbers of a model, wherever it lives."""
        chain = model.chain()
        return cls(
            dt_s=model.dt_s,
            ramp=np.exp(_numpy(chain.ramp)),
            log_pace=_numpy(chain.pace).astype(float),
            log_pace_weight=_numpy(chain.log_pace_weight).astype(float),
            pace_spread=float(model.log_pace_spread.detach().exp()) if model.config.paces > 1 else 0.0,
            keep=(float(chain.keep_v.detach()), float(chain.keep_u.detach())),
            pause=float(chain.pause.detach()),
            resume=float(chain.resume.detach()),
            switch=chain.switch,
            gate=tuple((_numpy(w[0]), _numpy(b[0, 0])) for w, b in model.gate.weights()),
            shift=_numpy(model.shift),
            unit_m=model.config.unit_m,
        )

    def log_prior(self, xy: NDArray[np.float64], hours: ArrayLike) -> NDArray[np.float64]:
        """Log of the share of each field (S, K) for people at positions (S, 2) at local hours, one or (S,)."""
        angle = np.broadcast_to(2.0 * np.pi / 24.0 * np.asarray(hours, dtype=float), len(xy))
        tod = (TIME_GAIN * np.stack([np.cos(angle), np.sin(angle)], axis=1)).astype(np.float32)
        x = np.concatenate([(xy.astype(np.float32) - self.shift) / np.float32(self.unit_m), tod], axis=1)
        for i, (w, b) in enumerate(self.gate):
            x = (np.tanh(x) if i else x) @ w + b
        logits = (x - x.max(1, keepdims=True)).astype(float)
        return np.asarray(logits - np.log(np.exp(logits).sum(1, keepdims=True)))


def _numpy(x: object) -> Array:
    return np.ascontiguousarray(x.detach().cpu().numpy(), dtype=np.float32)  # type: ignore[attr-defined]
