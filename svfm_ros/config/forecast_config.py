"""Defaults of the forecaster: the model of a person's walks, its training by path likelihood, and what it is asked."""

from dataclasses import dataclass

from svfm_ros.config.options import check, option

__all__ = ["ForecastConfig", "PathTrainConfig", "WalkModelConfig"]


@dataclass(frozen=True, slots=True)
class WalkModelConfig:
    """A mixture of stochastic fields over the floor, with what walking adds: a pace, pauses and an end."""

    components: int = option(
        0, "number of fields; 0 takes as many as there are groups of endpoints", low=0, high=64, read_only=True
    )
    most_components: int = option(12, "no more fields than this when their number is found", low=1, high=64)
    group_m: float = option(1.0, "endpoints closer than this belong to one group, metres", low=0.05, high=50.0)
    near_m: float = option(
        0.5, "starts this near to each other have about the same habits, metres", low=0.05, high=50.0
    )
    doubt_walks: float = option(
        80.0, "steps seen count half where a field was learned from this many walks, more where from more", low=0.0
    )
    hidden_layers: int = option(2, "hidden layers of each field's network", low=1, high=8, read_only=True)
    hidden_units: int = option(32, "units in each hidden layer", low=1, high=1024, read_only=True)
    unit_m: float = option(0.8, "metres per state unit: how fine a detail the first weights see", low=0.01, high=100.0)
    max_speed_mps: float = option(4.0, "smooth bound on the median speed, m/s", low=0.1, high=50.0)
    paces: int = option(7, "values on the grid of a walker's own pace; 1 gives everyone the same", low=1, high=31)
    sensor_m: float = option(0.01, "standard deviation of a recorded position, metres", low=1e-4, high=1.0)
    still_m: float = option(0.02, "how far one moves in a step of a pause, metres", low=1e-3, high=1.0)
    switch_per_s: float = option(0.0, "how often someone changes their mind, per second", low=0.0, high=1.0)
    ends: bool = option(True, "learn where walks end; without, walkers never stop on purpose", read_only=True)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class PathTrainConfig:
    """How a walk model is fitted to whole walks by the likelihood of their steps."""

    seed: int = option(0, "first weights and the order of everything random", low=0)
    steps: int = option(300, "steps of the optimiser", low=1)
    learning_rate: float = option(1e-2, "largest step size of Adam", low=1e-6, high=1.0)
    sorting: float = option(
        0.3, "share of the steps over which walks are held firmly to their group's field", low=0.0, high=1.0
    )
    loyalty: float = option(8.0, "nats against leaving that field afterwards", low=0.0)
    anchor_mps: float = option(0.5, "how far fields may stray from their anchors, m/s", low=1e-3)
    decay: float = option(0.05, "penalty on squared weights of the fields, nats", low=0.0)
    end_decay: float = option(0.5, "the same for the networks that end a walk", low=0.0)
    jitter_m: float = option(0.02, "walks are shifted at random by this much in each step, metres", low=0.0, high=1.0)
    restarts: int = option(1, "trainings from different first weights; the likeliest is kept", low=1, high=20)

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class ForecastConfig:
    """What a forecast is asked for unless someone says otherwise."""

    horizon_s: float = option(10.0, "how far ahead to look, seconds", low=0.1, high=600.0)
    samples: int = option(200, "sampled paths", low=1, high=100000)
    seed: int = option(0, "of the samples", low=0)
    known_radius_m: float = option(1.0, "farther than this from every walk, nothing is known, metres", low=0.01)
    neighbourhood_m: float = option(1.0, "walks that pass this near count as what a forecast rests on", low=0.01)
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

    def __post_init__(self) -> None:
        check(self)
