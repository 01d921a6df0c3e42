"""Departures of simulated residents: where from, where to, when. Habits can be measured from these alone."""

from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import NS_PER_S, zone
from svfm_ros.forecasting.fit.habit_fit import FittedHabits, HabitWalks, fit_habits
from svfm_ros.forecasting.habits import Habits
from svfm_ros.forecasting.wandering import NextWalks
from svfm_ros.sim.house import House
from svfm_ros.sim.resident import Resident, simulate_visits

__all__ = ["Visits", "fit_visits", "live", "share_errors"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_EPOCH = date(1970, 1, 1).toordinal()
_SCATTER_M = 0.1  # of where walks begin
_GROUP_M, _NEAR_M = 1.0, 0.5  # the defaults of training


@dataclass(frozen=True, slots=True)
class Visits:
    """Walks of one resident in order of time, without their paths."""

    origin: Ints  # (N,), index of the place
    end: Ints  # (N,)
    hour: Array  # (N,), local
    day: Ints  # (N,), days since 1970-01-01
    places: int

    def select(self, rows: NDArray[np.bool_]) -> "Visits":
        """Some of them, by mask (N,)."""
        return Visits(self.origin[rows], self.end[rows], self.hour[rows], self.day[rows], self.places)

    def next_walks(self) -> NextWalks:
        """As the wandering index takes them."""
        return NextWalks(self.origin, self.end, self.hour, self.day, self.places)

    def true_shares(self, resident: Resident) -> Array:
        """Probability of each next place at the start of each walk (N, P)."""
        rows = zip(self.origin.tolist(), self.hour.tolist(), self.day.tolist(), strict=True)
        found = [resident.shares(resident.places[o], h, date.fromordinal(d + _EPOCH)) for o, h, d in rows]
        return np.array([[each[name] for name in resident.places] for each in found])

    def true_entropies(self, resident: Resident) -> Array:
        """Entropy of these shares (N,), nats."""
        shares = self.true_shares(resident)
        return np.asarray(-(shares * np.log(np.where(shares > 0.0, shares, 1.0))).sum(1))


def live(resident: Resident, days: float, seed: int) -> Visits:
    """Some days of a resident."""
    trips = simulate_visits(resident, days, None, np.random.default_rng([seed, 5]))
    local = zone(resident.time_zone)
    when = [datetime.fromtimestamp(t.start_ns / NS_PER_S, local) for t in trips]
    number = {name: i for i, name in enumerate(resident.places)}
    return Visits(
        np.array([number[t.origin] for t in trips]),
        np.array([number[t.destination] for t in trips]),
        np.array([w.hour + w.minute / 60.0 + w.second / 3600.0 for w in when]),
        np.array([w.toordinal() - _EPOCH for w in when]),
        len(resident.places),
    )


def _centres(house: House) -> Array:
    return np.array([[p.x, p.y] for p in house.places])


def fit_visits(house: House, visits: Visits, seed: int = 0) -> FittedHabits:
    """The habits that training learns from these walks, each place a destination of its own."""
    xy = _centres(house)
    starts = xy[visits.origin] + _SCATTER_M * np.random.default_rng([seed, 9]).standard_normal((len(visits.hour), 2))
    nobody = np.zeros(len(visits.hour), dtype=np.int64)
    walks = HabitWalks(nobody, visits.hour, visits.day, np.eye(visits.places)[visits.end], nobody)
    return fit_habits(starts, walks, np.zeros(len(visits.hour)), xy, _GROUP_M, _NEAR_M)


def share_errors(house: House, resident: Resident, habits: Habits, visits: Visits) -> Array:
    """Total variation (N,) between the habits and the true ones at the start of each walk."""
    xy, true = _centres(house), visits.true_shares(resident)
    found = [
        habits.at(xy[o][None], h, d)[0][0]
        for o, h, d in zip(visits.origin.tolist(), visits.hour.tolist(), visits.day.tolist(), strict=True)
    ]
    return np.asarray(0.5 * np.abs(np.array(found) - true).sum(1))
