"""Choose options by their held-out score over many homes: Ray Tune with asynchronous successive halving (ASHA).

A combination of options is tried on one home after the other, all combinations on the same homes in the same order.
After 1, 3, 9, ... homes only the better third goes on, so bad combinations cost one home each.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from svfm_ros.errors import DataError, SvfmError
from svfm_ros.fleet.homes import Home, HomeFiles
from svfm_ros.pipeline.walk_input import read_walks
from svfm_ros.types import Walk

__all__ = ["OURS", "HomeScore", "Tried", "tune_homes", "walk_model_score"]

HomeScore = Callable[[list[Walk], Mapping[str, Any]], float]
"""Score of a combination of options on a home's walks, lower is better."""

_KEEP = 3  # one in so many combinations goes on
_HELD_OUT = 0.2  # of the walks of a home

OURS: dict[str, tuple[Any, ...]] = {
    "group_m": (0.7, 1.0, 1.5),
    "near_m": (0.3, 0.5, 1.0),
    "ramp_steps": (2, 3),
    "free_strength": (30.0, 100.0, 300.0),
}
"""Options of the walk model, by their names in ``config/forecast_config.py``."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One combination, and its mean score over the homes it was tried on."""

    options: dict[str, Any]
    homes: int
    score: float
    error: float | None  # standard error over homes


def walk_model_score(walks: list[Walk], options: Mapping[str, Any]) -> float:
    """NLL per step (nats) of a fifth of the walks under a model learnt from the others with these options."""
    from svfm_ros.config.forecast_config import WalkModelConfig, WalkTrainConfig
    from svfm_ros.pipeline.learn import LearnConfig, learn, nll_per_step, split_walks

    some, rest = split_walks(walks, _HELD_OUT)
    of_training = {k: v for k, v in options.items() if k in WalkTrainConfig.__dataclass_fields__}
    of_model = {k: v for k, v in options.items() if k not in of_training}
    config = LearnConfig(model=WalkModelConfig(**of_model), train=WalkTrainConfig(**of_training))
    return nll_per_step(learn(some, config).file, rest)


def tune_homes(
    homes: Sequence[Home],
    score: HomeScore,
    grid: Mapping[str, Sequence[Any]],
    storage: str | None = None,
) -> list[Tried]:
    """Every combination of a grid, best first: those that saw more homes before those that were stopped early.

    Runs on the Ray that this process is connected to. ``storage`` is where Ray Tune keeps its records, a path or URL
    that all nodes reach; on one machine a folder of its own, which is removed.
    """
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    scheduler = ASHAScheduler(time_attr="homes", max_t=len(homes), grace_period=1, reduction_factor=_KEEP)

    def trial(options: dict[str, Any]) -> None:
        _try(options, list(homes), score, tune.report)

    with TemporaryDirectory(prefix="svfm-tune-") as folder:
        tuner = tune.Tuner(
            tune.with_resources(trial, {"cpu": 1.0}),
            param_space={name: tune.grid_search(list(values)) for name, values in grid.items()},
            tune_config=tune.TuneConfig(metric="score", mode="min", scheduler=scheduler),
            run_config=tune.RunConfig(storage_path=storage or folder, verbose=0),
        )
        results = tuner.fit()
    if len(results.errors) == len(results):
        raise DataError(f"expected homes whose walks can be learnt from, got none: {results.errors[0]}")
    found = [_tried(result.config, result.metrics) for result in results if result.error is None]
    return sorted(found, key=lambda one: (-one.homes, one.score))


def _try(options: dict[str, Any], homes: list[Home], score: HomeScore, tell: Callable[[dict[str, Any]], None]) -> None:
    """One combination on all homes in their order; a home that cannot be used is passed over, for all alike."""
    scores: list[float] = []
    reason = ""
    for n, home in enumerate(homes, 1):
        try:
            scores.append(score(_walks_of(home), options))
        except SvfmError as error:
            reason = f"{home.name}: {error}"
        if scores:
            spread = float(np.std(scores, ddof=1)) / math.sqrt(len(scores)) if len(scores) > 1 else None
            tell({"score": float(np.mean(scores)), "error": spread, "homes": n, "used": len(scores)})
    if not scores:
        raise DataError(reason)


def _walks_of(home: Home) -> list[Walk]:
    with TemporaryDirectory(prefix="svfm-home-") as folder:
        files = HomeFiles(home, Path(folder))
        resident = files.fetch_settings().resident or None
        path = files.fetch_walks()
        if path is None:
            raise DataError("expected walks, got recordings alone: svfm fleet run makes a store of them")
        return read_walks(path, resident, several=True).walks


def _tried(options: Mapping[str, Any], metrics: Mapping[str, Any]) -> Tried:
    return Tried(dict(options), int(metrics["used"]), float(metrics["score"]), metrics.get("error"))
