"""One judge for all forecasters: they answer the same questions, and their sampled paths are scored alike.

NLL is that of the real positions under a kernel density (0.2 m) of the sampled ones at the same time, nats per
position, so that forecasters without a density of their own can be judged too.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchlib.comparators import Forecaster, Question, flattened
from svfm_ros.forecasting.scores import (
    coverage,
    energy_distance,
    energy_score,
    min_displacement,
    region_levels,
    shares_of,
    total_variation,
)
from svfm_ros.types import Places, WalkWindows

__all__ = ["Asked", "Scores", "ask_from_start", "ask_from_within", "kernel_nll", "score"]

Array = NDArray[np.float64]

_KERNEL_M = 0.2
_LEAST = 1e-6  # a density per square metre: one stray walk must not decide
_BEST_OF = 20
_POOLED = 2000
_EACH = 100  # samples of one answer whose distances are taken
_REACH_M = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions and what really happened: paths from the last position seen on."""

    questions: tuple[Question, ...]
    truth: Array  # (N, ticks + 1, 2); a walk that has ended stays where it ended
    lengths: NDArray[np.int64]  # (N,), positions until it ends


@dataclass(frozen=True, slots=True)
class Scores:
    """What came of it; metres, nats, seconds of processor time."""

    name: str
    energy_m: float  # of all answers together to all that happened
    energy_each_m: float  # of each answer to what happened, on average
    nll: float
    share_tv: float  # of the places at the end; NaN where there are none
    coverage_50: float
    coverage_90: float
    min_ade20_m: float
    min_fde20_m: float
    fit_s: float
    ask_ms: float
    own_nll: float = float("nan")  # of whole walks under the forecaster's own density, per step


def ask_from_start(walks: WalkWindows, ticks: int, samples: int = 100, seed: int = 0) -> Asked:
    """One question per walk, from its start."""
    hours = walks.start_hour.tolist()
    questions = [Question(walks.xy[n, :1], hours[n], ticks, samples, seed + n) for n in range(len(walks))]
    return Asked(tuple(questions), flattened(walks, ticks), np.minimum(walks.lengths, ticks + 1))


def ask_from_within(pieces: WalkWindows, past: int, samples: int = 20, seed: int = 0, step: int = 3) -> Asked:
    """One question per piece of a track: ``past`` positions are seen, the rest is asked for."""
    ticks = pieces.xy.shape[1] - past
    hours = pieces.start_hour.tolist()
    questions = [
        Question(pieces.xy[n, :past], hours[n], ticks, samples, seed + n, step=step) for n in range(len(pieces))
    ]
    return Asked(tuple(questions), pieces.xy[:, past - 1 :], np.full(len(pieces), ticks + 1))


def score(forecaster: Forecaster, asked: Asked, fit_s: float, places: Places | None = None) -> Scores:
    """Ask everything and compare."""
    began = time.process_time()
    answers = [forecaster.sample(question) for question in asked.questions]
    ask_s = (time.process_time() - began) / len(answers)
    lengths = asked.lengths.tolist()
    per_walk = list(zip(answers, asked.truth, lengths, strict=True))
    levels = np.concatenate([region_levels(paths[:, 1:n], real[1:n]) for paths, real, n in per_walk if n > 1])
    best = [min_displacement(paths[:_BEST_OF, 1:], real[1:]) for paths, real, _ in per_walk]
    each = max(1, _POOLED // len(answers))
    replay = getattr(forecaster, "spread_m", None) == 0.0  # a forecaster that only replays *is* its walks
    return Scores(
        name=forecaster.name,
        energy_m=_energy(answers, asked.truth, each),
        energy_each_m=float(np.mean([energy_score(a[:_EACH], t) for a, t in zip(answers, asked.truth, strict=True)])),
        nll=float(np.mean(np.concatenate([kernel_nll(paths[:, 1:n], real[1:n]) for paths, real, n in per_walk]))),
        share_tv=float("nan") if places is None else _share_tv(answers, asked.truth, places, exact=replay),
        coverage_50=coverage(levels, 0.5),
        coverage_90=coverage(levels, 0.9),
        min_ade20_m=float(np.mean([b.min_ade_m for b in best])),
        min_fde20_m=float(np.mean([b.min_fde_m for b in best])),
        fit_s=fit_s,
        ask_ms=1e3 * ask_s,
    )


def kernel_nll(samples: Array, truth: Array) -> Array:
    """Minus the log density (K,) of positions (K, 2) under samples (S, K, 2)."""
    squared = ((samples - truth) ** 2).sum(-1) / _KERNEL_M**2
    density = np.exp(-0.5 * squared).mean(0) / (2.0 * np.pi * _KERNEL_M**2)
    return np.asarray(-np.log(density + _LEAST))


def _energy(answers: Sequence[Array], truth: Array, each: int) -> float:
    pooled = np.concatenate([paths[:each] for paths in answers])
    return energy_distance(pooled, truth)


def _share_tv(answers: Sequence[Array], truth: Array, places: Places, exact: bool) -> float:
    """Where paths end at the horizon against where walks really end."""
    names = np.array([*places.names, "elsewhere"])
    ends = np.concatenate([paths[:, -1] for paths in answers])
    found = names[places.assign(ends, 0.0 if exact else _REACH_M)]
    return total_variation(shares_of(found.tolist()), shares_of(names[places.assign(truth[:, -1])].tolist()))
