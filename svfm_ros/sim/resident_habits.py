"""Where people go next, by the hour and by where they are."""

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.sim_config import HabitConfig
from svfm_ros.errors import DataError
from svfm_ros.sim.house import House

__all__ = ["is_night", "next_place_shares"]

Array = NDArray[np.float64]

_FAVOURITE = 0.9  # share of the favourite next place in a routine
_PERIOD_H = 4.0  # a routine changes every so many hours


def is_night(hour: float, habits: HabitConfig) -> bool:
    """Whether an hour of the day belongs to the night, which may pass midnight."""
    start, end = habits.night_from_h, habits.night_to_h
    return start <= hour < end if start <= end else hour >= start or hour < end


def next_place_shares(house: House, habits: HabitConfig, origin: str, hour: float) -> Array:
    """Probability of each place of the house ``(P,)`` to be the next one; the share of the origin means staying."""
    names = house.places.names
    if habits.profile != "wandering" and is_night(hour, habits):
        return _at_night(house, habits)
    shares = np.full(len(names), 1.0 / len(names))
    if habits.profile == "routine":
        here = names.index(origin)
        favourite = (here + 1 + int(hour // _PERIOD_H) % (len(names) - 1)) % len(names)
        shares = np.full(len(names), (1.0 - _FAVOURITE) / (len(names) - 1))
        shares[favourite] = _FAVOURITE
    return shares


def _at_night(house: House, habits: HabitConfig) -> Array:
    names = house.places.names
    for needed in ("landing", "kitchen"):
        if needed not in names:
            raise DataError(
                f"{house.name}: expected a place {needed!r} for walks at night (or a drawn resident), "
                f"got {', '.join(names)}"
            )
    shares = np.zeros(len(names))
    shares[names.index("landing")] = habits.night_landing
    shares[names.index("kitchen")] = 1.0 - habits.night_landing
    return shares
