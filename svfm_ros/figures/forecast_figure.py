"""A forecast on the map, as RViz shows it: paths coloured by where they end, endpoints with names and percentages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from numpy.typing import NDArray

from svfm_ros.figures.map_figure import show_grid
from svfm_ros.types import Forecast, OccupancyGrid, Places

__all__ = ["draw_forecast", "draw_forecasts"]

_ELSEWHERE_RGB = (0.35, 0.35, 0.35)
_WALKER = "#146e3c"
_LEAST_SHARE = 0.01


def draw_forecast(
    path: Path, grid: OccupancyGrid, forecast: Forecast, places: Places, title: str = "", dpi: int = 130
) -> None:
    """Write the picture to ``path``."""
    draw_forecasts(path, grid, [forecast], places, [title], dpi)


def draw_forecasts(
    path: Path,
    grid: OccupancyGrid,
    forecasts: Sequence[Forecast],
    places: Places,
    titles: Sequence[str],
    dpi: int = 130,
) -> None:
    """Forecasts side by side, each under its title; written to ``path``."""
    figure = Figure(figsize=(8.0 * len(forecasts), 8.0), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(forecasts), squeeze=False)[0]
    for axes, forecast, title in zip(panels, forecasts, titles, strict=True):
        _panel(axes, grid, forecast, places, title)
    figure.savefig(path, dpi=dpi)


def _panel(axes: Any, grid: OccupancyGrid, forecast: Forecast, places: Places, title: str) -> None:
    show_grid(axes, grid)
    ends = forecast.endpoint if forecast.endpoint is not None else places.assign(forecast.samples_xy[:, -1])
    _paths(axes, forecast, places, ends)
    _endpoints(axes, forecast, places)
    axes.plot(*forecast.samples_xy[:, 0].mean(axis=0), "o", color=_WALKER, ms=9, zorder=6)
    text = f"{forecast.entropy:.2f} nats, {forecast.walks} walks" if forecast.known else "no walk came near here"
    axes.set_title(f"{title}\n{text}", fontsize=11)


def _paths(axes: Any, forecast: Forecast, places: Places, ends: NDArray[np.int64]) -> None:
    for place in np.unique(ends).tolist():
        mine = forecast.samples_xy[ends == place]
        opacity = 0.15 + 0.5 * len(mine) / len(ends)
        rgb = places.places[place].rgb if place >= 0 else _ELSEWHERE_RGB
        axes.add_collection(LineCollection(list(mine), colors=[(*rgb, opacity)], linewidths=1.2, zorder=3))


def _endpoints(axes: Any, forecast: Forecast, places: Places) -> None:
    for place in places:
        share = forecast.shares.get(place.name, 0.0)
        if share < _LEAST_SHARE:
            continue
        axes.add_patch(Circle((place.x, place.y), place.radius_m, color=(*place.rgb, 0.3), zorder=4))
        label = f"{place.name.replace('_', ' ')} {share:.0%}"
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        axes.text(*place.xy, label, ha="center", va="center", fontsize=10, zorder=5, bbox=box)
