"""Wandering index: the entropy of the place that someone goes to next, with an interval.

Habits are learnt from the walks themselves, by origin, hour and kind of day, and drawn from their posterior. In each
draw the entropy of the next place is known at the start of every walk; the mean over walks is the wandering index of
that draw. The mean over draws is the index, their quantiles are its interval. A person with a routine has a low index,
a person who wanders a high one; exp(index) is the number of equally likely places that would leave as much open.

Every place counts as a destination, the place where the walk begins and *elsewhere* (no place) like all others: with P
places the index lies between 0 and log(P + 1).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.forecasting.fit.habit_fit import HabitWalks, fit_next_place
from svfm_ros.forecasting.habits import is_weekend

__all__ = ["EntropyDraws", "NextWalks", "entropy_draws"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_DRAWS = 200
_CELLS = {60: 24, 140: 48, 400: 96}  # pieces of the day below so many walks, which say little about when habits change
_MOST_CELLS = 192  # with fewer, walks around a change are counted to the wrong habits, and the index is too high
_MOST_PLACES = 12  # with more, pieces of the day are no finer than 96: memory grows with the square of both


@dataclass(frozen=True, slots=True)
class NextWalks:
    """Where N walks of one person began and ended among P places; -1 is elsewhere."""

    origin: Ints  # (N,)
    end: Ints  # (N,)
    hour: Array  # (N,), local hour of the start
    day: Ints  # (N,), days since 1970-01-01
    places: int

    def __post_init__(self) -> None:
        known = {"origin": self.origin, "end": self.end}
        for name, index in known.items():
            if len(index) and (index.min() < -1 or index.max() >= self.places):
                raise DataError(f"expected {name} from -1 to {self.places - 1}, got {index.min()} to {index.max()}")


@dataclass(frozen=True, slots=True)
class EntropyDraws:
    """Entropy of the next place at the start of each walk, for habits drawn from their posterior; nats."""

    each: Array  # (S, N)

    def of(self, walks: NDArray[np.bool_] | None = None) -> Array:
        """The mean over some of the walks (a mask (N,)), or all, in each draw: (S,)."""
        return np.asarray((self.each if walks is None else self.each[:, walks]).mean(1))

    def interval(self, level: float = 0.9) -> tuple[float, float, float]:
        """Mean, and the interval that holds the true entropy with this probability."""
        drawn = self.of()
        low, high = np.quantile(drawn, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return float(drawn.mean()), float(low), float(high)


def entropy_draws(walks: NextWalks, draws: int = _DRAWS, seed: int = 0, cells: int | None = None) -> EntropyDraws:
    """Draw habits from their posterior and take the entropy of the next place at the start of each walk.

    ``cells`` pieces of the day may have habits of their own; if not given, as many as the walks can tell apart.
    """
    if not len(walks.origin):
        raise DataError("expected walks, got none")
    count = walks.places + 1
    origin, end = (np.where(index < 0, walks.places, index) for index in (walks.origin, walks.end))
    own = np.eye(count, dtype=np.bool_)
    own[-1, -1] = False  # elsewhere is not one place: people do walk from there to there
    person = np.zeros(len(origin), dtype=np.int64)
    cells = cells or _cells_for(len(origin), count)
    found = fit_next_place(HabitWalks(origin, walks.hour, walks.day, np.eye(count)[end], person), own, cells=cells)
    kind, cell = is_weekend(walks.day).astype(np.int64), np.floor(walks.hour * (cells / 24.0)).astype(np.int64) % cells
    rng = np.random.default_rng(seed)
    each = np.empty((draws, len(origin)))
    for n in range(draws):
        shares = found.draw(rng)  # (C, kinds, cells, K)
        entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(-1)
        each[n] = entropy[origin, kind, cell]
    return EntropyDraws(each)


def _cells_for(walks: int, places: int) -> int:
    """So many pieces of the day may have habits of their own."""
    most = _MOST_CELLS if places <= _MOST_PLACES else max(_CELLS.values())
    return next((n for walks_below, n in _CELLS.items() if walks < walks_below), most)
