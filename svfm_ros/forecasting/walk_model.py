"""The walk model: stochastic vector fields towards destinations, a free walker, habits, and what walking adds to them.

A walk unfolds in steps of ``dt_s``. Its walker follows one of K fields (one per destination) or walks freely; may stand
for a while and go on where people do that; may leave the habits on the way and come back; and ends the walk where walks
end. Fields see the floor alone; the time of day enters in the choice of the field. Plain numpy: no torch is needed to
forecast. All positions inside of the model are relative to ``origin``.
"""

import hashlib
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from svfm_ros.forecasting.field_step import StepNumbers
from svfm_ros.forecasting.floor_grid import FloorGrid
from svfm_ros.forecasting.free_walker import FreeWalker
from svfm_ros.forecasting.habits import Habits

__all__ = ["CHANNELS", "SwitchNumbers", "WalkModel"]

Array = NDArray[np.float64]

CHANNELS = (
    *("velocity_x", "velocity_y", "walks", "spread_along", "spread_across", "middle_x", "middle_y"),
    *("stop", "go", "end", "end_still"),
)
"""What a table holds at each node: velocity in m/s; how many walks it rests on; variances along and across relative to
the usual ones; the way to the middle of the walks beside it, metres; probabilities per step to stand still, to go on,
to end while moving, to end while standing."""


@dataclass(frozen=True, slots=True)
class SwitchNumbers:
    """Probabilities per step of changing between habits and free walking."""

    leave: float  # from a habit to free walking
    join: float  # from free walking to a habit
    free_end: float  # a free walk ends while moving
    free_end_still: float  # and while standing
    slip: float  # share of the moves of someone with a habit that are as free as a free walker's; the habit stays

    @property
    def packed(self) -> Array:
        """As compiled code takes them (5,)."""
        return np.array([getattr(self, f.name) for f in fields(self)])


@dataclass(frozen=True, slots=True)
class WalkModel:
    """All that forecasts and likelihoods need."""

    dt_s: float
    origin: Array  # (2,), metres, subtracted from all positions
    grid: FloorGrid
    tables: NDArray[np.float32]  # (K, NX, NY, 11), see CHANNELS
    ends_xy: Array  # (K, 2), middle of each field's destination
    ramp: Array  # (R,), share of their speed that walkers reach in each of their first steps
    steady: Array  # (R,), share of the spread in these steps
    still_m: float  # standard deviation of a move while standing
    stand_m: float  # shorter moves count as standing
    steps: StepNumbers
    switches: SwitchNumbers
    habits: Habits
    free: FreeWalker
    set_off: Array  # (K,), probability per step that someone who arrived there sets off again; elsewhere their mean

    @property
    def components(self) -> int:
        """Number of fields, the free walker not counted."""
        return len(self.tables)

    @property
    def model_id(self) -> str:
        """A short name that changes whenever a number does."""
        digest = hashlib.blake2b(digest_size=6)
        for name, x in sorted(self.arrays().items()):
            digest.update(name.encode() + np.ascontiguousarray(x).tobytes())
        return digest.hexdigest()

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything as named arrays, for the model's file."""
        grid = self.grid
        return {
            "dt_s": np.array([self.dt_s]),
            "origin": self.origin,
            "grid": np.array([grid.low_x, grid.low_y, grid.cell_m, grid.nx, grid.ny]),
            "tables": self.tables,
            "ends_xy": self.ends_xy,
            "ramp": self.ramp,
            "steady": self.steady,
            "still": np.array([self.still_m, self.stand_m]),
            "steps": self.steps.packed,
            "switches": self.switches.packed,
            "set_off": self.set_off,
            **{f"habits.{name}": x for name, x in self.habits.arrays().items()},
            **{f"free.{name}": x for name, x in self.free.arrays().items()},
        }

    @classmethod
    def from_arrays(cls, x: dict[str, NDArray[np.generic]]) -> "WalkModel":
        """The reverse of ``arrays``; shapes were checked by the reader of the file."""
        low_x, low_y, cell_m, nx, ny = (float(v) for v in x["grid"])  # type: ignore[arg-type]
        part = {
            room: {k.split(".", 1)[1]: v for k, v in x.items() if k.startswith(f"{room}.")}
            for room in ("habits", "free")
        }
        return cls(
            dt_s=float(x["dt_s"][0]),
            origin=np.asarray(x["origin"], dtype=float),
            grid=FloorGrid(low_x, low_y, cell_m, int(nx), int(ny)),
            tables=np.ascontiguousarray(x["tables"], dtype=np.float32),
            ends_xy=np.asarray(x["ends_xy"], dtype=float),
            ramp=np.asarray(x["ramp"], dtype=float),
            steady=np.asarray(x["steady"], dtype=float),
            still_m=float(x["still"][0]),
            stand_m=float(x["still"][1]),
            steps=StepNumbers(*(float(v) for v in x["steps"])),  # type: ignore[arg-type]
            switches=SwitchNumbers(*(float(v) for v in x["switches"])),  # type: ignore[arg-type]
            habits=Habits.from_arrays(part["habits"]),
            free=FreeWalker.from_arrays(part["free"]),
            set_off=np.asarray(x["set_off"], dtype=float),
        )
