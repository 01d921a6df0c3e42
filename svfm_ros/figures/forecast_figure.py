"""Pictures of forecasts: sampled paths in the colour of the place they end at, places with name and probability.

And the calibration plot: how often true positions fall into the regions of forecasts, on the diagonal for good ones.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray

from svfm_ros.figures.map_figure import save_picture, show_grid
from svfm_ros.types import Forecast, OccupancyGrid, Places
from svfm_ros.wording import counted, percent, readable, unknown, with_share

__all__ = ["draw_calibration", "draw_forecasts", "forecast_figure"]

_ELSEWHERE_RGB = (0.35, 0.35, 0.35)
_WALKER = "#146e3c"
_LEAST_SHARE, _LIKELY = 0.01, 0.5
_STRAY = 0.005  # of the positions, on either side
_MARGIN_M = 0.6  # of floor around paths and places, where no map is known
_PANEL_IN, _LEAST_IN = 7.0, 4.5  # longest and shortest side of the floor in the picture
_TITLES_IN, _AXIS_IN = 1.0, 0.8  # above and beside the floor
_BELOW_M = 0.2  # from the rim of a place to its name, where the walker stands inside
_BLUE, _GREY = "#0072b2", "#888888"  # of the calibration plot
_WHITE = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
_TOLERANCE = 0.05  # half the width of its grey band

Bounds = tuple[float, float, float, float]  # x0, x1, y0, y1 in metres


def draw_forecasts(
    path: Path,
    grid: OccupancyGrid | None,
    forecasts: Sequence[Forecast],
    places: Places,
    titles: Sequence[str],
) -> None:
    """Write forecasts side by side, each below its title, to the PNG file ``path``; walls where a map is given."""
    figure = forecast_figure(grid, forecasts, places, titles)
    save_picture(figure, path, bbox_inches="tight", pad_inches=0.15)  # whole titles, however long


def forecast_figure(
    grid: OccupancyGrid | None, forecasts: Sequence[Forecast], places: Places, titles: Sequence[str]
) -> Figure:
    """The picture that ``draw_forecasts`` writes."""
    bounds = _bounds(forecasts, places) if grid is None else None
    width, height = _panel_size(grid, bounds)
    figure = Figure(figsize=((width + _AXIS_IN) * len(forecasts), height + _TITLES_IN), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(forecasts), squeeze=False)[0]
    for axes, forecast, title in zip(panels, forecasts, titles, strict=True):
        _floor(axes, grid, bounds)
        _panel(axes, forecast, places, title)
    return figure


def _bounds(forecasts: Sequence[Forecast], places: Places) -> Bounds:
    """The floor that places and nearly all paths cover: one path of hundreds that strays must not shrink the rest."""
    paths = np.quantile(
        np.concatenate([f.samples_xy.reshape(-1, 2) for f in forecasts]), [_STRAY, 1.0 - _STRAY], axis=0
    )
    discs = [p.xy + sign * p.radius_m for p in places for sign in (-1.0, 1.0)]
    points = np.concatenate([np.reshape(discs, (-1, 2)), paths])
    (x0, y0), (x1, y1) = points.min(axis=0) - _MARGIN_M, points.max(axis=0) + _MARGIN_M
    return float(x0), float(x1), float(y0), float(y1)


def _panel_size(grid: OccupancyGrid | None, bounds: Bounds | None) -> tuple[float, float]:
    """Width and height of one floor in inches, in the proportions of the house."""
    if bounds is not None:
        size = np.array([bounds[1] - bounds[0], bounds[3] - bounds[2]])
    else:
        assert grid is not None
        size = np.array(grid.prob.shape[::-1], dtype=float)
    width, height = np.maximum(_PANEL_IN * size / size.max(), _LEAST_IN).tolist()
    return width, height


def _floor(axes: Any, grid: OccupancyGrid | None, bounds: Bounds | None) -> None:
    if grid is not None:
        show_grid(axes, grid)
    elif bounds is not None:
        axes.set(xlim=bounds[:2], ylim=bounds[2:], xlabel="x (m)", ylabel="y (m)", aspect="equal")
        axes.grid(color="#e8e8e8", zorder=0)


def _panel(axes: Any, forecast: Forecast, places: Places, title: str) -> None:
    if forecast.known:
        ends = forecast.ends_in(places)
        _paths(axes, forecast, places, ends)
    _endpoints(axes, forecast, places)
    axes.plot(*forecast.samples_xy[:, 0].mean(axis=0), "o", color=_WALKER, ms=9, zorder=6)
    axes.set_title(f"{title}\n{_summary(forecast)}", fontsize=11)


def _summary(forecast: Forecast) -> str:
    """The most likely place in words, two where none is likely, and the number of walks the forecast rests on."""
    if not forecast.known:
        return unknown(forecast.reason)
    likely = sorted(forecast.shares.items(), key=lambda one: -one[1])
    named = [f"{readable(name)} ({percent(share)})" for name, share in likely[:2]]
    said = f"most likely {named[0]}" if likely[0][1] >= _LIKELY else f"undecided: {' or '.join(named)}"
    return f"{said}, from {counted(forecast.walks, 'walk')}"


def _paths(axes: Any, forecast: Forecast, places: Places, ends: NDArray[np.int64]) -> None:
    """All paths in a mixed order, so that no place hides the others where the ways are shared."""
    colours = np.empty((len(ends), 4))
    for place in np.unique(ends).tolist():
        rgb = places.places[place].rgb if place >= 0 else _ELSEWHERE_RGB
        colours[ends == place] = (*rgb, 0.15 + 0.5 * float(np.mean(ends == place)))
    order = np.random.default_rng(0).permutation(len(ends))
    axes.add_collection(
        LineCollection(list(forecast.samples_xy[order]), colors=colours[order], linewidths=1.2, zorder=3)
    )


def _endpoints(axes: Any, forecast: Forecast, places: Places) -> None:
    """Every place by name; those that are likely with their probability and in full colour."""
    walker = forecast.samples_xy[:, 0].mean(axis=0)
    for place in places:
        share = forecast.shares.get(place.name, 0.0) if forecast.known else 0.0
        likely = share >= _LEAST_SHARE
        disc = Circle((place.x, place.y), place.radius_m, color=(*place.rgb, 0.08 + 0.3 * share), zorder=4, lw=0)
        axes.add_patch(disc)
        label = with_share(place.name, share) if likely else readable(place.name)
        box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        ink = "black" if likely else "#777777"
        inside = np.hypot(*(walker - place.xy)) <= place.radius_m
        y = place.y - (place.radius_m + _BELOW_M if inside else 0.0)
        axes.text(place.x, y, label, ha="center", va="center", fontsize=10, color=ink, zorder=5, bbox=box)


def draw_calibration(path: Path, levels: ArrayLike, title: str = "") -> None:
    """Write the plot for the levels that ``region_levels`` returns, of all walks and times together, to ``path``."""
    values = np.sort(np.asarray(levels, dtype=float).ravel())
    regions = np.linspace(0.0, 1.0, 101)
    held = np.searchsorted(values, regions, side="right") / len(values)
    figure = Figure(figsize=(5.5, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.fill_between(regions, regions - _TOLERANCE, regions + _TOLERANCE, color=_GREY, alpha=0.2, lw=0)
    axes.plot([0, 1], [0, 1], color=_GREY, lw=1)
    axes.plot(regions, held, color=_BLUE, lw=2)
    for region in (0.5, 0.9):
        share = float((values <= region).mean())
        axes.plot(region, share, "o", color=_BLUE, ms=7)
        said = f"{100.0 * share:.0f} % in the {100.0 * region:.0f} % region"
        axes.annotate(said, (region, share), (-8, 10), textcoords="offset points", ha="right", bbox=_WHITE)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.text(0.03, 0.95, "more careful than needed", color=_GREY, va="top")
    axes.text(0.97, 0.05, "too sure", color=_GREY, ha="right")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set_xlabel("probability that forecasts gave to a region")
    axes.set_ylabel("how often the person was really there")
    axes.set_title(title, fontsize=11)
    save_picture(figure, path)
