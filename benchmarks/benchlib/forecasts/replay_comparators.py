"""Comparators that replay training walks: at the same place, or anywhere in the walker's own axes.

Training walks are drawn by how well they agree with the last positions seen. Every bandwidth is chosen by leaving out
one training walk at a time and forecasting it by the others: those of the kernel density by the log score, as usual
for a density, those of the bootstraps by the energy score.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchlib.forecasts.forecast_scores import energy_score, kernel_log_score
from benchlib.forecasts.questions import Question, QuestionSet, ask_along, ask_from_within
from benchlib.forecasts.track_pieces import fixed_length
from benchlib.forecasts.walker_frame import from_own_axes, heading_move, to_own_axes
from svfm_ros.errors import DataError
from svfm_ros.types import WalkWindows

__all__ = ["PlaceReplay", "WalkerFrameReplay", "kernel_density"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_HISTORY = 4  # positions that are compared
_MOST = 20000  # positions of training walks to choose from
_TUNE_QUESTIONS, _TUNE_SAMPLES = 60, 200
_FAR = 1e6  # a bandwidth that leaves a quantity out


_Loss = Callable[[Array, Array], float]  # of paths (S, K, 2) for the true one (K, 2)


class _Tunable(Protocol):
    def paths(self, question: Question, without: str) -> Array: ...


def tune(forecaster: _Tunable, options: Mapping[str, Sequence[float]], asked: QuestionSet, loss: _Loss) -> None:
    """Set the attributes named in ``options``, one after the other and twice, to the values with the lowest mean loss.

    Each question is answered without the walk it is taken from.
    """
    each = list(zip(asked.questions, asked.truth, asked.people, strict=True))
    for name, values in (*options.items(), *options.items()):
        losses = []
        for value in values:
            setattr(forecaster, name, value)
            losses.append(np.mean([loss(forecaster.paths(q, who)[:, 1:], t[1:]) for q, t, who in each]))
        setattr(forecaster, name, values[int(np.argmin(losses))])


def _log_loss(paths: Array, truth: Array) -> float:
    """Mean log score along the path, nats."""
    return float(kernel_log_score(paths, truth).mean())


def tuning_questions(walks: WalkWindows, ticks: int, past: int) -> QuestionSet | None:
    """Questions about training walks: from within tracks (``past`` above 1), or from starts and from half-way."""
    if past > 1:
        pieces = fixed_length(walks, past + ticks, max(1, (past + ticks) // 4))
        return ask_from_within(pieces, past, _TUNE_SAMPLES).at_most(_TUNE_QUESTIONS) if len(pieces) else None
    if len(set(walks.walk_ids)) < 2:
        return None
    starts, middles = (ask_along(walks, share, ticks, _TUNE_SAMPLES) for share in (0.0, 0.5))
    both = QuestionSet(
        starts.questions + middles.questions,
        np.concatenate([starts.truth, middles.truth]),
        np.concatenate([starts.lengths, middles.lengths]),
        starts.people + middles.people,
    )
    return both.at_most(_TUNE_QUESTIONS)


@dataclass(slots=True)
class _Candidates:
    """Every position of the training walks, as a moment from which the rest of its walk can be replayed."""

    walks: WalkWindows
    row: Index  # (M,)
    at: Index  # (M,)
    left: Index  # (M,), time steps of the walk that follow
    walk_id: NDArray[np.str_]  # (M,)

    @classmethod
    def of(cls, walks: WalkWindows) -> "_Candidates":
        row, at = np.nonzero(walks.valid)
        some = np.linspace(0, len(row) - 1, min(_MOST, len(row))).astype(int) if len(row) > _MOST else slice(None)
        row, at = row[some], at[some]
        return cls(walks, row, at, walks.lengths[row] - 1 - at, np.array(walks.walk_ids)[row])

    def history(self, back: int) -> Array:
        """The last ``back`` positions ``(M, back, 2)``; those before a walk began repeat its first one."""
        index = np.maximum(self.at[:, None] - np.arange(back - 1, -1, -1), 0)
        return np.asarray(self.walks.xy[self.row[:, None], index])

    def usable(self, question: Question, back: int, without: str, ends: bool) -> NDArray[np.bool_]:
        """Those with enough positions before, and enough after where a track's end is not the end of a walk."""
        found = (self.at >= back - 1) & (self.walk_id != without)
        if len(question.seen) == 1 and question.step == 0:
            found &= self.at == 0
        if not ends and (found & (self.left >= question.ticks)).sum() >= 20:
            found &= self.left >= question.ticks
        return found if found.any() else self.walk_id != without

    def futures(self, pick: Index, ticks: int, ends: bool) -> Array:
        """What followed ``(S, ticks + 1, 2)``; after the end people stay (``ends``) or go on straight."""
        index = np.minimum(self.at[pick][:, None] + np.arange(ticks + 1), self.walks.xy.shape[1] - 1)
        paths = self.walks.xy[self.row[pick][:, None], index]
        over = np.maximum(np.arange(ticks + 1) - self.left[pick][:, None], 0)  # (S, ticks + 1), steps after the end
        if ends or not over.any():
            return np.asarray(paths)
        last = self.walks.lengths[self.row[pick]] - 1
        move = self.walks.xy[self.row[pick], last] - self.walks.xy[self.row[pick], np.maximum(last - 1, 0)]
        return np.asarray(paths + over[..., None] * move[:, None])


def _draw(logit: Array, usable: NDArray[np.bool_], samples: int, rng: np.random.Generator) -> Index:
    """Indices drawn in proportion to ``exp(logit)`` among the usable ones."""
    logit = np.where(usable, logit, -np.inf)
    weight = np.exp(logit - logit.max())
    cumulative = np.cumsum(weight)
    return np.minimum(np.searchsorted(cumulative, rng.random(samples) * cumulative[-1]), len(logit) - 1)


@dataclass(slots=True)
class PlaceReplay:
    """Replays walks that passed near with about the same last moves; with ``noisy`` a kernel density around them."""

    ticks: int
    past: int = 1  # positions seen in the questions to come; 1 for questions from the start of a walk
    ends: bool = True  # whether the end of a recorded walk is where its walker stayed
    noisy: bool = False
    name: str = "replay of training walks"
    near_m: float = 0.5  # bandwidth of the position
    move_m: float = 0.2  # bandwidth of the last moves
    hour_h: float = _FAR  # bandwidth of the hour
    back_ticks: float = _FAR  # time steps in which the offset to the replayed walk dies out
    spread_m: float = 0.0  # noise on the paths
    _known: _Candidates | None = None

    def fit(self, walks: WalkWindows) -> None:
        """Keep the walks and tune the bandwidths."""
        self._known = _Candidates.of(walks)
        asked = tuning_questions(walks, self.ticks, self.past)
        if asked is None:
            return
        options = {
            "near_m": (0.15, 0.3, 0.6, 1.2, 2.4),
            "move_m": (0.05, 0.1, 0.2, 0.4, _FAR),
            "back_ticks": (4.0, 12.0, _FAR),
            "hour_h": (1.0, 3.0, _FAR),
        }
        if self.noisy:
            options["spread_m"] = (0.0, 0.05, 0.1, 0.2, 0.4)
        tune(self, options, asked, _log_loss if self.noisy else energy_score)

    def sample(self, question: Question) -> Array:
        """Futures of training walks, moved to where the walker is."""
        return self.paths(question, "")

    def paths(self, question: Question, without: str) -> Array:
        """The same without one of the walks."""
        if self._known is None:
            raise DataError("expected fit before sample")
        known, rng = self._known, np.random.default_rng(question.seed)
        back = min(len(question.seen), _HISTORY)
        then, now = known.history(back), question.seen[-back:]
        logit = -0.5 * ((then[:, -1] - now[-1]) ** 2).sum(-1) / self.near_m**2
        if back > 1:
            moves = ((np.diff(then, axis=1) - np.diff(now, axis=0)) ** 2).sum(-1).mean(1)
            logit -= 0.5 * moves / self.move_m**2
        if self.hour_h < _FAR:
            hours = known.walks.start_hour[known.row]
            logit -= 0.5 * (((hours - question.hour + 12.0) % 24.0 - 12.0) / self.hour_h) ** 2
        pick = _draw(logit, known.usable(question, back, without, self.ends), question.samples, rng)
        paths = known.futures(pick, question.ticks, self.ends)
        k = np.arange(question.ticks + 1)[:, None]
        moved = paths + (question.seen[-1] - paths[:, :1]) * np.exp(-k / self.back_ticks)
        noise = self.spread_m * rng.standard_normal((question.samples, 1, 2))
        return np.asarray(moved + noise * np.minimum(k / 4.0, 1.0))


def kernel_density(ticks: int, past: int = 1, ends: bool = True) -> PlaceReplay:
    """A kernel density of the walks nearby."""
    return PlaceReplay(ticks, past, ends, noisy=True, name="KDE of walks nearby")


@dataclass(slots=True)
class WalkerFrameReplay:
    """Replays training walks in the walker's own axes, mirrored or not: knows how people walk, not where.

    ``positions`` of them are compared. With ``straighten`` the replayed path is corrected by the difference of the two
    last moves, so that it is a deviation from going straight on that is replayed.
    """

    ticks: int
    past: int = 1
    ends: bool = True
    positions: int = _HISTORY
    name: str = "walker-frame bootstrap"
    kernel_m: float = 0.1
    straighten: float = 0.0  # share of the correction, 0 to 1
    drift_m: float = 0.0  # noise on the move that goes on, metres per time step
    _known: _Candidates | None = None
    _past: Array = field(default_factory=lambda: np.zeros((0, 1, 2)))  # (M, positions - 1, 2), moves in own axes

    def fit(self, walks: WalkWindows) -> None:
        """Keep the walks and tune the bandwidths."""
        self._known = _Candidates.of(walks)
        history = self._known.history(max(self.positions, 3))
        self._past = to_own_axes(np.diff(history, axis=1), heading_move(history)[:, None])[:, -(self.positions - 1) :]
        asked = tuning_questions(walks, self.ticks, self.past)
        if asked is not None:
            kernels, drifts = (0.02, 0.04, 0.08, 0.16, 0.32), (0.0, 0.01, 0.03, 0.06)
            tune(self, {"kernel_m": kernels, "straighten": (0.0, 0.5, 1.0), "drift_m": drifts}, asked, energy_score)

    def sample(self, question: Question) -> Array:
        """Futures of people who moved alike."""
        return self.paths(question, "")

    def paths(self, question: Question, without: str) -> Array:
        """The same without one of the walks."""
        if self._known is None:
            raise DataError("expected fit before sample")
        known, rng, seen = self._known, np.random.default_rng(question.seed), question.seen
        if len(seen) < 2:
            return self._from_rest(question, without, rng)
        heading = heading_move(seen)
        now = to_own_axes(np.diff(seen[-self.positions :], axis=0), heading)
        side = np.array([1.0, -1.0])
        squared = [((self._past[:, -len(now) :] * [1.0, s] - now) ** 2).sum(-1).mean(1) for s in side]
        logit = -0.5 * np.concatenate(squared) / self.kernel_m**2
        usable = np.tile(known.usable(question, len(now) + 1, without, self.ends), 2)
        both = _draw(logit, usable, question.samples, rng)
        pick, mirror = both % len(known.row), side[both // len(known.row)]
        paths = known.futures(pick, question.ticks, self.ends)
        then = heading_move(known.history(3)[pick])
        own = to_own_axes(paths - paths[:, :1], then[:, None])
        last = self._past[pick, -1]
        own[..., 1] *= mirror[:, None]
        last = last * np.stack([np.ones_like(mirror), mirror], axis=1)
        k = np.arange(question.ticks + 1)[:, None]
        drift = self.straighten * (now[-1] - last) + self.drift_m * rng.standard_normal((question.samples, 2))
        return np.asarray(seen[-1] + from_own_axes(own + k * drift[:, None], heading))

    def _from_rest(self, question: Question, without: str, rng: np.random.Generator) -> Array:
        """Whole training walks from their starts, turned at random."""
        known = self._known
        if known is None:
            raise DataError("expected fit before sample")
        usable = known.usable(replace(question, step=0), 1, without, self.ends)
        pick = _draw(np.zeros(len(known.row)), usable, question.samples, rng)
        paths = known.futures(pick, question.ticks, self.ends)
        angle = rng.uniform(-np.pi, np.pi, question.samples)
        unit = np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, None]
        return np.asarray(question.seen[-1] + from_own_axes(paths - paths[:, :1], unit))
