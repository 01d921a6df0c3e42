"""The population prior of many homes, as a sum of small statistics of each: it never sees a walk.

A home's statistics are tens of kilobytes whatever the number of its walks; adding them up takes no more memory for a
thousand homes than for one.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.atomic_files import write_whole
from svfm_ros.config.forecast_config import WalkModelConfig, WalkTrainConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.fit.field_fit import base_hazards
from svfm_ros.forecasting.fit.free_walker_fit import WalkerStatistics, pooled_prior, walker_statistics
from svfm_ros.forecasting.fit.number_fit import raw_by_name
from svfm_ros.forecasting.fit.usual_numbers import HAZARDS, RHYTHM, logit
from svfm_ros.forecasting.fit.walk_steps import joined, stays_s
from svfm_ros.forecasting.free_walker import TICK_S, FreeWalkerPrior
from svfm_ros.forecasting.model_file import WalkModelFile

__all__ = ["HomeStatistics", "home_statistics", "population_prior"]

Array = NDArray[np.float64]

_LEAST_HOMES = 3  # for a prior over numbers
_WIDE = 0.5  # of a raw number: homes that differ by a factor of 1.6


@dataclass(frozen=True, slots=True)
class HomeStatistics:
    """What homes say about everyone, added up over ``homes`` homes."""

    walker: WalkerStatistics
    homes: int = 1
    numbers: dict[str, Array] = field(default_factory=dict)
    """Homes, sum and sum of squares (3,) of each raw number, by name."""

    def __add__(self, other: "HomeStatistics") -> "HomeStatistics":
        names = self.numbers.keys() | other.numbers.keys()
        none = np.zeros(3)
        numbers = {n: self.numbers.get(n, none) + other.numbers.get(n, none) for n in sorted(names)}
        return HomeStatistics(self.walker + other.walker, self.homes + other.homes, numbers)

    def save(self, path: Path) -> None:
        """Write them as one file (safetensors)."""
        from safetensors.numpy import save

        w = self.walker
        parts = {f"information.{n}": x for n, x in w.information.items()}
        parts |= {f"weighted.{n}": x for n, x in w.weighted.items()}
        parts |= {f"number.{n}": x for n, x in self.numbers.items()}
        parts |= {"first": w.first, "rests": w.rests, "count": np.array([w.moves, self.homes], dtype=float)}
        write_whole(path, save({name: np.ascontiguousarray(x, dtype=np.float64) for name, x in parts.items()}))

    @classmethod
    def load(cls, path: Path) -> "HomeStatistics":
        """The reverse of ``save``."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            parts = load_file(path)
            moves, homes = (int(x) for x in parts["count"])
            information, weighted, numbers = (
                {n.split(".")[1]: x for n, x in parts.items() if n.startswith(f"{kind}.")}
                for kind in ("information", "weighted", "number")
            )
            return cls(WalkerStatistics(information, weighted, parts["first"], parts["rests"], moves), homes, numbers)
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise DataError(f"expected the statistics of a home at {path}, got something else") from error


def home_statistics(file: WalkModelFile) -> HomeStatistics:
    """The statistics of the home that a model was learnt from."""
    prints = file.footprints
    rows = np.split(prints.local_xy.astype(float), np.flatnonzero(np.diff(prints.row)) + 1)
    walker = walker_statistics(file.model.free, [xy * (TICK_S / file.model.dt_s) for xy in rows])
    numbers = {n: np.array([1.0, x, x * x]) for n, x in _numbers(file).items()}
    return HomeStatistics(walker, numbers=numbers)


def _numbers(file: WalkModelFile) -> dict[str, float]:
    """Raw numbers that homes share a prior over: steps, setting off, pauses, ends, stays, rhythm of the day."""
    model = file.model
    rows = joined(file.footprints, None, model.dt_s, file.time_zone)
    found = raw_by_name(model.steps)
    found |= {f"ramp{i}": math.log(x) for i, x in enumerate(model.ramp.tolist())}
    found |= {f"steady{i}": math.log(x) for i, x in enumerate(model.steady.tolist())}
    found |= dict(zip(HAZARDS, map(logit, base_hazards(rows, model.stand_m, {}).tolist()), strict=True))
    stays = stays_s(rows, np.zeros(len(rows), dtype=np.int64), 1, WalkModelConfig().group_m)[0]
    found |= {"stays": math.log(float(np.mean(stays)))} if stays else {}
    return found | {name: float(file.metrics[name]) for name in RHYTHM if name in file.metrics}


def population_prior(total: HomeStatistics, base: FreeWalkerPrior | None = None) -> FreeWalkerPrior:
    """The prior for each home, from the sum of all homes' statistics and the prior that they were learnt with."""
    pooled = pooled_prior(base or FreeWalkerPrior.load(), total.walker, WalkTrainConfig().free_strength)
    return replace(pooled, numbers={n: _gaussian(x) for n, x in total.numbers.items() if x[0] >= _LEAST_HOMES})


def _gaussian(sums: Array) -> Array:
    """Mean and precision (2,) of a raw number over homes; few homes say little about how far homes differ."""
    homes, total, squares = sums.tolist()
    mean = total / homes
    between = max(squares - homes * mean**2, 0.0)
    variance = (between + _WIDE**2) / homes  # as if one more home had been this far from the mean
    return np.array([mean, 1.0 / (variance + _WIDE**2 / homes)])
