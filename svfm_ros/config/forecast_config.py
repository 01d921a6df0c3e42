"""Defaults of the walk model, of its training and of forecasts."""

from dataclasses import dataclass

from svfm_ros.config.options import CheckedOptions, option

__all__ = ["MAX_MODEL_BYTES", "ForecastConfig", "WalkModelConfig", "WalkTrainConfig"]

MAX_MODEL_BYTES = 200_000_000
"""Larger files are not read as models."""


@dataclass(frozen=True, slots=True)
class WalkModelConfig(CheckedOptions):
    """The walk model: how walks are grouped and what counts as standing. Everything else is learnt."""

    most_components: int = option(12, "no more fields than this; there is one per group of endpoints", low=1, high=64)
    group_m: float = option(1.0, "endpoints closer than this belong to one group, metres", low=0.05, high=50.0)
    near_m: float = option(
        0.5, "starts this near to each other have about the same habits, metres", low=0.05, high=50.0
    )
    stand_m: float = option(0.06, "shorter moves count as standing, metres per step", low=1e-3, high=1.0)
    ramp_steps: int = option(3, "first steps of a walk in which people are still gaining speed", low=0, high=20)


@dataclass(frozen=True, slots=True)
class WalkTrainConfig(CheckedOptions):
    """How a walk model is learnt."""

    seed: int = option(0, "of everything random", low=0, high=2**31 - 1)
    folds: int = option(5, "parts of the walks that are left out in turn to choose the model's numbers", low=2, high=20)
    most_left_out: int = option(600, "left-out walks that choose the numbers: more change nothing", low=10)
    free_strength: float = option(
        100.0, "moves that the population's free walker counts for beside the home's own", low=0.0
    )


@dataclass(frozen=True, slots=True)
class ForecastConfig(CheckedOptions):
    """How far, with how many paths, and from how many walks to forecast."""

    horizon_s: float = option(10.0, "how far ahead to look, seconds", low=0.1, high=600.0)
    samples: int = option(200, "sampled paths", low=1, high=100000)
    seed: int = option(0, "of the samples", low=0)
    known_radius_m: float = option(1.0, "farther than this from every walk, nothing is known, metres", low=0.01)
    known_walks: float = option(
        0.3, "fewer walks of about this hour from about this start, and the habits count as unknown", low=0.0
    )
    neighbourhood_m: float = option(1.0, "walks that pass this near count as what a forecast rests on", low=0.01)
    about_h: float = option(2.0, "of these, walks that began within so many hours of the same time of day", low=0.1)
    longest_s: float = option(60.0, "paths are followed no longer than this to see where they end, seconds", low=0.1)
    patience: float = option(1.3, "paths are followed to their end for this many times the longest walk known", low=0.0)
    place_reach_m: float = option(
        0.5,
        "paths that stop this near to a place's edge count as there: sampled ends scatter more than people do",
        low=0.0,
    )
    elsewhere: str = option("elsewhere", "name for endpoints that are in no place")
    frame: str = option("map", "frame of positions")
    cell_m: float = option(0.1, "cell of the density grid, metres", low=0.01, high=10.0)
    wall_redraws: int = option(4, "paths through walls are drawn anew at most so often; 0 lets them pass", low=0)
