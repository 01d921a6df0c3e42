"""The questions that every forecaster answers, and what really happened.

A ``Question`` holds the positions seen of a walk, on the walks' time step, at least one. A forecaster answers with
sampled paths that begin at the last position seen. A walk that has ended stays where it ended.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from svfm_ros.types import WalkWindows

__all__ = [
    "SAMPLES",
    "PathForecaster",
    "Question",
    "QuestionSet",
    "ask_along",
    "ask_from_start",
    "ask_from_within",
    "flattened",
]

Array = NDArray[np.float64]

SAMPLES = 2000
"""Paths that each answer is scored by."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is known of a walk when its future is asked for."""

    seen: Array  # (P, 2), positions up to now, one every dt_s, P at least 1
    hour: float  # local hour of the walk's start
    ticks: int  # time steps ahead
    samples: int = SAMPLES
    seed: int = 0
    step: int = 0  # time steps since the walk began, where seen holds only the last part of it
    stamp_ns: int = 0  # Unix time of the last position seen
    dt_s: float = 0.4


class PathForecaster(Protocol):
    """What all forecasters of the benchmarks can do."""

    name: str

    def fit(self, walks: WalkWindows) -> None:
        """Learn from walks."""

    def sample(self, question: Question) -> Array:
        """Paths ``(S, ticks + 1, 2)`` from the last position seen on."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions, the true paths, and which questions belong to the same person."""

    questions: tuple[Question, ...]
    truth: Array  # (N, ticks + 1, 2), from the last position seen on
    lengths: NDArray[np.int64]  # (N,), positions of the true path until the walk ends
    people: tuple[str, ...]  # (N,), walk or person: standard errors are clustered by it

    def __len__(self) -> int:
        return len(self.questions)

    def with_samples(self, samples: int) -> "QuestionSet":
        """The same questions with another number of sampled paths."""
        return replace(self, questions=tuple(replace(q, samples=samples) for q in self.questions))

    def at_most(self, count: int) -> "QuestionSet":
        """At most so many of them, evenly spread."""
        if len(self) <= count:
            return self
        rows = np.linspace(0, len(self) - 1, count).astype(int)
        return QuestionSet(
            tuple(self.questions[i] for i in rows),
            self.truth[rows],
            self.lengths[rows],
            tuple(self.people[i] for i in rows),
        )


def ask_from_start(walks: WalkWindows, ticks: int, samples: int = SAMPLES, seed: int = 0) -> QuestionSet:
    """One question per walk, from its first position."""
    return ask_along(walks, 0.0, ticks, samples, seed)


def ask_along(walks: WalkWindows, share: float, ticks: int, samples: int = SAMPLES, seed: int = 0) -> QuestionSet:
    """One question per walk, when ``share`` (0 to 1) of it has been walked."""
    now = np.minimum(np.round(share * walks.lengths).astype(int), np.maximum(walks.lengths - 2, 0))
    questions = [
        _question(walks, n, slice(0, int(now[n]) + 1), ticks, samples, seed + n, step=int(now[n]))
        for n in range(len(walks))
    ]
    truth = flattened(walks, int(now.max(initial=0)) + ticks)
    paths = np.stack([truth[n, k : k + ticks + 1] for n, k in enumerate(now)])
    return QuestionSet(tuple(questions), paths, np.minimum(walks.lengths - now, ticks + 1), walks.walk_ids)


def ask_from_within(
    pieces: WalkWindows, past: int, samples: int = SAMPLES, seed: int = 0, step: int = 3
) -> QuestionSet:
    """One question per piece of a track: ``past`` positions are seen, the rest is asked for."""
    ticks = pieces.xy.shape[1] - past
    questions = [
        _question(pieces, n, slice(0, past), ticks, samples, seed + n, step=max(step, past - 1))
        for n in range(len(pieces))
    ]
    return QuestionSet(tuple(questions), pieces.xy[:, past - 1 :], np.full(len(pieces), ticks + 1), pieces.walk_ids)


def _question(walks: WalkWindows, n: int, seen: slice, ticks: int, samples: int, seed: int, step: int) -> Question:
    elapsed_ns = round((seen.stop - 1) * walks.dt_s * 1e9)
    return Question(
        seen=walks.xy[n, seen],
        hour=float(walks.start_hour[n]),
        ticks=ticks,
        samples=samples,
        seed=seed,
        step=step,
        stamp_ns=int(walks.start_ns[n]) + elapsed_ns,
        dt_s=walks.dt_s,
    )


def flattened(walks: WalkWindows, ticks: int) -> Array:
    """Whole walks as paths ``(N, ticks + 1, 2)``; a walk that has ended stays where it ended."""
    index = np.minimum(np.arange(ticks + 1)[None], np.maximum(walks.lengths - 1, 0)[:, None])
    return np.asarray(walks.xy[np.arange(len(walks))[:, None], index])
