"""In open scenes people also walk where no habit leads: a free walker, and a forecaster that allows for both.

A free walker goes straight on, and off from there as people of about that speed did in the training tracks: whole
futures are replayed, as seen from going straight on, to either side. Which part of the people walk freely is learnt
from the latest training tracks, forecast by the ones before. Who stands follows no habit.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from benchlib.comparators import Forecaster, Question, seen_along, turned_back
from benchlib.forecast_scores import Asked, ask_from_within, kernel_nll
from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows
from svfm_ros.walks.windows import fixed_length, split_by_time

__all__ = ["FreeWalker", "HabitsOrFree", "is_standing"]

Array = NDArray[np.float64]

_ALIKE_M = 0.1  # steps that differ by so much are of about the same speed
_LEAST = 1e-6  # weight of the others, so that there is always someone to follow
_STANDING_M = 0.1  # mean step of who stands
_LATELY = 4  # steps that tell
_HELD_OUT = 0.3
_STRIDE = 5  # ticks between two questions about one track
_SAMPLES = 400  # of each answer, for its density
_SHARES = np.linspace(0.0, 1.0, 21)


@dataclass(slots=True)
class FreeWalker:
    """Straight on, and off as others went off; for tracks of which ``past`` positions are seen and ``future`` asked."""

    past: int
    future: int
    name: str = "free walker"
    _off: Array = field(default_factory=lambda: np.zeros((0, 1, 2)))  # (M, future + 1, 2), along and to the left
    _step_m: Array = field(default_factory=lambda: np.zeros(0))  # (M,)

    def fit(self, walks: WalkWindows) -> None:
        """Remember how everyone went off."""
        xy = fixed_length(walks, self.past + self.future, 1).xy
        if not len(xy):
            raise DataError(f"expected tracks of at least {self.past + self.future} positions, got none")
        now = xy[:, self.past - 1]
        step = now - xy[:, self.past - 2]
        ahead = np.arange(self.future + 1)[:, None]
        self._off = seen_along(xy[:, self.past - 1 :] - now[:, None] - step[:, None] * ahead, step[:, None])
        self._step_m = np.linalg.norm(step, axis=1)

    def sample(self, question: Question) -> Array:
        """Futures of people who were about as fast, half of them mirrored."""
        if question.ticks > self.future or len(question.seen) < 2 or not len(self._off):
            raise DataError(f"expected a question about {self.future} ticks at most, after fit and two positions")
        rng = np.random.default_rng(question.seed)
        step = question.seen[-1] - question.seen[-2]
        alike = np.exp(-0.5 * ((self._step_m - np.linalg.norm(step)) / _ALIKE_M) ** 2) + _LEAST
        pick = rng.choice(len(alike), size=question.samples, p=alike / alike.sum())
        off = self._off[pick, : question.ticks + 1]
        off[..., 1] *= rng.choice([-1.0, 1.0], size=(question.samples, 1))
        straight = question.seen[-1] + step * np.arange(question.ticks + 1)[:, None]
        return np.asarray(straight + turned_back(off, step))


@dataclass(slots=True)
class HabitsOrFree:
    """A forecaster of the place's habits, and the free walker: each draws its share of the samples."""

    habits: Forecaster
    free: FreeWalker
    name: str
    share: float = 0.5  # of the habits, among those who walk
    learns_share: bool = True

    def fit(self, walks: WalkWindows) -> None:
        """Learn the share from later tracks, then everything from all."""
        if self.learns_share:
            self._learn_share(walks)
        self._fit(walks)

    def _learn_share(self, walks: WalkWindows) -> None:
        split = split_by_time(walks, _HELD_OUT)
        pieces = fixed_length(split.held_out, self.free.past + self.free.future, _STRIDE)
        asked = ask_from_within(pieces, self.free.past, _SAMPLES) if len(pieces) else None
        if asked is not None and any(not is_standing(q) for q in asked.questions):
            self._fit(split.train)
            self.share = self._best_share(asked)

    def _fit(self, walks: WalkWindows) -> None:
        self.habits.fit(walks)
        self.free.fit(walks)

    def _best_share(self, asked: Asked) -> float:
        """That under which what the walking really did is likeliest."""
        walking = [(q, t) for q, t in zip(asked.questions, asked.truth, strict=True) if not is_standing(q)]
        by_habit, freely = (
            np.concatenate([np.exp(-kernel_nll(part.sample(q)[:, 1:], truth[1:])) for q, truth in walking])
            for part in (self.habits, self.free)
        )
        fit = [float(np.log(s * by_habit + (1.0 - s) * freely).mean()) for s in _SHARES]
        return float(_SHARES[int(np.argmax(fit))])

    def sample(self, question: Question) -> Array:
        """Spread evenly, so that the first few are of both kinds."""
        share = 0.0 if is_standing(question) else self.share
        by_habit = np.diff(np.floor(np.arange(question.samples + 1) * share + 1e-9)) > 0
        paths = np.empty((question.samples, question.ticks + 1, 2))
        for part, rows in ((self.habits, by_habit), (self.free, ~by_habit)):
            if rows.any():
                paths[rows] = part.sample(replace(question, samples=int(rows.sum())))
        return paths


def is_standing(question: Question) -> bool:
    """Whether someone hardly moved in the last few steps."""
    seen = question.seen[-(_LATELY + 1) :]
    return len(seen) < 2 or float(np.linalg.norm(seen[-1] - seen[0])) < _STANDING_M * (len(seen) - 1)
