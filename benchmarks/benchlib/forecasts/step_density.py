"""One-step log densities, teacher-forced: the density of each step given all positions before it, nats per step.

Only among forecasters that have such a density. Each function returns one value per walk: the mean of minus the log
density over its steps. Every parameter is fitted to the training walks; bandwidths by leaving out one walk at a time.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln

from benchlib.forecasts.comparators import StudentScale, fit_student
from benchlib.forecasts.walker_frame import to_own_axes
from svfm_ros.types import WalkWindows

__all__ = ["kernel_step_nll", "straight_step_nll"]

Array = NDArray[np.float64]

_BROAD_SHARE = 0.01  # of a broad Gaussian in the kernel density: what lies far from every kernel


@dataclass(frozen=True, slots=True)
class _Steps:
    """Every step of some walks."""

    here: Array  # (M, 2), where it begins
    moves: Array  # (M, 4, 2), the moves before it, latest first; zero before the walk began
    step: Array  # (M, 2)
    row: NDArray[np.int64]  # (M,), its walk
    first: NDArray[np.bool_]  # (M,), whether it is the walk's first one

    @classmethod
    def of(cls, walks: WalkWindows) -> "_Steps":
        step = np.diff(walks.xy, axis=1)
        before = [np.pad(step, ((0, 0), (k, 0), (0, 0)))[:, : step.shape[1]] for k in (1, 2, 3, 4)]
        use = walks.valid[:, 1:]
        row, at = np.nonzero(use)
        return cls(walks.xy[:, :-1][use], np.stack([b[use] for b in before], axis=1), step[use], row, at == 0)

    def per_walk(self, nll: Array) -> Array:
        """Mean over the steps of each walk."""
        return np.bincount(self.row, weights=nll) / np.bincount(self.row)

    def subset(self, keep: NDArray[np.bool_]) -> "_Steps":
        return _Steps(self.here[keep], self.moves[keep], self.step[keep], self.row[keep], self.first[keep])


def straight_step_nll(train: WalkWindows, walks: WalkWindows) -> Array:
    """Constant velocity: the mean of the last one to four moves goes on, with Student-t noise in the walker's axes.

    The first step of a walk has no move before it: an isotropic Student-t around standing still.
    """
    known, asked = _Steps.of(train), _Steps.of(walks)
    fits = [(_fit_straight(known, moves), moves) for moves in (1, 2, 3, 4)]
    best, moves = min(fits, key=lambda f: float(_straight(known, f[0], f[1])[~known.first].mean()))
    nll = _straight(asked, best, moves)
    scale, nu = _fit_isotropic(known.step[known.first])
    nll[asked.first] = _isotropic(asked.step[asked.first], scale, nu)
    return asked.per_walk(nll)


def _mean_move(steps: _Steps, moves: int) -> Array:
    """Mean of the last moves, of those there are; a move of exactly zero counts as not yet made."""
    made = np.maximum((np.abs(steps.moves[:, :moves]).sum(-1) > 0.0).sum(1), 1)
    return np.asarray(steps.moves[:, :moves].sum(1) / made[:, None])


def _off(steps: _Steps, moves: int) -> tuple[Array, Array]:
    """Deviations ``(M, 2)`` in own axes, speeds ``(M,)``."""
    move = _mean_move(steps, moves)
    return to_own_axes(steps.step - move, move), np.linalg.norm(move, axis=1)


def _fit_straight(steps: _Steps, moves: int) -> tuple[StudentScale, StudentScale]:
    off, speed = _off(steps.subset(~steps.first), moves)
    k = np.ones(len(off))
    return fit_student(off[:, 0], speed, k), fit_student(off[:, 1], speed, k)


def _straight(steps: _Steps, fits: tuple[StudentScale, StudentScale], moves: int) -> Array:
    off, speed = _off(steps, moves)
    return sum((f.nll(off[:, i], speed, np.ones(len(off))) for i, f in enumerate(fits)), np.zeros(len(off)))


def _isotropic(x: Array, scale: float, nu: float) -> Array:
    """Minus the log density of a bivariate Student-t around zero."""
    squared = (x**2).sum(-1) / scale**2
    log_norm = gammaln(nu / 2.0 + 1.0) - gammaln(nu / 2.0) - np.log(nu * np.pi * scale**2)
    return np.asarray(-(log_norm - (nu / 2.0 + 1.0) * np.log1p(squared / nu)))


def _fit_isotropic(x: Array) -> tuple[float, float]:
    def loss(theta: Array) -> float:
        return float(_isotropic(x, float(np.exp(theta[0])), 1.0 + float(np.exp(np.clip(theta[1], -8, 5)))).mean())

    begin = np.array([np.log(max(float(np.sqrt((x**2).mean())), 1e-3)), np.log(5.0)])
    best = minimize(loss, begin, method="Nelder-Mead").x
    return float(np.exp(best[0])), 1.0 + float(np.exp(np.clip(best[1], -8, 5)))


@dataclass(frozen=True, slots=True)
class _Widths:
    """Bandwidths, metres: of where someone is, of their last move, of the next step."""

    near_m: float = 0.3
    move_m: float = 0.1
    step_m: float = 0.04


_GRID = {"step_m": (0.01, 0.02, 0.04, 0.08, 0.16), "near_m": (0.1, 0.2, 0.4, 0.8), "move_m": (0.02, 0.05, 0.1, 0.2)}


def kernel_step_nll(train: WalkWindows, walks: WalkWindows) -> Array:
    """Kernel density of the next step, from training steps near here after about the same move."""
    known, asked = _Steps.of(train), _Steps.of(walks)
    some = known.subset(np.isin(np.arange(len(known.row)), np.linspace(0, len(known.row) - 1, 600).astype(int)))
    widths = _Widths()
    for _ in range(2):
        for name, values in _GRID.items():
            tried = [replace(widths, **{name: value}) for value in values]
            widths = min(tried, key=lambda w: float(_kernel(known, some, w, own=True).mean()))
    return asked.per_walk(_kernel(known, asked, widths, own=False))


def _kernel(known: _Steps, asked: _Steps, widths: _Widths, own: bool) -> Array:
    """Minus the log density of each step asked for; with ``own``, steps of the same walk do not count."""
    broad = known.step.std() + 1e-3
    far = np.exp(-0.5 * (asked.step**2).sum(-1) / broad**2) / (2.0 * np.pi * broad**2)
    near = np.empty(len(asked.row))
    for begin in range(0, len(asked.row), 256):
        some = slice(begin, begin + 256)
        logit = -0.5 * ((asked.here[some, None] - known.here) ** 2).sum(-1) / widths.near_m**2
        logit -= 0.5 * ((asked.moves[some, None, 0] - known.moves[:, 0]) ** 2).sum(-1) / widths.move_m**2
        if own:
            logit[asked.row[some, None] == known.row] = -np.inf
        share = np.exp(logit - np.maximum(logit.max(1, keepdims=True), -1e300))
        hit = np.exp(-0.5 * ((asked.step[some, None] - known.step) ** 2).sum(-1) / widths.step_m**2)
        hit /= 2.0 * np.pi * widths.step_m**2
        near[some] = (share * hit).sum(1) / np.maximum(share.sum(1), 1e-300)
    return np.asarray(-np.log((1.0 - _BROAD_SHARE) * near + _BROAD_SHARE * far + 1e-300))
