"""Habits: which field someone follows from where, at which hour, on which kind of day; and how often they follow none.

Shares are tables by origin (a group of starts), kind of day (weekday, weekend) and quarter of an hour.
``fit/habit_fit.py`` learns them; forecasts only look them up.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["CELLS", "DAY_KINDS", "FAR_M", "Habits", "is_weekend", "quarter_of"]

Array = NDArray[np.float64]

CELLS = 96
"""Pieces that the day is cut into: quarters of an hour."""
DAY_KINDS = 2
"""Weekdays and weekends."""
FAR_M = 1.5  # this far from every origin, half of what is expected comes from all walks together


def is_weekend(day: ArrayLike) -> NDArray[np.bool_]:
    """Whether days since 1970-01-01 (a Thursday) are a Saturday or a Sunday."""
    return np.asarray((np.asarray(day, dtype=np.int64) + 3) % 7 >= 5)


def quarter_of(hour: float) -> int:
    """The piece of the day, 0 to CELLS - 1, that a local hour is in."""
    return int(np.floor(hour * (CELLS / 24.0))) % CELLS


@dataclass(frozen=True, slots=True)
class Habits:
    """Shares of K fields; they add up to one over the fields, ``free`` is the share of walks that follow none."""

    origin_xy: Array  # (C, 2), metres
    origin_walks: Array  # (C,)
    shares: Array  # (C, DAY_KINDS, CELLS, K)
    free: Array  # (C, DAY_KINDS, CELLS)
    support: Array  # (C, DAY_KINDS, CELLS), walks of about that hour that these shares rest on
    base: Array  # (CELLS, K), of all walks, for people who are at none of the origins
    base_free: float
    near_m: float  # starts this near to each other have about the same habits

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """As named arrays."""
        names = ("origin_xy", "origin_walks", "shares", "free", "support", "base")
        return {**{n: getattr(self, n) for n in names}, "scalars": np.array([self.base_free, self.near_m])}

    @classmethod
    def from_arrays(cls, x: dict[str, NDArray[np.generic]]) -> "Habits":
        """The reverse of ``arrays``."""
        names = ("origin_xy", "origin_walks", "shares", "free", "support", "base")
        base_free, near_m = (float(v) for v in x["scalars"])  # type: ignore[arg-type]
        parts = {n: np.asarray(x[n], dtype=float) for n in names}
        return cls(**parts, base_free=base_free, near_m=near_m)

    def weights(self, xy: Array) -> Array:
        """How much of each origin's habits, and of those of all walks, people at positions (S, 2) have: (S, C + 1)."""
        squared = ((xy[:, None] - self.origin_xy) ** 2).sum(-1)  # (S, C)
        nearest = squared.min(1, keepdims=True)
        near = np.exp(-0.5 * (squared - nearest) / self.near_m**2)
        near /= near.sum(1, keepdims=True)
        local = np.exp(-np.log(2.0) * nearest / FAR_M**2)
        return np.concatenate([near * local, 1.0 - local], axis=1)

    def at(self, xy: Array, hour: float, day: int) -> tuple[Array, Array]:
        """Shares of the fields (S, K) and of free walking (S,) at positions (S, 2) at a local hour of a day."""
        weight, cell, kind = self.weights(xy), quarter_of(hour), int(is_weekend(day))
        shares = weight[:, :-1] @ self.shares[:, kind, cell] + weight[:, -1:] * self.base[cell]
        free = weight[:, :-1] @ self.free[:, kind, cell] + weight[:, -1] * self.base_free
        return shares, free

    def walks_at(self, xy: Array, hour: float, day: int) -> float:
        """How many walks of about that hour the habits at one position (2,) rest on."""
        weight = self.weights(np.asarray(xy, dtype=float)[None])[0]
        return float(weight[:-1] @ self.support[:, int(is_weekend(day)), quarter_of(hour)])

    def by_origin(self, hour: float, day: int) -> tuple[Array, Array]:
        """Shares (C + 1, K) and free shares (C + 1,) of every origin and, last, of all walks."""
        cell, kind = quarter_of(hour), int(is_weekend(day))
        shares = np.concatenate([self.shares[:, kind, cell], self.base[cell][None]])
        return shares, np.append(self.free[:, kind, cell], self.base_free)
