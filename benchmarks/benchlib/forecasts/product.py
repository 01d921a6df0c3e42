"""The product as a forecaster of the benchmarks: what training gives and what ``Forecaster`` answers, nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from benchlib.forecasts.questions import Question
from svfm_ros.config.forecast_config import ForecastConfig, WalkModelConfig, WalkTrainConfig
from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.errors import DataError
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.forecasting.free_walker import FreeWalkerPrior
from svfm_ros.forecasting.habits import Habits
from svfm_ros.forecasting.model_file import WalkModelFile
from svfm_ros.forecasting.walk_model import WalkModel
from svfm_ros.pipeline.learn import LearnConfig, learn, nll_per_step
from svfm_ros.types import Forecast, Places, Walk, WalkWindows

__all__ = ["Product", "ProductOptions", "as_walks", "home_options", "train_product"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ProductOptions:
    """Options of training that a user has."""

    windows: WindowsConfig = field(default_factory=WindowsConfig)
    model: WalkModelConfig = field(default_factory=WalkModelConfig)
    training: WalkTrainConfig = field(default_factory=WalkTrainConfig)
    prior: FreeWalkerPrior | None = None  # the population's free walker; None: the one of the package

    def on(self, windows: WalkWindows) -> "ProductOptions":
        """The same on the time step and in the time zone of these walks."""
        return replace(self, windows=replace(self.windows, dt_s=windows.dt_s, time_zone=windows.time_zone))


def home_options() -> ProductOptions:
    """Options for walks of a resident: the defaults."""
    return ProductOptions()


def train_product(walks: Sequence[Walk], options: ProductOptions, start: WalkModelFile | None = None) -> WalkModelFile:
    """Train on these walks, going on from ``start`` if given: the one way in which the benchmarks get a model."""
    config = LearnConfig(options.windows, options.model, options.training)
    return learn(walks, config, go_on_from=start, prior=options.prior).file


def as_walks(windows: WalkWindows) -> list[Walk]:
    """The rows as walks; rows of the same walk get numbers."""
    walks, seen = [], dict[str, int]()
    for n, name in enumerate(windows.walk_ids):
        count = int(windows.lengths[n])
        seen[name] = seen.get(name, 0) + 1
        label = name if seen[name] == 1 else f"{name}, part {seen[name]}"
        walks.append(_walk(windows.xy[n, :count], int(windows.start_ns[n]), windows.dt_s, label, windows.residents[n]))
    return walks


def _walk(xy: Array, start_ns: int, dt_s: float, name: str, resident: str) -> Walk:
    stamps = start_ns + np.round(np.arange(len(xy)) * dt_s * 1e9).astype(np.int64)
    return Walk(name, resident, stamps, np.column_stack([xy, np.zeros(len(xy))]))


@dataclass(slots=True)
class Product:
    """Ours: trained by ``train_product``, forecast by ``Forecaster``."""

    name: str = "svfm_ros (ours)"
    options: ProductOptions = field(default_factory=ProductOptions)
    forecast: ForecastConfig = field(default_factory=ForecastConfig)
    places: Places | None = None
    _forecaster: Forecaster | None = None

    def fit(self, walks: WalkWindows) -> None:
        """Train on the rows as walks, on their own time step and in their time zone."""
        self.use(train_product(as_walks(walks), self.options.on(walks)))

    def use(self, file: WalkModelFile) -> None:
        """Forecast by a model that is trained already."""
        self._forecaster = Forecaster(file, self.places, self.forecast)

    def habits_alone(self) -> "Product":
        """The same model without its free walker."""
        habits = replace(self._model.habits, free=np.zeros_like(self._model.habits.free), base_free=0.0)
        return self._part("habits alone", habits, leave=0.0, slip=0.0)

    def free_walker_alone(self) -> "Product":
        """The free walker of the same model, which knows nothing of the place."""
        all_free = 1.0 - 1e-9
        habits = replace(self._model.habits, free=np.full_like(self._model.habits.free, all_free), base_free=all_free)
        return self._part("free walker alone", habits, join=0.0)

    @property
    def _model(self) -> WalkModel:
        return self.forecaster.file.model

    def _part(self, name: str, habits: Habits, **rates: float) -> "Product":
        model = replace(self._model, habits=habits, switches=replace(self._model.switches, **rates))
        part = Product(name, self.options, self.forecast, self.places)
        part.use(replace(self.forecaster.file, model=model))
        return part

    @property
    def forecaster(self) -> Forecaster:
        """The product's own forecaster."""
        if self._forecaster is None:
            raise DataError("expected fit before use")
        return self._forecaster

    def ask(self, question: Question) -> Forecast:
        """The product's whole answer."""
        begun_ns = question.stamp_ns - round((len(question.seen) - 1) * question.dt_s * 1e9)
        so_far = _walk(question.seen, begun_ns, question.dt_s, "so far", "resident")
        return self.forecaster.forecast(
            question.seen[-1],
            question.stamp_ns,
            walk_so_far=so_far if len(question.seen) > 1 else None,
            horizon_s=question.ticks * question.dt_s,
            samples=question.samples,
            seed=question.seed,
        )

    def sample(self, question: Question) -> Array:
        """The sampled paths of the answer."""
        return self.ask(question).samples_xy

    def step_nll(self, walks: WalkWindows) -> Array:
        """Minus the log density of each walk's steps given those before, nats per step ``(N,)``."""
        file = self.forecaster.file
        return np.array([nll_per_step(file, as_walks(walks.select([n]))) for n in range(len(walks))])
