"""Constant velocity with heavy tails: the comparator that knows nothing of the place.

The mean of the last moves goes on. How far people are from there after k time steps is Student-t, along and across the
direction of walking, with a scale ``(a + b speed) k^p``; all parameters are fitted to the training walks, and so is the
number of moves. A walk that has just begun has no direction: paths go straight in directions drawn evenly, as far
from the start as training walks got.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln

from benchlib.forecasts.questions import Question
from benchlib.forecasts.walker_frame import from_own_axes, heading_move, to_own_axes
from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

__all__ = ["ConstantVelocity", "StudentScale", "fit_student", "student_nll"]

Array = NDArray[np.float64]

_HORIZONS = (1, 2, 4, 8, 12, 20, 30, 50, 100)
_MOST = 3000  # deviations per horizon that are fitted
_SLOWEST_M = 1e-3


def student_nll(x: Array, scale: Array | float, nu: float) -> Array:
    """Minus the log density of a Student-t with that scale, nats."""
    log_norm = gammaln((nu + 1.0) / 2.0) - gammaln(nu / 2.0) - 0.5 * np.log(nu * np.pi) - np.log(scale)
    return np.asarray(-(log_norm - 0.5 * (nu + 1.0) * np.log1p((x / scale) ** 2 / nu)))


@dataclass(frozen=True, slots=True)
class StudentScale:
    """A Student-t whose scale is ``(a + b speed) k^p`` metres after k time steps; speed in metres per step."""

    a: float
    b: float
    p: float
    nu: float

    def scale(self, speed: Array, k: Array) -> Array:
        """Metres."""
        return np.asarray((self.a + self.b * speed) * k**self.p)

    def nll(self, x: Array, speed: Array, k: Array) -> Array:
        """Minus the log density of deviations, nats."""
        return student_nll(x, self.scale(speed, k), self.nu)


def fit_student(x: Array, speed: Array, k: Array) -> StudentScale:
    """Maximum likelihood for deviations ``(M,)`` after k steps at these speeds."""
    if not len(x):
        raise DataError("expected deviations to fit, got none")

    def model(theta: Array) -> StudentScale:
        a, b, nu = np.exp(np.clip(theta[[0, 1, 3]], -12.0, 5.0))
        return StudentScale(float(a), float(b), float(theta[2]), 1.0 + float(nu))

    def loss(theta: Array) -> float:
        return float(model(theta).nll(x, speed, k).mean())

    middle = max(float(np.median(np.abs(x) / k)), 1e-3)
    begin = np.array([np.log(middle), np.log(0.1), 1.0, np.log(3.0)])
    best = minimize(loss, begin, method="Nelder-Mead", options={"maxiter": 400, "xatol": 1e-3, "fatol": 1e-4})
    return model(best.x)


@dataclass(slots=True)
class ConstantVelocity:
    """Goes on as before, with fitted Student-t deviations that are drawn once per path."""

    name: str = "constant velocity, Student-t"
    moves: int = 1  # whose mean goes on; fitted
    _fits: tuple[StudentScale, StudentScale] | None = None  # along, across
    _starts_m: Array = field(default_factory=lambda: np.zeros((0, 1)))  # (N, T), distance from the start

    def fit(self, walks: WalkWindows) -> None:
        """Fit the deviations and the number of moves to the training walks."""
        found = []
        for moves in (1, 2, 3, 4):
            off, speed, k = _deviations(walks, moves)
            fits = tuple(fit_student(off[:, i], speed, k) for i in (0, 1))
            nll = sum(float(f.nll(off[:, i], speed, k).mean()) for i, f in enumerate(fits))
            found.append((nll, moves, fits))
        _, self.moves, (along, across) = min(found, key=lambda f: f[0])
        self._fits = (along, across)
        self._starts_m = np.linalg.norm(walks.xy - walks.xy[:, :1], axis=-1)

    def sample(self, question: Question) -> Array:
        """Straight paths ``(S, ticks + 1, 2)``."""
        if self._fits is None:
            raise DataError("expected fit before sample")
        rng = np.random.default_rng(question.seed)
        if len(question.seen) < 2:
            return self._from_rest(question, rng)
        move = heading_move(question.seen, self.moves)
        k = np.arange(question.ticks + 1)
        speed = np.full(1, np.linalg.norm(move))
        off = [f.scale(speed, k) * rng.standard_t(f.nu, (question.samples, 1)) for f in self._fits]
        straight = question.seen[-1] + move * k[:, None]
        paths = straight + from_own_axes(np.stack(off, axis=-1), move)
        paths[:, 0] = question.seen[-1]
        return np.asarray(paths)

    def _from_rest(self, question: Question, rng: np.random.Generator) -> Array:
        """Straight in any direction, as far as training walks got from their starts."""
        pick = rng.integers(len(self._starts_m), size=question.samples)
        index = np.minimum(np.arange(question.ticks + 1), self._starts_m.shape[1] - 1)
        angle = rng.uniform(-np.pi, np.pi, question.samples)
        unit = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return np.asarray(question.seen[-1] + self._starts_m[pick][:, index, None] * unit[:, None])


def _deviations(walks: WalkWindows, moves: int) -> tuple[Array, Array, Array]:
    """Deviations ``(M, 2)`` in own axes from going on as before, speeds and time steps ahead ``(M,)``."""
    off, speeds, ahead = [], [], []
    for k in _HORIZONS:
        now = np.arange(max(moves, 4), walks.xy.shape[1] - k)
        row, i = np.nonzero(walks.valid[:, now + k]) if len(now) else (np.zeros(0, int), np.zeros(0, int))
        some = np.linspace(0, len(row) - 1, min(_MOST, len(row))).astype(int)
        row, at = row[some], now[i[some]] if len(now) else i
        move = (walks.xy[row, at] - walks.xy[row, at - moves]) / moves
        off.append(to_own_axes(walks.xy[row, at + k] - walks.xy[row, at] - k * move, move))
        speeds.append(np.linalg.norm(move, axis=1))
        ahead.append(np.full(len(row), float(k)))
    return np.concatenate(off), np.concatenate(speeds), np.concatenate(ahead)
