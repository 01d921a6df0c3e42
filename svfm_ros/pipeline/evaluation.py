"""How good the forecasts of a model are on walks it never saw: likelihood, shares of the places, distances, coverage.

Each walk is forecast from its own start at its own time; a walk that has ended stays where it ended.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting import scores
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.pipeline.learn import Scored, nll_per_step
from svfm_ros.types import Forecast, Walk, WalkWindows
from svfm_ros.walks.windows import make_windows

__all__ = ["BEST_OF", "Evaluation", "evaluate_forecasts", "walk_levels"]

Array = NDArray[np.float64]

BEST_OF = 20
"""Sampled paths in minADE and minFDE."""
_POOLED = 2000  # paths in the energy distance: their distances to each other must fit into memory


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Figures of a model's forecasts; None where the walks do not allow one."""

    walks: int  # that were forecast
    walks_with_gaps: int  # in the likelihood only: pieces of a walk neither start nor end where it did
    unknown_starts: int  # far from any walk
    nll_per_step: float  # nats
    share_tv: float  # total variation between forecast and real shares of the places
    destination_log_loss: float  # nats
    energy_distance_m: float | None
    coverage_50: float
    coverage_90: float
    min_ade20_m: float
    min_fde20_m: float
    entropy: float | None  # nats, mean
    unfamiliar: float | None  # mean probability of being off the habits at the end of a walk
    relearnt: bool  # the model had seen all walks; scored is one learnt in the same way without a fifth of them
    levels: tuple[Array, ...] = field(repr=False)  # of each walk, see ``walk_levels``


@dataclass(frozen=True, slots=True)
class _ForecastWalks:
    """Whole walks on the model's tick and a forecast from the start of each."""

    paths: Array  # (N, K, 2)
    lengths: NDArray[np.int64]  # (N,), positions until the walk ends or the forecast does
    forecasts: list[Forecast]
    ends: list[str]  # place each walk really ends at


def evaluate_forecasts(
    forecaster: Forecaster,
    scored: Scored,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Forecast every walk that the model never saw, and compare; ``forecaster`` is that of ``scored.file``."""
    windows = _windows(scored)
    done = _forecast_all(forecaster, windows, seed, progress or (lambda _done, _of: None))
    levels = _levels(done)
    shares = [f.shares for f in done.forecasts]
    known = [f.entropy for f in done.forecasts if f.entropy is not None]
    mean_shares = {name: float(np.mean([s[name] for s in shares])) for name in shares[0]}
    best = _per_walk(done, lambda paths, truth: scores.min_displacement(paths[:BEST_OF, 1:], truth[1:]))
    return Evaluation(
        walks=len(done.forecasts),
        walks_with_gaps=len(set(windows.walk_ids)) - len(done.forecasts),
        unknown_starts=sum(not f.known for f in done.forecasts),
        nll_per_step=nll_per_step(scored.file, scored.unseen),
        share_tv=scores.total_variation(mean_shares, scores.shares_of(done.ends)),
        destination_log_loss=scores.destination_log_loss(shares, done.ends),
        energy_distance_m=_energy_distance(done),
        coverage_50=scores.coverage(np.concatenate(levels), 0.5),
        coverage_90=scores.coverage(np.concatenate(levels), 0.9),
        min_ade20_m=float(np.mean([b.min_ade_m for b in best])),
        min_fde20_m=float(np.mean([b.min_fde_m for b in best])),
        entropy=float(np.mean(known)) if known else None,
        unfamiliar=_unfamiliar(forecaster, scored.unseen),
        relearnt=scored.relearnt,
        levels=levels,
    )


def walk_levels(forecaster: Forecaster, scored: Scored) -> tuple[Array, ...]:
    """For each walk that the model never saw, the smallest region that holds each true position ``(K,)``.

    Regions are given by their probability: uniform in [0, 1] when forecasts are calibrated. The same regions give the
    coverage of ``evaluate_forecasts``.
    """
    return _levels(_forecast_all(forecaster, _windows(scored), 0, lambda _done, _of: None))


def _levels(done: _ForecastWalks) -> tuple[Array, ...]:
    return tuple(_per_walk(done, lambda paths, truth: scores.region_levels(paths[:, 1:], truth[1:])))


def _windows(scored: Scored) -> WalkWindows:
    file = scored.file
    windows = make_windows(scored.unseen, WindowsConfig(dt_s=file.model.dt_s, time_zone=file.time_zone), file.frame)
    if not len(windows):
        raise DataError(f"expected walks of at least two steps of {file.model.dt_s} s, got none")
    return windows


def _forecast_all(
    forecaster: Forecaster, windows: WalkWindows, seed: int, progress: Callable[[int, int], None]
) -> _ForecastWalks:
    """A forecast for each walk without gaps."""
    pieces = Counter(windows.walk_ids)
    whole = windows.select(np.array([pieces[name] == 1 for name in windows.walk_ids], dtype=np.bool_))
    if not len(whole):
        raise DataError("expected walks without gaps, got none")
    most = round(forecaster.config.longest_s / whole.dt_s)
    ticks = min(int(whole.lengths.max()) - 1, most)
    found = []
    for n, (path, stamp_ns) in enumerate(zip(whole.xy, whole.start_ns.tolist(), strict=True)):
        found.append(forecaster.forecast(path[0], stamp_ns, horizon_s=ticks * whole.dt_s, seed=seed + n))
        progress(n + 1, len(whole))
    names = (*forecaster.places.names, forecaster.config.elsewhere)
    ends = [names[i] for i in forecaster.places.assign(whole.end_xy).tolist()]
    return _ForecastWalks(whole.xy[:, : ticks + 1], np.minimum(whole.lengths, ticks + 1), found, ends)


def _unfamiliar(forecaster: Forecaster, walks: Sequence[Walk]) -> float | None:
    found = [p.unfamiliar for walk in walks if (p := forecaster.posterior(walk)) is not None]
    return float(np.mean(found)) if found else None


def _per_walk(done: _ForecastWalks, score: Callable[[Array, Array], Any]) -> list[Any]:
    """A score for each walk, over the time it lasted; the start itself is given, not forecast."""
    triples = zip(done.forecasts, done.paths, done.lengths.tolist(), strict=True)
    return [score(f.samples_xy[:, :length], path[:length]) for f, path, length in triples]


def _energy_distance(done: _ForecastWalks) -> float | None:
    """Over all starts together, equally many paths from each; None for a single walk, which has no spread."""
    if len(done.paths) < 2:
        return None
    each = max(1, _POOLED // len(done.paths))
    pooled = np.concatenate([f.samples_xy[:each] for f in done.forecasts])
    return scores.energy_distance(pooled, done.paths)
