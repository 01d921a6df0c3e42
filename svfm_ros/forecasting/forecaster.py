"""Where will they go from here, at this hour, and how sure are we?

``Forecaster.forecast`` reads like a table of contents: where they may be (the pose is uncertain), what they may have in
mind (the walk so far, or the gate), paths, walls, where the paths end. Plain numpy comes out.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.clock import NS_PER_S, hours_of_day
from svfm_ros.config.forecast_config import ForecastConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.forecasting.posterior import Belief, Hidden, SeenSteps, on_ticks, weigh
from svfm_ros.forecasting.sampler import PathSampler, SampledWalks
from svfm_ros.forecasting.scores import entropy
from svfm_ros.forecasting.table_file import ForecastFile, open_model
from svfm_ros.forecasting.tabled_model import TabledModel, see_in_table
from svfm_ros.forecasting.walls import Walls
from svfm_ros.types import Forecast, OccupancyGrid, Places, Pose2, Walk

if TYPE_CHECKING:  # a model that is kept as tables does not need torch
    from svfm_ros.forecasting.model_file import WalkModelFile

__all__ = ["Forecaster"]

Array = NDArray[np.float64]


class Forecaster:
    """One model, the places of one house and, if there is one, its map; asked as often as you like."""

    def __init__(
        self,
        model: "WalkModelFile | ForecastFile | Path | str",
        places: Places | None = None,
        config: ForecastConfig | None = None,
        walls: OccupancyGrid | None = None,
    ) -> None:
        """Load what is needed once; ``walls`` is the map in the frame of the walks."""
        self.file = open_model(Path(model)) if isinstance(model, Path | str) else model
        self.config = config or ForecastConfig()
        if self.file.frame != self.config.frame:
            raise UsageError(f"expected a model in the frame {self.config.frame!r}, got {self.file.frame!r}")
        self.places = places or Places()
        self.model_id = self.file.model_id
        tabled, self._see_steps = _looked_up(self.file)
        self._sampler = PathSampler(tabled)
        self._seen: tuple[Walk, SeenSteps | None] | None = None
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

        ``covariance`` (2, 2) or (3, 3) is that of the pose. ``walk_so_far`` ends at the start; it says what the walker
        may have in mind. ``what_if_hour`` asks the same at another local hour.
        """
        config = self.config
        horizon_s = config.horizon_s if horizon_s is None else float(horizon_s)
        samples = config.samples if samples is None else int(samples)
        rng = np.random.default_rng(config.seed if seed is None else seed)
        here = _check(start, horizon_s, samples)
        hour = self._hour(stamp_ns, what_if_hour)
        starts = _starts(here, covariance, samples, rng)
        hidden = self._in_mind(starts, hour, walk_so_far, rng)
        walks = self._walk(starts, hidden, hour, horizon_s, rng)
        times_s, paths = self._until(walks, horizon_s)
        endpoint = self.places.assign(walks.end_xy, config.place_reach_m)
        shares = self._shares(endpoint)
        away_m = np.hypot(*(self.file.footprints.xy - here).T)  # (M,)
        near = away_m <= config.neighbourhood_m
        return Forecast(
            stamp_ns=int(stamp_ns),
            frame=config.frame,
            times_s=times_s,
            samples_xy=paths,
            component=walks.component,
            shares=shares,
            entropy=entropy(shares),
            walks=len(np.unique(self.file.footprints.walk[near])),
            model_id=self.model_id,
            known=bool(away_m.min(initial=np.inf) <= config.known_radius_m),
            endpoint=endpoint,
        )

    def set_walls(self, walls: OccupancyGrid | None) -> None:
        """From now on another map, in the frame of the walks."""
        self._walls = None if walls is None else Walls.of(walls)

    @property
    def _longest(self) -> int:
        """Ticks for which paths are followed at most to see where they end."""
        known = self.config.patience * self.file.footprints.longest
        return round(min(known, self.config.longest_s / self.file.model.dt_s))

    def warm_up(self) -> Forecast:
        """Ask once, with all there is to ask, so that the first real answer is as quick as those that follow."""
        walls = self._walls
        here = self.file.footprints.xy[0].astype(float)
        steps = here + np.linspace(0.0, 1.0, 5)[:, None]  # (5, 2)
        stamps_ns = np.arange(5) * round(self.file.model.dt_s * NS_PER_S)
        walk = Walk("", "", stamps_ns, np.column_stack([steps, np.zeros(5)]))
        self._walls = Walls.of(OccupancyGrid(np.ones((2, 2), dtype=np.float32), 0.1, Pose2(here[0] + 0.5, here[1])))
        try:
            self.forecast(here, 0)
            return self.forecast(steps[-1], int(stamps_ns[-1]), covariance=0.01 * np.eye(2), walk_so_far=walk)
        finally:
            self._walls = walls

    def belief(self, walk_so_far: Walk, hour: float | None = None) -> Belief | None:
        """What the walk so far says; None where it is shorter than one step."""
        seen = self._see(walk_so_far)
        begun = self._hour(int(walk_so_far.stamps_ns[0]), hour)
        chain = self._sampler.chain
        return None if seen is None else weigh(seen, chain, begun, chain.trust)

    def _see(self, walk: Walk) -> SeenSteps | None:
        """What the walk's steps say; looked at once where the same walk is asked about at several hours."""
        if self._seen is None or self._seen[0] is not walk:
            xy = on_ticks(walk, self.file.model.dt_s)
            self._seen = (walk, self._see_steps(xy) if len(xy) > 1 else None)
        return self._seen[1]

    def _hour(self, stamp_ns: int, what_if_hour: float | None) -> float:
        if what_if_hour is not None:
            if not 0.0 <= what_if_hour <= 24.0:
                raise UsageError(f"expected an hour from 0 to 24, got {what_if_hour}")
            return float(what_if_hour)
        return float(hours_of_day(np.array([stamp_ns]), self.file.time_zone)[0])

    def _in_mind(self, starts: Array, hour: float, walk_so_far: Walk | None, rng: np.random.Generator) -> Hidden:
        belief = None if walk_so_far is None else self.belief(walk_so_far, hour)
        if belief is None:
            return self._sampler.draw_start(starts, hour, rng)
        return belief.draw(len(starts), rng)

    def _walk(
        self, starts: Array, hidden: Hidden, hour: float, horizon_s: float, rng: np.random.Generator
    ) -> SampledWalks:
        """Paths until everyone has arrived, with those through walls drawn anew."""
        dt_s = self.file.model.dt_s
        ticks = int(np.ceil(horizon_s / dt_s - 1e-9))
        more = max(0, self._longest - ticks) if self.file.model.config.ends else 0
        walks = self._sampler.sample(starts, hidden, hour, ticks, rng, more)
        if self._walls is None:
            return walks
        again = np.flatnonzero(self._walls.crossed_by(walks.xy) & ~self._walls.crossed_by(_standing(starts)))
        for _ in range(self.config.wall_redraws):  # none can help it whose start is inside of a wall
            if not len(again):
                break
            anew = self._sampler.sample(starts[again], _some(hidden, again), hour, ticks, rng, more)
            walks = _replaced(walks, again, anew)
            again = again[self._walls.crossed_by(anew.xy)]
        return walks

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


def _looked_up(file: "WalkModelFile | ForecastFile") -> tuple[TabledModel, Callable[[Array], SeenSteps]]:
    """The model as tables, and how the walk so far is seen: by the tables, or by networks that are on a GPU."""
    if isinstance(file, ForecastFile):
        return file.model, partial(see_in_table, file.model)
    from svfm_ros.forecasting.step_evidence import see_steps
    from svfm_ros.forecasting.tabulate import tabulate

    tabled = tabulate(file.model)
    on_gpu = file.model.shift.device.type != "cpu"
    return tabled, partial(see_steps, file.model) if on_gpu else partial(see_in_table, tabled)


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


def _standing(starts: Array) -> Array:
    """Paths (S, 2, 2) of those who stay where they are (S, 2)."""
    return np.repeat(starts[:, None], 2, axis=1)


def _some(hidden: Hidden, rows: NDArray[np.int64]) -> Hidden:
    return Hidden(
        hidden.component[rows],
        hidden.pace[rows],
        hidden.eps_v[rows],
        hidden.eps_u[rows],
        hidden.pausing[rows],
        hidden.step,
    )


def _replaced(walks: SampledWalks, rows: NDArray[np.int64], anew: SampledWalks) -> SampledWalks:
    def merged(name: str) -> Any:
        values = getattr(walks, name).copy()
        values[rows] = getattr(anew, name)
        return values

    return SampledWalks(*(merged(f.name) for f in fields(SampledWalks)))
