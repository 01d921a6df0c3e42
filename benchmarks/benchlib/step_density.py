"""What each forecaster's own density says about whole walks, nats per step: the other half of the judge.

Forecasters that go step by step are asked for the density of each step given what came before; those that only know
where a walk started, for the density of each position given the start. Ours pays for saying when a walk ends, too.
"""

import math

import numpy as np
from numpy.typing import NDArray

from benchlib.comparators import Forecaster, PathLikelihood, flattened
from benchlib.paper_forecasters import PaperForecaster
from svfm_ros.forecasting.fit import as_batch, held_out_nll
from svfm_ros.types import WalkWindows

__all__ = ["kernel_step_nll", "own_nll", "straight_step_nll"]

Array = NDArray[np.float64]

_LOG_2PI = math.log(2.0 * math.pi)
_NEAR_M, _ALIKE_M = 0.3, 0.1  # kernels on where someone is and on their last step
_WIDTHS_M = (0.01, 0.02, 0.04, 0.08)  # kernels on the next step; training walks left out choose
_LEAST = 1e-9


def own_nll(forecaster: Forecaster, train: WalkWindows, walks: WalkWindows) -> float:
    """Of walks never seen; NaN for forecasters without a density."""
    if isinstance(forecaster, PathLikelihood):
        return held_out_nll(forecaster.model, as_batch(walks))
    if isinstance(forecaster, PaperForecaster):
        return forecaster.nll(flattened(walks, forecaster.ticks), np.minimum(walks.lengths, forecaster.ticks + 1))
    if forecaster.name == "constant velocity":
        return straight_step_nll(train, walks)
    if forecaster.name.startswith("KDE"):
        return kernel_step_nll(train, walks)
    return math.nan


_Steps = tuple[Array, Array, Array, NDArray[np.int64]]


def _steps(walks: WalkWindows) -> _Steps:
    """Of every step: where it begins, the step before it (zero for the first one), the step, and its row."""
    step = np.diff(walks.xy, axis=1)
    before = np.concatenate([np.zeros_like(step[:, :1]), step[:, :-1]], axis=1)
    use = walks.valid[:, 1:]
    row = np.broadcast_to(np.arange(len(walks))[:, None], use.shape)[use]
    return walks.xy[:, :-1][use], before[use], step[use], row


def straight_step_nll(train: WalkWindows, walks: WalkWindows) -> float:
    """The step before goes on, with Gaussian noise fitted to the training walks."""
    _, before, step, _ = _steps(train)
    off = step - before
    cov = off.T @ off / len(off)
    _, before, step, _ = _steps(walks)
    off = step - before
    quadratic = np.einsum("ni,ij,nj->n", off, np.linalg.inv(cov), off)
    return float(np.mean(0.5 * (quadratic + np.log(np.linalg.det(cov))) + _LOG_2PI))


def kernel_step_nll(train: WalkWindows, walks: WalkWindows) -> float:
    """A kernel density of the next step, from training steps at about that place after about that step."""
    known = _steps(train)
    width = min(_WIDTHS_M, key=lambda h: float(_kernel(known, known, h, own=True).mean()))
    return float(_kernel(known, _steps(walks), width, own=False).mean())


def _kernel(known: _Steps, asked: _Steps, width_m: float, own: bool) -> Array:
    """Minus log density of each step asked for; with ``own``, steps of the same walk do not count."""
    out = []
    for begin in range(0, len(asked[0]), 256):
        here, before, step, row = (a[begin : begin + 256] for a in asked)
        near = -0.5 * ((here[:, None] - known[0]) ** 2).sum(-1) / _NEAR_M**2
        near = near - 0.5 * ((before[:, None] - known[1]) ** 2).sum(-1) / _ALIKE_M**2
        if own:
            near = np.where(row[:, None] == known[3], -np.inf, near)
        share = np.exp(near - near.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        hit = np.exp(-0.5 * ((step[:, None] - known[2]) ** 2).sum(-1) / width_m**2) / (2.0 * np.pi * width_m**2)
        out.append(-np.log((share * hit).sum(1) + _LEAST))
    return np.concatenate(out)
