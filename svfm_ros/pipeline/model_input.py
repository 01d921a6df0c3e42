"""The model that a command is given: model file, named places, and a map with walls."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.types import OccupancyGrid, Places

__all__ = ["forecaster_of", "open_forecaster"]


def open_forecaster(
    model: Path,
    config: "ForecastConfig",
    places: Path | None = None,
    grid: "OccupancyGrid | None" = None,
    resident: str | None = None,
) -> "Forecaster":
    """The forecaster of a model's file, for one resident if given."""
    from svfm_ros.forecasting.model_file import load_walk_model
    from svfm_ros.walks.places import load_places

    named = load_places(places) if places else None
    return forecaster_of(load_walk_model(model), config, named, grid, resident)


def forecaster_of(
    file: "WalkModelFile",
    config: "ForecastConfig",
    places: "Places | None" = None,
    grid: "OccupancyGrid | None" = None,
    resident: str | None = None,
    device: str = "cpu",
) -> "Forecaster":
    """A forecaster in the model's own frame; without given places, with those that the model's file holds.

    Those that nobody has named are called by where they lie on the map ``grid``, if there is one.
    """
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import places_from
    from svfm_ros.walks.place_names import named_by_plan

    known = places_from(file.metrics) if places is None else places
    if places is None and grid is not None:
        known = named_by_plan(known, grid)
    return Forecaster(file, known, replace(config, frame=file.frame), grid, resident, device)
