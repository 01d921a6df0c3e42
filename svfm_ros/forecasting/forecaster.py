"""Forecasts: where someone is likely to go from here, at this hour, and how sure that is.

``Forecaster.forecast`` takes these steps: possible positions (the pose is uncertain), the posterior of what the walker
follows (from the walk so far, or from the habits), sampled paths, walls, where the paths end. Plain numpy comes out.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.clock import NS_PER_S, days_of, hours_of_day
from svfm_ros.config.forecast_config import ForecastConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.forecasting.model_file import WalkModelFile, load_walk_model
from svfm_ros.forecasting.posterior import Posterior, filter_walk, on_ticks
from svfm_ros.forecasting.sampler import SampledWalks, Walkers, fresh_walkers, sample_walks
from svfm_ros.forecasting.scores import entropy
from svfm_ros.forecasting.walls import Walls
from svfm_ros.types import Forecast, OccupancyGrid, Places, Pose2, Walk

__all__ = ["Forecaster"]

Array = NDArray[np.float64]


class Forecaster:
    """One model, the places of one house and, if there is one, its map."""

    def __init__(
        self,
        model: WalkModelFile | Path | str,
        places: Places | None = None,
        config: ForecastConfig | None = None,
        walls: OccupancyGrid | None = None,
    ) -> None:
        """Load what is needed once; ``walls`` is the map in the frame of the walks."""
        self.file = load_walk_model(Path(model)) if isinstance(model, Path | str) else model
        self.config = config or ForecastConfig()
        if self.file.frame != self.config.frame:
            raise UsageError(f"expected a model in the frame {self.config.frame!r}, got {self.file.frame!r}")
        self.places = places or Places()
        self.model_id = self.file.model_id
        self._walls = None if walls is None else Walls.of(walls)

    def forecast(
        self,
        start: ArrayLike,
        stamp_ns: int,
        *,
        covariance: ArrayLike | None = None,
        walk_so_far: Walk | None = None,
        what_if_hour: float | None = None,
        horizon_s: float | None = None,
        samples: int | None = None,
        seed: int | None = None,
    ) -> Forecast:
        """Paths from a start (x, y, ...) in metres at a Unix time.

        ``covariance`` (2, 2) or (3, 3) is that of the pose. ``walk_so_far`` ends at the start; the posterior over
        fields follows from it. ``what_if_hour`` asks the same at another local hour.
        """
        config, model = self.config, self.file.model
        horizon_s = config.horizon_s if horizon_s is None else float(horizon_s)
        samples = config.samples if samples is None else int(samples)
        rng = np.random.default_rng(config.seed if seed is None else seed)
        here = _check(start, horizon_s, samples)
        hour, day = self._hour(stamp_ns, what_if_hour), int(days_of([stamp_ns], self.file.time_zone)[0])
        starts = _starts(here, covariance, samples, rng) - model.origin
        posterior = None if walk_so_far is None else self.posterior(walk_so_far, what_if_hour)
        shares, free = model.habits.at((here - model.origin)[None], hour, day)
        walkers = self._walkers(starts, posterior, shares[0], float(free[0]), rng)
        walks = self._sample(walkers, hour, day, horizon_s, rng)
        times_s, paths = self._until(walks, horizon_s)
        endpoint = self.places.assign(walks.end_xy + model.origin, config.place_reach_m)
        found = self._shares(endpoint)
        near, nearest_m = self.file.footprints.walks_near(here, config.neighbourhood_m)
        begun = here if walk_so_far is None else walk_so_far.xy[0]
        habit_walks = model.habits.walks_at(np.asarray(begun) - model.origin, hour, day)
        known = nearest_m <= config.known_radius_m and habit_walks >= config.known_walks
        return Forecast(
            stamp_ns=int(stamp_ns),
            frame=config.frame,
            times_s=times_s,
            samples_xy=paths + model.origin,
            component=walks.component - 1,
            shares=found,
            entropy=entropy(found) if known else None,
            walks=near,
            model_id=self.model_id,
            known=bool(known),
            endpoint=endpoint,
            unfamiliar=float(free[0]) if posterior is None else posterior.unfamiliar,
        )

    def set_walls(self, walls: OccupancyGrid | None) -> None:
        """Use another map from now on, in the frame of the walks."""
        self._walls = None if walls is None else Walls.of(walls)

    def warm_up(self) -> Forecast:
        """Make one forecast with every option, so that the first real one is as quick as those that follow."""
        walls = self._walls
        here = self.file.footprints.xy[0]
        steps = here + np.linspace(0.0, 1.0, 5)[:, None]  # (5, 2)
        stamps_ns = np.arange(5) * round(self.file.model.dt_s * NS_PER_S)
        walk = Walk("", "", stamps_ns, np.column_stack([steps, np.zeros(5)]))
        self._walls = Walls.of(OccupancyGrid(np.ones((2, 2), dtype=np.float32), 0.1, Pose2(here[0] + 0.5, here[1])))
        try:
            self.forecast(here, 0)
            return self.forecast(steps[-1], int(stamps_ns[-1]), covariance=0.01 * np.eye(2), walk_so_far=walk)
        finally:
            self._walls = walls

    def posterior(self, walk_so_far: Walk, hour: float | None = None) -> Posterior | None:
        """What the walk so far says; None where it is shorter than one step."""
        xy, variance = on_ticks(walk_so_far, self.file.model.dt_s)
        if len(xy) < 2:
            return None
        begun_ns = int(walk_so_far.stamps_ns[0])
        day = int(days_of([begun_ns], self.file.time_zone)[0])
        return filter_walk(self.file.model, xy, variance, self._hour(begun_ns, hour), day)

    @property
    def _longest(self) -> int:
        """Ticks for which paths are followed at most to see where they end."""
        known = self.config.patience * self.file.footprints.longest
        return round(min(known, self.config.longest_s / self.file.model.dt_s))

    def _hour(self, stamp_ns: int, what_if_hour: float | None) -> float:
        if what_if_hour is not None:
            if not 0.0 <= what_if_hour <= 24.0:
                raise UsageError(f"expected an hour from 0 to 24, got {what_if_hour}")
            return float(what_if_hour)
        return float(hours_of_day(np.array([stamp_ns]), self.file.time_zone)[0])

    def _walkers(
        self, starts: Array, posterior: Posterior | None, shares: Array, free: float, rng: np.random.Generator
    ) -> Walkers:
        if posterior is not None:
            return posterior.draw(starts, rng)
        state = np.append(free, (1.0 - free) * shares)
        component = rng.choice(len(state), size=len(starts), p=state / state.sum())
        return fresh_walkers(self.file.model, starts, component)

    def _sample(
        self, walkers: Walkers, hour: float, day: int, horizon_s: float, rng: np.random.Generator
    ) -> SampledWalks:
        """Paths until everyone has arrived; those through walls are drawn again."""
        model = self.file.model
        ticks = int(np.ceil(horizon_s / model.dt_s - 1e-9))
        more = max(0, self._longest - ticks)
        everyone = np.arange(len(walkers.xy))
        walks = sample_walks(model, walkers.some(everyone), hour, day, ticks, more, rng)
        if self._walls is None:
            return walks
        inside = self._crossed(np.repeat(walkers.xy[:, None], 2, axis=1))
        again = np.flatnonzero(self._crossed(walks.xy) & ~inside)
        for _ in range(self.config.wall_redraws):  # a start inside of a wall cannot be helped
            if not len(again):
                break
            anew = sample_walks(model, walkers.some(again), hour, day, ticks, more, rng)
            walks = _replaced(walks, again, anew)
            again = again[self._crossed(anew.xy)]
        return walks

    def _crossed(self, paths: Array) -> NDArray[np.bool_]:
        """Which paths (S, K, 2), relative to the model's origin, pass through a wall."""
        if self._walls is None:
            return np.zeros(len(paths), dtype=np.bool_)
        return self._walls.crossed_by(paths + self.file.model.origin)

    def _until(self, walks: SampledWalks, horizon_s: float) -> tuple[Array, Array]:
        """Times (K,) and paths (S, K, 2) up to the horizon, which is one of the times."""
        dt_s = self.file.model.dt_s
        whole = int(np.floor(horizon_s / dt_s + 1e-9))
        times: Array = dt_s * np.arange(whole + 1, dtype=float)
        paths = walks.xy[:, : whole + 1]
        rest = horizon_s / dt_s - whole
        if rest <= 1e-9:
            return times, paths
        last = walks.xy[:, whole] * (1.0 - rest) + walks.xy[:, whole + 1] * rest
        return np.append(times, float(horizon_s)), np.concatenate([paths, last[:, None]], axis=1)

    def _shares(self, endpoint: NDArray[np.int64]) -> dict[str, float]:
        """Share of the paths that end in each place; all places are named, also those nobody goes to."""
        shares = {name: float((endpoint == i).mean()) for i, name in enumerate(self.places.names)}
        return {**shares, self.config.elsewhere: float((endpoint < 0).mean())}


def _check(start: ArrayLike, horizon_s: float, samples: int) -> Array:
    here = np.asarray(start, dtype=float).reshape(-1)[:2]
    if here.shape != (2,) or not np.isfinite(here).all():
        raise DataError(f"expected a finite start (x, y), got {start!r}")
    if not 0.0 < horizon_s < np.inf:
        raise DataError(f"expected a horizon above 0 s, got {horizon_s}")
    if samples < 1:
        raise DataError(f"expected at least one sample, got {samples}")
    return here


def _starts(here: Array, covariance: ArrayLike | None, samples: int, rng: np.random.Generator) -> Array:
    """Where they may be (S, 2)."""
    if covariance is None:
        return np.tile(here, (samples, 1))
    spread = np.asarray(covariance, dtype=float)
    if spread.shape not in ((2, 2), (3, 3)) or not np.isfinite(spread).all():
        raise DataError(f"expected a finite covariance (2, 2) or (3, 3), got shape {spread.shape}")
    values, axes = np.linalg.eigh(0.5 * (spread[:2, :2] + spread[:2, :2].T))
    if values.min() < -1e-9:
        raise DataError(f"expected a covariance without negative variances, got {values.min():.3g}")
    offsets = rng.standard_normal((samples, 2)) * np.sqrt(values.clip(min=0.0))
    return np.asarray(here + offsets @ axes.T)


def _replaced(walks: SampledWalks, rows: NDArray[np.int64], anew: SampledWalks) -> SampledWalks:
    def merged(name: str) -> Any:
        values = getattr(walks, name).copy()
        values[rows] = getattr(anew, name)
        return values

    return SampledWalks(*(merged(f.name) for f in fields(SampledWalks)))
