"""Forecasts: where someone is likely to go from here, at this hour, and how sure that is.

``Forecaster.forecast`` takes these steps: possible positions (the pose is uncertain), the posterior of what the walker
follows (from the walk so far, or from the habits), sampled paths, walls, where the paths end. Plain numpy comes out.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.clock import NS_PER_S, days_of, hours_of_day
from svfm_ros.config.forecast_config import ForecastConfig
from svfm_ros.errors import DataError, UsageError
from svfm_ros.forecasting.batched.device_choice import faster, gpu_count, pick_device
from svfm_ros.forecasting.batched.question import ForecastSize, SeenWalk, WalkerQuestion, covariance_factor
from svfm_ros.forecasting.model_file import WalkModelFile, load_walk_model
from svfm_ros.forecasting.posterior import Posterior, filter_walk, on_ticks, start_probabilities
from svfm_ros.forecasting.sampler import SampledWalks, fresh_walkers, sample_walks
from svfm_ros.forecasting.scores import entropy
from svfm_ros.forecasting.walls import Walls
from svfm_ros.types import Forecast, OccupancyGrid, Places, Pose2, Walk

if TYPE_CHECKING:
    from svfm_ros.forecasting.batched.many_walkers import BatchedModel

__all__ = ["Forecaster"]

Array = NDArray[np.float64]

_TRIAL_WALKERS = 100  # for which ``auto`` measures many forecasts at once


class Forecaster:
    """One model, the places of one house and, if there is one, its map."""

    def __init__(
        self,
        model: WalkModelFile | Path | str,
        places: Places | None = None,
        config: ForecastConfig | None = None,
        walls: OccupancyGrid | None = None,
        resident: str | None = None,
        device: str = "cpu",
    ) -> None:
        """Load what is needed once; ``walls`` is the map in the frame of the walks.

        If the model has habits of ``resident``, these are used, otherwise those of the home. ``device`` is
        ``cpu`` (compiled code), ``cuda`` or ``cuda:N`` (torch), ``auto`` (whichever is faster, measured now, for one
        forecast and for many), or ``torch``, the GPU's code on the CPU, to compare.
        """
        file = load_walk_model(Path(model)) if isinstance(model, Path | str) else model
        self.resident = resident if resident in file.residents.names else None
        self.model_id = file.model_id
        self.file = file if self.resident is None else file.of_resident(self.resident)
        self.config = config or ForecastConfig()
        if self.file.frame != self.config.frame:
            raise UsageError(f"expected a model in the frame {self.config.frame!r}, got {self.file.frame!r}")
        self.places = places or Places()
        self._row_hour = hours_of_day(self.file.footprints.start_ns, self.file.time_zone)
        self._walls = None if walls is None else Walls.of(walls)
        self._batched_one: BatchedModel | None = None
        self._batched_many: BatchedModel | None = None
        self._choose_device(device)

    def _choose_device(self, name: str) -> None:
        if name == "cpu" or (name == "auto" and not gpu_count()):
            return
        from svfm_ros.forecasting.batched.many_walkers import BatchedModel  # imports torch, which takes seconds

        device = "cpu" if name == "torch" else pick_device(name)
        if name == "auto" and device == "cpu":  # a driver, but a torch without CUDA
            return
        self._batched_one = self._batched_many = BatchedModel(self.file.model, device)
        if name == "auto":
            choices = (None, self._batched_one)
            self._batched_one, self._batched_many = faster(choices, self._try_one), faster(choices, self._try_many)

    def _try_one(self, batched: "BatchedModel | None") -> None:
        self._batched_one = batched
        self.warm_up()

    def _try_many(self, batched: "BatchedModel | None") -> None:
        self._batched_many = batched
        self.forecast_many(np.tile(self.file.footprints.xy[0], (_TRIAL_WALKERS, 1)), [0] * _TRIAL_WALKERS)

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
        fields follows from it. ``what_if_hour`` replaces the local hour.
        """
        asked = self._asked(horizon_s, samples, seed)
        question = self._question(start, stamp_ns, covariance, walk_so_far, what_if_hour)
        if self._batched_one is not None:
            return self._answer_batched(self._batched_one, [question], asked)[0]
        return self._answer(question, asked, np.random.default_rng(asked.seed))

    def forecast_many(
        self,
        starts: Sequence[ArrayLike] | Array,
        stamps_ns: Sequence[int],
        *,
        covariances: Sequence[ArrayLike | None] | None = None,
        walks_so_far: Sequence[Walk | None] | None = None,
        what_if_hour: float | None = None,
        horizon_s: float | None = None,
        samples: int | None = None,
        seed: int | None = None,
    ) -> list[Forecast]:
        """Forecasts of B walkers from starts (B, 2) in metres at Unix times (B,), each as ``forecast`` makes it.

        On a GPU they are computed together.
        """
        asked = self._asked(horizon_s, samples, seed)
        count = len(stamps_ns)
        spreads = [None] * count if covariances is None else covariances
        walks = [None] * count if walks_so_far is None else walks_so_far
        counts = [len(starts), count, len(spreads), len(walks)]
        if len(set(counts)) > 1:
            raise DataError(f"expected as many starts, stamps, covariances and walks so far, got {counts}")
        walkers = zip(starts, stamps_ns, spreads, walks, strict=True)
        questions = [self._question(*walker, what_if_hour) for walker in walkers]
        if self._batched_many is None:
            streams = np.random.SeedSequence(asked.seed).spawn(count)
            pairs = zip(questions, streams, strict=True)
            return [self._answer(q, asked, np.random.default_rng(stream)) for q, stream in pairs]
        at_once = max(1, self._batched_many.most_rows // asked.samples)
        found: list[Forecast] = []
        for first in range(0, count, at_once):
            part = questions[first : first + at_once]
            found += self._answer_batched(self._batched_many, part, replace(asked, seed=asked.seed + first))
        return found

    @property
    def devices(self) -> tuple[str, str]:
        """Where one forecast and where many at once are computed: ``cpu`` (compiled) or the name of a GPU."""
        one, many = (None if b is None else str(b.device) for b in (self._batched_one, self._batched_many))
        return one or "cpu", many or "cpu"

    def _asked(self, horizon_s: float | None, samples: int | None, seed: int | None) -> ForecastSize:
        config = self.config
        asked = ForecastSize(
            config.horizon_s if horizon_s is None else float(horizon_s),
            config.samples if samples is None else int(samples),
            config.seed if seed is None else int(seed),
        )
        if not 0.0 < asked.horizon_s < np.inf:
            raise DataError(f"expected a horizon above 0 s, got {horizon_s}")
        if asked.samples < 1:
            raise DataError(f"expected at least one sample, got {samples}")
        return asked

    def _question(
        self,
        start: ArrayLike,
        stamp_ns: int,
        covariance: ArrayLike | None,
        walk_so_far: Walk | None,
        what_if_hour: float | None,
    ) -> WalkerQuestion:
        here = np.asarray(start, dtype=float).reshape(-1)[:2]
        if here.shape != (2,) or not np.isfinite(here).all():
            raise DataError(f"expected a finite start (x, y), got {start!r}")
        day = int(days_of([stamp_ns], self.file.time_zone)[0])
        hour = self._hour(stamp_ns, what_if_hour)
        return WalkerQuestion(here, int(stamp_ns), hour, day, covariance_factor(covariance), walk_so_far, what_if_hour)

    def _answer(self, q: WalkerQuestion, asked: ForecastSize, rng: np.random.Generator) -> Forecast:
        """One forecast by the compiled sampler."""
        model = self.file.model
        starts = q.starts(asked.samples, rng) - model.origin
        posterior = None if q.walk_so_far is None else self.posterior(q.walk_so_far, q.what_if_hour)
        start = start_probabilities(model, q.here, q.hour, q.day)
        walkers = fresh_walkers(starts, start, rng) if posterior is None else posterior.draw(starts, rng)
        ticks, more = self._ticks(asked.horizon_s)

        def draw(rows: NDArray[np.int64]) -> SampledWalks:
            return sample_walks(model, walkers.some(rows), q.hour, q.day, ticks, more, rng)

        unfamiliar = float(start[0]) if posterior is None else posterior.unfamiliar
        return self._forecast_of(q, self._sample(draw, asked.samples), asked, unfamiliar)

    def _answer_batched(
        self, batched: "BatchedModel", questions: list[WalkerQuestion], asked: ForecastSize
    ) -> list[Forecast]:
        """Forecasts of all questions at once, on a device."""
        origin = self.file.model.origin
        begun = [self._begun(q) for q in questions]
        batched.seed(asked.seed)
        then = batched.habits_at([b.hour for b in begun], [b.day for b in begun])
        posterior = batched.filter_walks([(b.xy - origin, b.variance) for b in begun], then)
        here = np.stack([q.here for q in questions]) - origin
        factors = np.stack([np.zeros((2, 2)) if q.factor is None else q.factor for q in questions])
        walkers = batched.walkers(posterior, here, factors, asked.samples)
        now = batched.habits_at([q.hour for q in questions], [q.day for q in questions])
        ticks, more = self._ticks(asked.horizon_s)

        def draw(rows: NDArray[np.int64]) -> SampledWalks:
            return batched.sample(walkers.some(batched.put_whole(rows)), now, ticks, more)

        walks = self._sample(draw, len(questions) * asked.samples)
        free = (posterior.state[:, 0] + posterior.state[:, -1]).tolist()
        parts = [slice(i * asked.samples, (i + 1) * asked.samples) for i in range(len(questions))]
        return [
            self._forecast_of(q, walks.some(part), asked, unfamiliar)
            for q, part, unfamiliar in zip(questions, parts, free, strict=True)
        ]

    def _begun(self, q: WalkerQuestion) -> SeenWalk:
        """The walk so far on ticks, and when it began; without one of at least a tick, just the start, now."""
        if q.walk_so_far is not None:
            xy, variance = on_ticks(q.walk_so_far, self.file.model.dt_s)
            if len(xy) > 1:
                begun_ns = int(q.walk_so_far.stamps_ns[0])
                day = int(days_of([begun_ns], self.file.time_zone)[0])
                return SeenWalk(xy, variance, self._hour(begun_ns, q.what_if_hour), day)
        return SeenWalk(q.here[None], np.zeros(1), q.hour, q.day)

    def _forecast_of(self, q: WalkerQuestion, walks: SampledWalks, asked: ForecastSize, unfamiliar: float) -> Forecast:
        """What is known about sampled paths: their endpoints, shares, and the walks that they rest on."""
        config, model = self.config, self.file.model
        times_s, paths = self._until(walks, asked.horizon_s)
        endpoint = self.places.assign(walks.end_xy + model.origin, config.place_reach_m)
        found = self._shares(endpoint)
        apart_h = np.abs(self._row_hour - q.hour)
        same_time = np.minimum(apart_h, 24.0 - apart_h) <= config.about_h
        near, nearest_m = self.file.footprints.walks_near(q.here, config.neighbourhood_m, same_time)
        begun = q.here if q.walk_so_far is None else q.walk_so_far.xy[0]
        habit_walks = model.habits.walks_at(np.asarray(begun) - model.origin, q.hour, q.day)
        known = nearest_m <= config.known_radius_m and habit_walks >= config.known_walks
        return Forecast(
            stamp_ns=q.stamp_ns,
            frame=config.frame,
            times_s=times_s,
            samples_xy=paths + model.origin,
            component=walks.component - 1,
            shares=found,
            entropy=entropy(found) if known else None,
            walks=near,
            model_id=self.model_id,
            resident=self.resident,
            known=bool(known),
            endpoint=endpoint,
            unfamiliar=unfamiliar,
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
        """The posterior after the walk so far; None where it is shorter than one step."""
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

    def _ticks(self, horizon_s: float) -> tuple[int, int]:
        """Steps up to the horizon, and steps after it in which paths are followed to their end."""
        ticks = int(np.ceil(horizon_s / self.file.model.dt_s - 1e-9))
        return ticks, max(0, self._longest - ticks)

    def _sample(self, draw: Callable[[NDArray[np.int64]], SampledWalks], rows: int) -> SampledWalks:
        """Paths until everyone has arrived; those through walls are drawn again."""
        walks = draw(np.arange(rows))
        if self._walls is None:
            return walks
        inside = self._crossed(np.repeat(walks.xy[:, :1], 2, axis=1))
        again = np.flatnonzero(self._crossed(walks.xy) & ~inside)
        for _ in range(self.config.wall_redraws):  # a start inside of a wall cannot be helped
            if not len(again):
                break
            anew = draw(again)
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


def _replaced(walks: SampledWalks, rows: NDArray[np.int64], anew: SampledWalks) -> SampledWalks:
    def merged(name: str) -> Any:
        values = getattr(walks, name).copy()
        values[rows] = getattr(anew, name)
        return values

    return SampledWalks(*(merged(f.name) for f in fields(SampledWalks)))
