"""Forecasters to compare with, all behind one small door: learn from walks, then draw paths from where someone is.

A ``Question`` is what has been seen of a walk on the walks' tick, at least one position, and the local hour. Every
forecaster answers with sampled paths that begin where the walker is now. Some have no use for the walk so far (a field
sees the present position alone); some have no use for a walk that has only just begun (constant velocity then takes a
speed and a heading at random). The paper's mixtures are in ``paper_forecasters``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.forecast_config import PathTrainConfig, WalkModelConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.fit import as_batch, train_paths
from svfm_ros.forecasting.sampler import PathSampler
from svfm_ros.forecasting.step_evidence import believe
from svfm_ros.forecasting.tabulate import tabulate
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.types import WalkWindows

__all__ = [
    "Bootstrap",
    "ConstantVelocity",
    "Forecaster",
    "PathLikelihood",
    "Question",
    "flattened",
    "kernel_density",
    "seen_along",
    "turned_back",
]

Array = NDArray[np.float64]

_HISTORY = 4  # positions of the walk so far that are compared with training walks


@dataclass(frozen=True, slots=True)
class Question:
    """Where will they be?"""

    seen: Array  # (P, 2), positions up to now on the walks' tick, P at least 1
    hour: float  # local
    ticks: int  # how far ahead
    samples: int = 100
    seed: int = 0
    step: int = 0  # how many ticks ago the walk began: seen may hold the last part of it only


class Forecaster(Protocol):
    """What all of them can do."""

    name: str

    def fit(self, walks: WalkWindows) -> None:
        """Learn from walks."""

    def sample(self, question: Question) -> Array:
        """Paths ``(S, ticks + 1, 2)`` from the last position seen on."""


@dataclass(slots=True)
class ConstantVelocity:
    """The last step goes on, with noise on speed and heading that fits the training walks."""

    name: str = "constant velocity"
    _noise: Array = field(default_factory=lambda: np.zeros((1, 2)))  # (M, 2), change of the velocity per tick
    _first: Array = field(default_factory=lambda: np.zeros((1, 2)))  # (M, 2), steps of people under way

    def fit(self, walks: WalkWindows) -> None:
        """Mean steps, and how far off the last step is after a while, as a share of a frozen error."""
        step = np.diff(walks.xy, axis=1)  # (N, T - 1, 2)
        both = walks.valid[:, 2:]
        self._first = step[walks.valid[:, 1:]]
        ahead = 4
        errors = [self._turned(step[:, i], step[:, i + ahead]) for i in range(step.shape[1] - ahead)]
        kept = [e[walks.valid[:, i + 1 + ahead]] for i, e in enumerate(errors)]
        self._noise = np.concatenate(kept) if any(len(k) for k in kept) else step[:, 1:][both] - step[:, :-1][both]

    @staticmethod
    def _turned(step: Array, later: Array) -> Array:
        """How a later step differs from a step, seen along it."""
        return seen_along(later - step, step)

    def sample(self, question: Question) -> Array:
        """Straight lines."""
        rng = np.random.default_rng(question.seed)
        here = question.seen[-1]
        if len(question.seen) < 2:
            speed = np.linalg.norm(self._first[rng.integers(len(self._first), size=question.samples)], axis=1)
            angle = rng.uniform(-np.pi, np.pi, question.samples)
            step = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        else:
            last = np.broadcast_to(here - question.seen[-2], (question.samples, 2))
            step = last + turned_back(self._noise[rng.integers(len(self._noise), size=question.samples)], last)
        return np.asarray(here + step[:, None] * np.arange(question.ticks + 1)[:, None])


def seen_along(vectors: Array, along: Array) -> Array:
    """Vectors (..., 2) as parts along (..., 2) and to the left of it."""
    unit, left = _axes(along)
    return np.stack([(vectors * unit).sum(-1), (vectors * left).sum(-1)], axis=-1)


def turned_back(parts: Array, along: Array) -> Array:
    """The way back."""
    unit, left = _axes(along)
    return np.asarray(parts[..., :1] * unit + parts[..., 1:] * left)


def _axes(along: Array) -> tuple[Array, Array]:
    unit = along / np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), 1e-9)
    return unit, np.stack([-unit[..., 1], unit[..., 0]], axis=-1)


@dataclass(slots=True)
class Bootstrap:
    """Replays training walks: drawn by how well they agree with the walk so far, put where the walker is."""

    name: str = "bootstrap of training walks"
    kernel_m: float = 0.3  # how well they must agree
    spread_m: float = 0.0  # noise on top; above zero it is a kernel density
    _walks: WalkWindows | None = None
    _row: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _at: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def fit(self, walks: WalkWindows) -> None:
        """Remember them."""
        self._walks = walks
        self._row, self._at = np.nonzero(walks.valid)

    def sample(self, question: Question) -> Array:
        """Futures of training walks that were in about the same situation."""
        walks = self._walks
        if walks is None:
            raise DataError("expected fit before sample")
        rng = np.random.default_rng(question.seed)
        share = self._agreement(walks, question)
        pick = rng.choice(len(share), size=question.samples, p=share)
        row, at = self._row[pick], self._at[pick]
        index = np.minimum(at[:, None] + np.arange(question.ticks + 1), walks.xy.shape[1] - 1)
        paths = walks.xy[row[:, None], index]  # padding repeats the last position
        if len(question.seen) > 1:
            paths = paths + (question.seen[-1] - paths[:, :1])
        noise = self.spread_m * rng.standard_normal((question.samples, 1, 2))
        grown = np.minimum(np.arange(question.ticks + 1) / 4.0, 1.0)[:, None]
        return np.asarray(paths + noise * grown)

    def _agreement(self, walks: WalkWindows, question: Question) -> Array:
        """Probability of each position of each training walk to be the one that is now."""
        back = min(len(question.seen), _HISTORY)
        seen = question.seen[-back:]
        possible = self._at >= back - 1
        if len(question.seen) == 1 and question.step == 0:
            possible &= self._at == 0  # a walk that has just begun
        index = np.maximum(self._at[:, None] - np.arange(back - 1, -1, -1), 0)
        squared = ((walks.xy[self._row[:, None], index] - seen) ** 2).sum(-1).mean(1)
        logit = np.where(possible, -0.5 * squared / self.kernel_m**2, -np.inf)
        weight = np.exp(logit - logit.max())
        return np.asarray(weight / weight.sum())


def kernel_density(kernel_m: float = 0.3, spread_m: float = 0.2) -> Bootstrap:
    """A kernel density over training walks: replayed with noise on top."""
    return Bootstrap("KDE of training walks", kernel_m, spread_m)


@dataclass(slots=True)
class PathLikelihood:
    """Ours: the walk model, trained by the likelihood of whole walks, started from its belief."""

    name: str = "SVFM by path likelihood (ours)"
    model_config: WalkModelConfig = field(default_factory=WalkModelConfig)
    config: PathTrainConfig = field(default_factory=PathTrainConfig)
    follow: Callable[[WalkWindows], NDArray[np.bool_]] | None = None  # which rows end their walk; None: all
    _sampler: PathSampler | None = None
    _model: WalkModel | None = None

    def fit(self, walks: WalkWindows) -> None:
        """Train."""
        ended = None if self.follow is None else self.follow(walks)
        trained = train_paths(as_batch(walks, ended), walks.dt_s, self.model_config, self.config)
        self._model, self._sampler = trained.model, PathSampler(tabulate(trained.model))

    @property
    def model(self) -> WalkModel:
        """The trained walk model."""
        if self._model is None:
            raise DataError("expected fit before use")
        return self._model

    def sample(self, question: Question) -> Array:
        """Paths from the belief after the walk so far, or from the gate where it has only begun."""
        if self._sampler is None:
            raise DataError("expected fit before sample")
        rng = np.random.default_rng(question.seed)
        start = np.tile(question.seen[-1], (question.samples, 1))
        if len(question.seen) < 2:
            hidden = self._sampler.draw_start(start, question.hour, rng)
        else:
            belief = believe(self.model, question.seen, question.hour, self._sampler.chain.trust)
            hidden = belief.draw(question.samples, rng)
        hidden = replace(hidden, step=max(hidden.step, question.step))
        return self._sampler.sample(start, hidden, question.hour, question.ticks, rng).xy


def flattened(walks: WalkWindows, ticks: int) -> Array:
    """Whole walks as paths ``(N, ticks + 1, 2)``: a walk that has ended stays where it ended."""
    index = np.minimum(np.arange(ticks + 1)[None], np.maximum(walks.lengths - 1, 0)[:, None])
    return np.asarray(walks.xy[np.arange(len(walks))[:, None], index])
