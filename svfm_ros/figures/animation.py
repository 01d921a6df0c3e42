"""Film of a walk with its forecast at every moment, written as WebP or GIF.

The model did not learn from the walk. At every frame the forecast uses only the walk so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.sim_config import HabitConfig
from svfm_ros.errors import UsageError
from svfm_ros.figures.forecast_figure import forecast_figure
from svfm_ros.figures.front_pictures import HomeModel
from svfm_ros.figures.home_example import targets
from svfm_ros.figures.house_figure import draw_house
from svfm_ros.figures.map_figure import UNKNOWN_GREY
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.types import Forecast, OccupancyGrid, Places, Pose2, Walk
from svfm_ros.wording import percent, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

__all__ = ["Moment", "draw_moment", "film_moments", "unseen_walk", "write_film", "write_forecast_film"]

Array = NDArray[np.float64]

_SEED = 77  # of walks the model never saw
_FRAME_S = 0.2
_HOLD = 8  # frames that the end stays
_SAMPLES, _SHOWN = 400, 130
_SIZE_IN, _DPI = (9.2, 5.9), 92
_FILM_DPI = 80
_FILM_IN, _FILM_TITLE_IN = 7.0, 0.6  # height of the house and of the title above it
_RIM_M = 0.4  # around the known part of the map
_WALKED, _INK, _QUIET = "#22262e", "#22262e", "#6a7080"


@dataclass(frozen=True, slots=True)
class Moment:
    """One frame: the walk so far and the forecast from it."""

    elapsed_s: float
    walked: Array  # (T, 2)
    forecast: Forecast


def unseen_walk(home: HomeModel) -> Walk:
    """A walk to the study from which the model did not learn."""
    habits = HabitConfig(first_day="2026-11-23")
    found = simulate_protocol(home.house, seed=_SEED, repeats=1, habits=habits)
    return next(w.walk for w in found if w.destination == "study")


def film_moments(home: HomeModel, walk: Walk, frame_s: float = _FRAME_S) -> list[Moment]:
    """Forecasts along the walk, each from the walk so far."""
    moments = []
    for elapsed_s in np.arange(0.0, walk.times_s[-1] + frame_s, frame_s):
        seen = np.flatnonzero(walk.times_s <= elapsed_s + 1e-9)
        so_far = Walk(walk.walk_id, walk.resident, walk.stamps_ns[seen], walk.poses[seen])
        found = home.forecaster.forecast(
            so_far.xy[-1],
            int(so_far.stamps_ns[-1]),
            walk_so_far=so_far if len(seen) > 1 else None,
            horizon_s=max(0.8, float(walk.times_s[-1] - elapsed_s) * 1.6),
            samples=_SAMPLES,
            seed=0,
        )
        moments.append(Moment(float(min(elapsed_s, walk.times_s[-1])), so_far.xy, found))
    return moments


def draw_moment(home: HomeModel, moment: Moment) -> "Figure":
    """The house with the sampled paths; beside it the probabilities of places as bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_IN, dpi=_DPI)
    house, bars = figure.add_axes((0.0, 0.0, 0.68, 0.93)), figure.add_axes((0.72, 0.06, 0.25, 0.87))
    _draw_fan(house, home, moment)
    _draw_bars(bars, home, moment.forecast)
    house.set_title(f"{moment.elapsed_s:4.1f} s", fontsize=15, color=_INK, loc="left", x=0.04)
    return figure


def _draw_fan(axis: "Axes", home: HomeModel, moment: Moment) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    draw_house(axis, home.house)
    found, places = moment.forecast, home.house.places
    ends = found.ends_in(places)
    for place in targets(home.house):
        share = found.shares.get(place.name, 0.0)
        axis.add_patch(Circle((place.x, place.y), 0.5, color=place.colour, alpha=0.06 + 0.4 * share, zorder=2.6))
    chosen = np.flatnonzero(ends >= 0)[:_SHOWN]
    colours = [places.places[i].colour for i in ends[chosen].tolist()]
    lines = LineCollection(list(found.samples_xy[chosen]), colors=colours, linewidths=1.1, alpha=0.35, zorder=3)
    axis.add_collection(lines)
    axis.plot(*moment.walked.T, color=_WALKED, linewidth=3, solid_capstyle="round", zorder=5)
    axis.plot(*moment.walked[-1], "o", color=_WALKED, markeredgecolor="white", markeredgewidth=2, ms=13, zorder=6)


def _draw_bars(axis: "Axes", home: HomeModel, found: Forecast) -> None:
    places = targets(home.house)
    rows = np.arange(len(places))[::-1]
    shares = [found.shares.get(p.name, 0.0) for p in places]
    axis.barh(rows, [1.0] * len(places), height=0.42, color="#f0f0ee")
    axis.barh(rows, shares, height=0.42, color=[p.colour for p in places])
    for row, place, share in zip(rows, places, shares, strict=True):
        axis.text(0.0, row + 0.36, readable(place.name), color=_INK, fontsize=12, va="center")
        axis.text(1.0, row + 0.36, percent(share), color=place.colour, fontsize=13, va="center", ha="right")
    axis.text(
        0.0,
        -0.85,
        "entropy unknown" if found.entropy is None else f"entropy {found.entropy:.2f} nats",
        color=_QUIET,
        fontsize=11,
    )
    axis.set(xlim=(0, 1), ylim=(-1.3, len(places) - 0.2))
    axis.set_axis_off()
    axis.set_title("where to?", fontsize=15, color=_INK, loc="left")


def write_film(home: HomeModel, moments: list[Moment], path: Path) -> int:
    """Write all moments as a WebP or GIF that plays in real time in a loop; return its size in bytes."""
    if path.suffix not in (".webp", ".gif"):
        raise UsageError(f"expected a file that ends in .webp or .gif, got {path}")
    return _write_frames([_image(draw_moment(home, moment)) for moment in moments], path, _FRAME_S)


def write_forecast_film(
    path: Path, grid: OccupancyGrid, moments: Sequence[Moment], places: Places, title: str, frame_s: float, turn: float
) -> int:
    """Write forecasts along one walk on its map as a WebP; return its size in bytes.

    All is drawn turned by ``-turn``, the angle of the walls in radians, so that the house stands upright.
    """
    from matplotlib.patches import Rectangle

    T_page_map = Pose2(0.0, 0.0, -turn)
    grid = replace(grid, T_map_grid=T_page_map @ grid.T_map_grid)
    places = Places(
        tuple(replace(p, x=x, y=y) for p, (x, y) in zip(places, T_page_map.apply(places.centres), strict=True))
    )
    known = grid.centres_of(~np.isnan(grid.prob))
    (x0, y0), (x1, y1) = known.min(axis=0) - _RIM_M, known.max(axis=0) + _RIM_M
    frames = []
    for moment in moments:
        paths = moment.forecast.samples_xy
        found = replace(moment.forecast, samples_xy=T_page_map.apply(paths.reshape(-1, 2)).reshape(paths.shape))
        figure = forecast_figure(grid, [found], places, [f"{title}, {moment.elapsed_s:.1f} s"])
        axes = figure.axes[0]
        axes.plot(*T_page_map.apply(moment.walked).T, color=_WALKED, linewidth=2.5, solid_capstyle="round", zorder=5)
        axes.set(xlim=(x0, x1), ylim=(y0, y1))
        axes.set_axis_off()
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, color=str(UNKNOWN_GREY), zorder=-1))
        figure.set_size_inches(_FILM_IN * (x1 - x0) / (y1 - y0), _FILM_IN + _FILM_TITLE_IN)
        figure.set_dpi(_FILM_DPI)
        frames.append(_image(figure))
    return _write_frames(frames, path, frame_s)


def _write_frames(frames: "list[Image]", path: Path, frame_s: float) -> int:
    frames = [*frames, *[frames[-1]] * _HOLD]
    path.parent.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"quality": 80, "method": 4} if path.suffix == ".webp" else {"optimize": True}
    duration_ms = round(1000 * frame_s)
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=duration_ms, loop=0, **options)
    return path.stat().st_size


def _image(figure: "Figure") -> "Image":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
