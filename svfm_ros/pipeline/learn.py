"""Learn a walk model from aligned walks: the one way in which commands, the trainer node and benchmarks get a model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from typing import Any

import numpy as np

from svfm_ros.config.forecast_config import WalkModelConfig, WalkTrainConfig
from svfm_ros.config.walk_config import PlacesConfig, WindowsConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.fit.resident_fit import fit_residents
from svfm_ros.forecasting.fit.train_model import train_model
from svfm_ros.forecasting.fit.walk_steps import WalkRows, joined, walk_rows
from svfm_ros.forecasting.footprints import Footprints
from svfm_ros.forecasting.free_walker import FreeWalker, FreeWalkerPrior
from svfm_ros.forecasting.model_file import WalkModelFile, places_from, places_to
from svfm_ros.forecasting.posterior import walk_log_density
from svfm_ros.pipeline.walk_input import TRAINED_ON, fingerprint
from svfm_ros.types import Places, Walk
from svfm_ros.walks.places import find_places_of_walks
from svfm_ros.walks.windows import make_windows

__all__ = [
    "CHANGE_IS_SURE",
    "LearnConfig",
    "Learned",
    "change_date",
    "learn",
    "nll_per_step",
    "scored_on_unseen",
    "split_walks",
]

CHANGE_IS_SURE = 0.95
"""Probability from which on a change of habits is reported."""

_LEAST_WALKS = 2
_SCORED_SHARE = 0.2  # of the walks, where a model was learnt from all of them and has to be scored
_FASTEST_MPS = 10.0  # median speed beyond which positions are not in metres
_WIDEST_M = 1000.0  # walks farther apart are not of one house or scene
_OWN_STEPS = 300  # of training a free walker from a home's own walks
_FEW_WALKS = 2  # below, the free walker is the population's: too few moves to adapt it


@dataclass(frozen=True, slots=True)
class LearnConfig:
    """All options of learning."""

    windows: WindowsConfig = field(default_factory=WindowsConfig)
    model: WalkModelConfig = field(default_factory=WalkModelConfig)
    train: WalkTrainConfig = field(default_factory=WalkTrainConfig)
    places: PlacesConfig = field(default_factory=PlacesConfig)
    use_prior: bool = True  # False: this home alone, nothing of other people


@dataclass(frozen=True, slots=True)
class Learned:
    """The model's file, ready to be written, and figures to show."""

    file: WalkModelFile
    left_out_nll: float  # of walks under tables learnt without them, nats per step
    walks: int
    new_walks: int  # walks that the model to go on from had not seen
    seconds: float


def learn(
    walks: Sequence[Walk],
    config: LearnConfig | None = None,
    *,
    places: Places | None = None,
    frame: str = "map",
    go_on_from: WalkModelFile | None = None,
    prior: FreeWalkerPrior | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """A model of all these walks, which are in one frame, and of those that ``go_on_from`` was learnt from.

    Walks of several residents give one model for the home, with habits, pace and spread of each.

    ``places`` are the ones that have names already; others are found where walks end. ``prior`` is what is
    known of other people, by default the one that ships with the package.
    """
    config = config or LearnConfig()
    if go_on_from is not None:
        zone, dt_s = go_on_from.time_zone, go_on_from.model.dt_s
        config = replace(config, windows=replace(config.windows, time_zone=zone, dt_s=dt_s))
        frame = go_on_from.frame
    known = set() if go_on_from is None else set(go_on_from.footprints.names)
    new = [walk for walk in walks if fingerprint(walk) not in known]
    rows, names = _rows(new, config, go_on_from)
    if len(names) < _LEAST_WALKS:
        raise DataError(f"expected two or more walks of at least two steps, got {len(names)}")
    _check_moves(rows, config.model.stand_m)
    start = prior or FreeWalkerPrior.load()
    fit_free = partial(_free_walker, start, config.train.free_strength) if config.use_prior else _own_free_walker
    trained = train_model(
        rows, fit_free, config.model, config.train, progress, start.numbers if config.use_prior else None
    )
    before = places or (Places() if go_on_from is None else places_from(go_on_from.metrics))
    metrics = {
        "held_out_nll": trained.left_out_nll,
        "walks_seen": len(names),
        "free_share": float(trained.free.mean()),
        "change_probability": trained.habits.found.change_probability,
        "change_day": trained.habits.found.change_day,
        "weekend_probability": trained.habits.found.weekend_probability,
        **trained.habits.found.same.rhythm,
        TRAINED_ON: sorted(names),
        **places_to(find_places_of_walks(_ends_of(new, go_on_from), before, config.places)),
    }
    residents = fit_residents(rows, trained.model, trained.group, trained.free, config.model)
    prints = Footprints.of(rows, names)
    file = WalkModelFile(trained.model, prints, residents, frame, config.windows.time_zone, metrics)
    return Learned(file, trained.left_out_nll, len(names), len(new), trained.seconds)


def change_date(metrics: Mapping[str, Any]) -> date | None:
    """The local date of the last change of habits by a model's figures, where there probably was one."""
    if metrics["change_probability"] < CHANGE_IS_SURE:
        return None
    return date(1970, 1, 1) + timedelta(days=int(metrics["change_day"]))


def _check_moves(rows: WalkRows, stand_m: float) -> None:
    """Refuse walks without a move, positions that cannot be metres, and walks that cannot be in one frame."""
    length_m = np.concatenate([np.hypot(*np.diff(xy, axis=0).T) for xy in rows.xy])
    moves = length_m[length_m >= stand_m]
    if not len(moves):
        raise DataError(f"expected walks with moves of {stand_m} m and more per step, got {len(rows)} without any")
    speed_mps = float(np.median(moves)) / rows.dt_s
    if speed_mps > _FASTEST_MPS:
        raise DataError(f"expected positions in metres and times in seconds, got walks at {speed_mps:.0f} m/s")
    widest_m = float(np.ptp(np.concatenate(rows.xy), axis=0).max())
    if widest_m > _WIDEST_M:
        raise DataError(f"expected walks of one house in one frame, got positions {widest_m / 1000.0:.1f} km apart")


def _free_walker(prior: FreeWalkerPrior, strength: float, tracks: list[Any], seed: int) -> FreeWalker:
    if len(tracks) < _FEW_WALKS:
        return prior.free
    from svfm_ros.forecasting.fit.free_walker_fit import adapt

    return adapt(prior, tracks, strength, seed=seed)


def _own_free_walker(tracks: list[Any], seed: int) -> FreeWalker:
    """A free walker learnt from these tracks alone."""
    from svfm_ros.forecasting.fit.free_walker_fit import learn_prior, with_sway

    straight_on = [np.column_stack([0.4 * np.arange(10.0), np.zeros(10)])]  # 1 m/s, where there is no track at all
    known = tracks or straight_on
    return with_sway(learn_prior([known], _OWN_STEPS, seed).free, known)


def _rows(new: Sequence[Walk], config: LearnConfig, old: WalkModelFile | None) -> tuple[WalkRows, tuple[str, ...]]:
    """Rows of the new walks and of the old model's, and the fingerprint of each walk by its number."""
    windows = make_windows(new, config.windows)
    by_id = {walk.walk_id: fingerprint(walk) for walk in new}
    names = tuple(by_id[name] for name in dict.fromkeys(windows.walk_ids))
    rows = walk_rows(windows) if len(windows) else None
    if old is None:
        if rows is None:
            raise DataError(f"expected two or more walks of at least two steps, got none among {len(new)}")
        return rows, names
    return joined(old.footprints, rows, old.model.dt_s, old.time_zone), (*old.footprints.names, *names)


def _ends_of(new: Sequence[Walk], old: WalkModelFile | None) -> list[Walk]:
    """Walks whose ends are places to be found: the new ones, and the old model's."""
    if old is None:
        return list(new)
    prints, walks = old.footprints, []
    xy = prints.xy
    for row in np.flatnonzero(prints.ended):
        positions = xy[prints.row == row]
        stamps = prints.start_ns[row] + np.round(np.arange(len(positions)) * old.model.dt_s * 1e9).astype(np.int64)
        walks.append(Walk(f"learnt-{row}", "", stamps, np.column_stack([positions, np.zeros(len(positions))])))
    return [*walks, *new]


def nll_per_step(file: WalkModelFile, walks: Iterable[Walk]) -> float:
    """Minus the log density of walks, nats per step; NaN where no walk has two positions."""
    windows = make_windows(walks, WindowsConfig(dt_s=file.model.dt_s, time_zone=file.time_zone), file.frame)
    if not len(windows):
        return float("nan")
    rows = walk_rows(windows, file.footprints.passers_by)
    total = sum(
        walk_log_density(
            file.model,
            xy + rows.origin,
            _position_variance(rows, n),
            rows.hour[n],
            int(rows.day[n]),
            bool(rows.ended[n]),
        )
        for n, xy in enumerate(rows.xy)
    )
    return -float(total) / sum(len(xy) - 1 for xy in rows.xy)


def _position_variance(rows: WalkRows, n: int) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Variance (T,) of a row's positions such that neighbours add up to about the variance of each move."""
    moves = rows.variance[n]
    return np.asarray(0.5 * np.append(moves, moves[-1:]))


def split_walks(walks: Sequence[Walk], share: float) -> tuple[list[Walk], list[Walk]]:
    """Walks to learn from and walks to score on, by a hash of each walk: it always falls on the same side."""
    lots = {walk.walk_id: int(fingerprint(walk), 16) / 2.0 ** (4 * len(fingerprint(walk))) for walk in walks}
    ranked = sorted(lots, key=lambda name: lots[name])
    chosen = {name for name, lot in lots.items() if lot < share}
    if len(ranked) > 1:
        chosen = (chosen | {ranked[0]}) - {ranked[-1]}
    return [w for w in walks if w.walk_id not in chosen], [w for w in walks if w.walk_id in chosen]


@dataclass(frozen=True, slots=True)
class Scored:
    """A model, and walks that it has never seen."""

    file: WalkModelFile
    unseen: list[Walk]
    relearnt: bool  # the model given had seen all walks: this one was learnt without a fifth of them


def scored_on_unseen(
    file: WalkModelFile, walks: Sequence[Walk], prior: FreeWalkerPrior | None = None, others: Sequence[Walk] = ()
) -> Scored:
    """The model and those of the walks that it never saw.

    A model that has seen all of them is learnt again, with the same ``prior``, without a fifth of the walks, so that it
    can be scored on these. ``others`` are walks of other residents of the home: those that the model was learnt from
    are learnt from again, and the model is then that of the resident whose walks are scored.
    """
    seen = set(file.footprints.names)
    unseen = [walk for walk in walks if fingerprint(walk) not in seen]
    if unseen:
        return Scored(file, unseen, False)
    if len(walks) < 2 * _LEAST_WALKS:
        raise DataError(f"expected walks the model never saw, or more to leave some out, got {len(walks)}")
    some, rest = split_walks(walks, _SCORED_SHARE)
    beside = [walk for walk in others if fingerprint(walk) in seen]
    config = LearnConfig(windows=WindowsConfig(dt_s=file.model.dt_s, time_zone=file.time_zone))
    places = places_from(file.metrics)
    learned = learn([*some, *beside], config, places=places, frame=file.frame, prior=prior).file
    return Scored(learned.of_resident(walks[0].resident) if beside else learned, rest, True)
