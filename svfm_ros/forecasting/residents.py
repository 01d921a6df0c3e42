"""Residents of one home: they share fields, endings and chain; each has habits, a pace and a spread of their own."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.habits import Habits
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = ["Residents"]

Array = NDArray[np.float64]

_HABITS = ("shares", "free", "support", "base")


@dataclass(frozen=True, slots=True)
class Residents:
    """What differs between R residents; their habits have the origins of the home."""

    names: tuple[str, ...]
    shares: Array  # (R, C, DAY_KINDS, CELLS, K), see ``Habits``
    free: Array  # (R, C, DAY_KINDS, CELLS)
    support: Array  # (R, C, DAY_KINDS, CELLS)
    base: Array  # (R, CELLS, K)
    pace: Array
    """(R, 3): log of the pace relative to the fields, variance of the pace relative to the home's, ``base_free``."""

    @classmethod
    def of(cls, names: tuple[str, ...], habits: list[Habits], log_pace: Array, variance_ratio: Array) -> "Residents":
        """From the habits (R) of each."""
        parts = {name: np.stack([getattr(h, name) for h in habits]) for name in _HABITS}
        base_free = np.array([h.base_free for h in habits])
        return cls(names, **parts, pace=np.column_stack([log_pace, variance_ratio, base_free]))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """As named arrays, for the model's file."""
        small = {name: getattr(self, name).astype(np.float32) for name in _HABITS}
        return {f"residents.{name}": x for name, x in {**small, "pace": self.pace}.items()}

    @classmethod
    def from_arrays(cls, names: tuple[str, ...], x: dict[str, NDArray[np.generic]]) -> "Residents":
        """The reverse of ``arrays``."""
        parts = {name: np.asarray(x[f"residents.{name}"], dtype=float) for name in (*_HABITS, "pace")}
        return cls(names, **parts)

    def relative_to(self, name: str) -> "Residents":
        """The same residents, with pace and spread relative to one of them: for the model of that one."""
        r = self.names.index(name)
        pace = self.pace.copy()
        pace[:, 0] -= self.pace[r, 0]
        pace[:, 1] /= self.pace[r, 1]
        return replace(self, pace=pace)

    def model_of(self, home: WalkModel, name: str) -> WalkModel:
        """The model of one resident: the home's, with their habits, pace and spread."""
        r = self.names.index(name)
        log_pace, ratio, base_free = self.pace[r].tolist()
        parts = {n: getattr(self, n)[r] for n in _HABITS}
        tables = home.tables.copy()
        tables[..., :2] *= np.float32(np.exp(log_pace))
        return replace(
            home,
            tables=tables,
            steps=replace(home.steps, pace_var=home.steps.pace_var * ratio),
            habits=replace(home.habits, **parts, base_free=base_free),
        )
