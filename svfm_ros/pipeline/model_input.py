"""A model as commands take it: its file, places with names if someone gave them, and the map whose walls count."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svfm_ros.config.forecast_config import ForecastConfig
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_file import WalkModelFile
    from svfm_ros.forecasting.table_file import ForecastFile
    from svfm_ros.types import OccupancyGrid

__all__ = ["forecaster_of", "open_forecaster"]


def open_forecaster(
    model: Path, config: "ForecastConfig", places: Path | None = None, grid: "OccupancyGrid | None" = None
) -> "Forecaster":
    """By the model's tables, which are there seconds before its networks would be."""
    from svfm_ros.forecasting.table_file import open_model

    return forecaster_of(open_model(model), config, places, grid)


def forecaster_of(
    file: "ForecastFile | WalkModelFile",
    config: "ForecastConfig",
    places: Path | None = None,
    grid: "OccupancyGrid | None" = None,
) -> "Forecaster":
    """Asks in the model's own frame; without a file of places, those that travel with the model."""
    from svfm_ros.forecasting.forecaster import Forecaster
    from svfm_ros.forecasting.model_places import places_from
    from svfm_ros.walks.places import load_places

    known = load_places(places) if places else places_from(file.metrics)
    return Forecaster(file, known, replace(config, frame=file.frame), grid)
