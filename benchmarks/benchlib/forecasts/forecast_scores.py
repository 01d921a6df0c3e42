"""Scores of sampled paths against what happened: the same for every forecaster, one value per question.

All are computed from the sampled paths ``(S, K, 2)`` at the K moments after the last position seen.

- *Energy score*, metres: ``2 E|X - y| - E|X - X'|``, where ``|.|`` is the root mean square distance over the moments.
  Proper: its mean is least for the true distribution of paths.
- *Log score*, nats: minus the log density of the true position under a Gaussian kernel density of the samples at that
  moment, bandwidth 0.2 m, mixed with 1 % spread evenly over 100 m by 100 m, so that one surprise costs 13.8 nats at
  most. *Along the path* is the mean over the moments until the walk ends, *at the end* that of the last moment.
- *Region level*: probability of the smallest highest-density region that holds the true position, by conformal rank:
  a kernel density of some samples ranks the truth among other samples. Levels are uniform for a perfect forecaster.
  The *joint* level ranks the largest level of the whole path among those of sampled paths.
- *minADE20, minFDE20*, metres: mean and final distance of the best of the first 20 paths.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from benchlib.forecasts.questions import PathForecaster, QuestionSet
from svfm_ros.compiled import kernel
from svfm_ros.errors import DataError
from svfm_ros.types import Places

__all__ = [
    "KERNEL_M",
    "QuestionScores",
    "destination_loss",
    "energy_score",
    "kernel_log_score",
    "place_shares",
    "region_levels",
    "score",
]

Array = NDArray[np.float64]

KERNEL_M = 0.2
"""Bandwidth of the kernel density behind the log score, for all forecasters."""

_EVEN_SHARE, _EVEN_AREA_M2 = 0.01, 1e4
_PARTNERS = 64  # pairs per path in E|X - X'|: adds less than 1 mm to the error that 2,000 paths have anyway
_CENTRES, _RANKED = 300, 300  # samples that carry the density of a region, and those the truth is ranked among
_MOMENTS = 10  # of a path that regions are taken at, evenly spread until the walk ends
_BEST_OF = 20
PLACE_REACH_M = 0.5
"""A path ends in a place if its last position is so near to the place's edge, forecast or real."""


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """One forecaster's scores, one value per question ``(N,)``."""

    name: str
    people: tuple[str, ...]  # (N,), whose standard errors are clustered
    energy_m: Array
    log_path: Array  # minus log density along the path, nats
    log_end: Array  # and at its last moment
    inside_50: Array  # share of the moments at which the truth is inside the 50 % region
    inside_90: Array
    joint_50: Array  # 1 where the whole path is inside the joint region
    joint_90: Array
    min_ade20_m: Array
    min_fde20_m: Array
    ends_xy: Array  # (N, S', 2), last positions of some sampled paths
    true_ends_xy: Array  # (N, 2)
    fit_s: float = float("nan")  # processor time of learning
    ask_ms: float = float("nan")  # and of one answer
    step_nll: Array | None = None  # minus the one-step log density, nats per step, where the forecaster has one
    training: tuple[str, ...] = ()  # (N,), training set behind each answer, where there are several

    @classmethod
    def over_training_sets(cls, parts: Sequence["QuestionScores"]) -> "QuestionScores":
        """The same questions answered after different training sets, as one."""
        stacked = {f.name: [getattr(p, f.name) for p in parts] for f in fields(cls)}
        arrays = {k: np.concatenate(v) for k, v in stacked.items() if isinstance(v[0], np.ndarray)}
        means = {k: float(np.mean(stacked[k])) for k in ("fit_s", "ask_ms")}
        people = tuple(name for p in parts for name in p.people)
        sets = tuple(str(i) for i, p in enumerate(parts) for _ in p.people)
        return replace(parts[0], people=people, training=sets, **arrays, **means)


def score(forecaster: PathForecaster, asked: QuestionSet, fit_s: float = float("nan")) -> QuestionScores:
    """Let a fitted forecaster answer every question, and score the answers."""
    if not len(asked):
        raise DataError("expected at least one question, got none")
    rows, ends, spent_s = [], [], 0.0
    for question, truth, length in zip(asked.questions, asked.truth, asked.lengths.tolist(), strict=True):
        began = time.process_time()
        paths = np.asarray(forecaster.sample(question), dtype=np.float64)
        spent_s += time.process_time() - began
        if paths.shape != (question.samples, question.ticks + 1, 2) or not np.isfinite(paths).all():
            raise DataError(f"{forecaster.name}: expected finite paths, got shape {paths.shape}")
        rows.append(_score_one(paths[:, 1:], truth[1:], max(length - 1, 1)))
        ends.append(paths[:200, -1])
    columns = np.array(rows).T
    return QuestionScores(
        forecaster.name,
        asked.people,
        *columns,
        ends_xy=np.array(ends),
        true_ends_xy=asked.truth[:, -1],
        fit_s=fit_s,
        ask_ms=1e3 * spent_s / len(asked),
    )


def _score_one(paths: Array, truth: Array, until: int) -> tuple[float, ...]:
    """Scores of one answer in the order of ``QuestionScores``; the walk ends after ``until`` moments."""
    logs = kernel_log_score(paths, truth)
    levels, joint = region_levels(paths[:, :until], truth[:until])
    distance = np.linalg.norm(paths[:_BEST_OF] - truth, axis=-1)
    return (
        energy_score(paths, truth),
        float(logs[:until].mean()),
        float(logs[-1]),
        float((levels <= 0.5).mean()),
        float((levels <= 0.9).mean()),
        float(joint <= 0.5),
        float(joint <= 0.9),
        float(distance.mean(1).min()),
        float(distance[:, -1].min()),
    )


def energy_score(paths: Array, truth: Array) -> float:
    """``2 E|X - y| - E|X - X'|`` in metres of paths ``(S, K, 2)`` for the path ``(K, 2)`` that happened."""
    flat = np.ascontiguousarray(paths.reshape(len(paths), -1))
    away = np.sqrt(((flat - truth.reshape(-1)) ** 2).sum(1) / len(truth)).mean()
    partners = min(_PARTNERS, len(flat) - 1)
    if partners < 1:
        return float(2.0 * away)
    return float(2.0 * away - _mean_distance(flat, partners) / np.sqrt(len(truth)))


@kernel
def _mean_distance(flat: Array, partners: int) -> float:
    """Mean Euclidean distance of each row ``(S, D)`` to the ``partners`` rows that follow it, cyclically."""
    count, size = flat.shape
    total = 0.0
    for i in range(count):
        for d in range(1, partners + 1):
            j = (i + d) % count
            squared = 0.0
            for k in range(size):
                off = flat[i, k] - flat[j, k]
                squared += off * off
            total += np.sqrt(squared)
    return total / (count * partners)


def kernel_log_score(paths: Array, truth: Array) -> Array:
    """Minus the log density ``(K,)`` of positions ``(K, 2)`` under the kernel density of samples ``(S, K, 2)``."""
    squared = ((paths - truth) ** 2).sum(-1) / KERNEL_M**2
    density = np.exp(-0.5 * squared).mean(0) / (2.0 * np.pi * KERNEL_M**2)
    return np.asarray(-np.log((1.0 - _EVEN_SHARE) * density + _EVEN_SHARE / _EVEN_AREA_M2))


def region_levels(paths: Array, truth: Array) -> tuple[Array, float]:
    """Levels of the regions that hold the truth: per moment (at most 10 of them) and joint over the path, in [0, 1]."""
    moments = np.unique(np.linspace(0, len(truth) - 1, min(_MOMENTS, len(truth))).astype(int))
    centres, ranked = min(_CENTRES, len(paths) // 2), min(_RANKED, len(paths) - len(paths) // 2)
    if ranked < 1 or centres < 1:
        raise DataError(f"expected two paths or more, got {len(paths)}")
    first = np.ascontiguousarray(paths[:centres][:, moments])
    others = np.concatenate([paths[len(paths) - ranked :][:, moments], truth[None, moments]])
    spread = first.std(axis=0).mean(-1)  # (M,)
    width = np.maximum(KERNEL_M, spread * centres ** (-1.0 / 6.0))
    density = _densities(first, np.ascontiguousarray(others), width)  # (R + 1, M), the truth last
    levels = _levels(density)
    worst = levels.max(1)
    return levels[-1], float(_levels(-worst[:, None])[-1, 0])


@kernel
def _densities(centres: Array, at: Array, width: Array) -> Array:
    """Kernel density, not normalised, of centres ``(C, M, 2)`` at positions ``(R, M, 2)``: ``(R, M)``."""
    out = np.zeros(at.shape[:2])
    for m in range(at.shape[1]):
        scale = -0.5 / (width[m] * width[m])
        for r in range(at.shape[0]):
            total = 0.0
            for c in range(centres.shape[0]):
                dx = at[r, m, 0] - centres[c, m, 0]
                dy = at[r, m, 1] - centres[c, m, 1]
                total += np.exp(scale * (dx * dx + dy * dy))
            out[r, m] = total
    return out


def _levels(density: Array) -> Array:
    """Share of the other rows ``(R + 1, M)`` that are denser, moment by moment, ties counted half: ``(R + 1, M)``."""
    ordered = np.sort(density, axis=0)
    count = len(density)
    out = np.empty_like(density)
    for m in range(density.shape[1]):
        above = count - np.searchsorted(ordered[:, m], density[:, m], side="right")
        tied = np.searchsorted(ordered[:, m], density[:, m], side="right") - np.searchsorted(
            ordered[:, m], density[:, m], side="left"
        )
        out[:, m] = (above + 0.5 * tied) / count
    return out


def place_shares(ends_xy: Array, places: Places) -> Array:
    """Shares ``(P + 1,)`` of end positions ``(..., 2)`` by place; the last is *elsewhere*.

    The rule is the same for forecast and real ends: the nearest place whose edge is within 0.5 m.
    """
    index = places.assign(ends_xy.reshape(-1, 2), PLACE_REACH_M)
    return np.bincount(np.where(index < 0, len(places), index), minlength=len(places) + 1) / len(index)


def destination_loss(scores: QuestionScores, places: Places, names: Sequence[str]) -> Array:
    """Minus the log share ``(N,)``, nats, of the place each walk goes to among the ends of the sampled paths.

    Half a path is added to every place, so that a share of none costs 6 nats for 200 paths instead of infinity.
    """
    wanted = [places.names.index(name) for name in names]
    shares = np.array([place_shares(ends, places) for ends in scores.ends_xy])
    count = scores.ends_xy.shape[1]
    smooth = (shares * count + 0.5) / (count + 0.5 * shares.shape[1])
    return np.asarray(-np.log(smooth[np.arange(len(wanted)), wanted]))
