"""The pictures of README and docs/model.md: forecasts from the couch by day and by night, the fields, the hours.

All are drawn from one model, trained on walks in the simulated home over day and night.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.clock import parse_local_time
from svfm_ros.figures.home_example import HORIZON_S, HomeTask, home_forecaster, targets
from svfm_ros.figures.house_figure import BY_DAY, BY_NIGHT, Palette, draw_house
from svfm_ros.forecasting.forecaster import Forecaster
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.walker import ANCHOR
from svfm_ros.types import Forecast, Place, WalkWindows
from svfm_ros.wording import percent, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["HomeModel", "colour_on", "draw_fields", "draw_front", "draw_hours", "learn_front", "light"]

Array = NDArray[np.float64]

DAY_HOUR, NIGHT_HOUR = 14.0, 2.0
_NOON = "2026-11-30T14:00"
_WALKS, _QUICK_WALKS = 320, 32
_SHOWN, _SAMPLES = 160, 2000
_SHOWN_WALKS = 120  # recorded walks drawn below the forecast
_INK, _NIGHT_INK = "#22262e", "#e8ecf4"
_NIGHT_SKY = "#161b27"
_LIGHTER = {"#d98200": "#ffb95c", "#7b3fa0": "#b684dd", "#1f6fd0": "#6cb0ff", "#d03030": "#ff7d78"}
_LABEL_GAP_M = 0.28
_LABEL_WIDTH_M = 2.4
_FIELD_STEP_M = 0.45
_NEAR_M = 0.6


@dataclass(frozen=True, slots=True)
class HomeModel:
    """The house, a model of its walks, and the walks."""

    house: House
    forecaster: Forecaster
    windows: WalkWindows

    def ask(self, hour: float, samples: int = _SAMPLES, seed: int = 0) -> Forecast:
        """The forecast from the couch at a local hour."""
        now = parse_local_time(_NOON, self.windows.time_zone)
        couch = self.house.place(ANCHOR).xy
        return self.forecaster.forecast(couch, now, what_if_hour=hour, horizon_s=HORIZON_S, samples=samples, seed=seed)


def learn_front(quick: bool = False) -> HomeModel:
    """Simulate walks over day and night and train a model on them."""
    house = load_house()
    task = HomeTask("day and night", _QUICK_WALKS if quick else _WALKS, 0, DAY_HOUR)
    return HomeModel(house, *home_forecaster(task, house))


def colour_on(place: Place, palette: Palette) -> str:
    """The place's own colour, lighter on the dark floor of a house by night."""
    return _LIGHTER.get(place.colour, place.colour) if palette is BY_NIGHT else place.colour


def light(figure: Any, *axes: Any) -> None:
    """White background, no frame at the top and on the right."""
    figure.patch.set_facecolor("white")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)


def draw_front(home: HomeModel) -> "Figure":
    """Day and night side by side: the house, the walks, the fan of forecasts with percentages."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.2, 6.75))
    day, night = figure.subplots(1, 2)
    figure.subplots_adjust(0.005, 0.0, 0.995, 0.945, wspace=0.02)
    _panel(day, home, DAY_HOUR, BY_DAY, "14:00")
    _panel(night, home, NIGHT_HOUR, BY_NIGHT, "what if it were 02:00?")
    return figure


def _panel(axis: "Axes", home: HomeModel, hour: float, palette: Palette, title: str) -> None:
    found = home.ask(hour)
    dark = palette is BY_NIGHT
    draw_house(axis, home.house, palette)
    _recorded_walks(axis, home.windows, "#ffffff" if dark else "#5a6270")
    _fan(axis, home, found, palette)
    _labels(axis, home.house, found, palette)
    if dark:
        axis.set_axis_on()
        axis.set(facecolor=_NIGHT_SKY, xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    subtitle = f"entropy {found.entropy:.2f} nats, from {found.walks} walks"
    axis.set_title(title, fontsize=17, color=_INK, loc="left", x=0.02, pad=8)
    axis.set_title(subtitle, fontsize=12, color="#6a7080", loc="right", x=0.98, pad=9)


def _recorded_walks(axis: "Axes", windows: WalkWindows, colour: str) -> None:
    from matplotlib.collections import LineCollection

    walks = [xy[:n] for xy, n in zip(windows.xy, windows.lengths.tolist(), strict=True)][:_SHOWN_WALKS]
    axis.add_collection(LineCollection(walks, colors=colour, linewidths=0.5, alpha=0.13, zorder=2.5))


def _fan(axis: "Axes", home: HomeModel, found: Forecast, palette: Palette) -> None:
    from matplotlib.collections import LineCollection

    places = home.house.places
    ends = found.ends_in(places)
    chosen = np.flatnonzero(ends >= 0)[:_SHOWN]
    colours = [colour_on(places.places[i], palette) for i in ends[chosen].tolist()]
    paths = found.samples_xy[chosen]
    axis.add_collection(LineCollection(list(paths), colors=colours, linewidths=1.1, alpha=0.42, zorder=3))
    axis.scatter(paths[:, -1, 0], paths[:, -1, 1], c=colours, s=13, linewidths=0, alpha=0.8, zorder=4)
    edge = palette.floor
    axis.plot(*paths[0, 0], "o", color="#2e8b57", markeredgecolor=edge, markeredgewidth=2, markersize=15, zorder=6)


def _labels(axis: "Axes", house: House, found: Forecast, palette: Palette) -> None:
    start = house.place(ANCHOR)
    for place in targets(house):
        share = found.shares.get(place.name, 0.0)
        colour = colour_on(place, palette)
        side = 1.0 if place.y >= start.y else -1.0
        y = place.y + side * (min(place.radius_m, 0.75) + _LABEL_GAP_M)
        x = min(place.x, house.bounds()[2] - _LABEL_WIDTH_M / 2)
        faint = share < 0.01
        box: dict[str, Any] = {"boxstyle": "round,pad=0.28", "facecolor": palette.floor, "alpha": 0.9, "linewidth": 0}
        axis.text(
            x,
            y,
            f"{readable(place.name)} {percent(share)}",
            color=colour,
            alpha=0.55 if faint else 1.0,
            fontsize=11 if faint else 14,
            fontweight="normal" if faint else "bold",
            ha="center",
            va="center",
            bbox=box,
            zorder=7,
        )
    axis.annotate(
        "couch",
        (start.x, start.y),
        (0, -19),
        textcoords="offset points",
        ha="center",
        color="#2e8b57",
        fontsize=11,
        zorder=7,
    )


def draw_fields(home: HomeModel) -> "Figure":
    """Every field of the mixture on the floor plan, in the colour of the place it leads to."""
    from matplotlib.figure import Figure

    found = home.ask(DAY_HOUR)
    count = home.forecaster.file.model.components
    columns = min(count, 4)
    rows = -(-count // columns)
    figure = Figure(figsize=(3.6 * columns, 3.9 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axis in axes[count:]:
        axis.set_axis_off()
    leads = sorted(
        ((_leads_to(home.house, found, k), k) for k in range(count)), key=lambda p: p[0].name if p[0] else "~"
    )
    for axis, (place, k) in zip(axes, leads, strict=False):
        _field(axis, home, k, place)
    return figure


def _leads_to(house: House, found: Forecast, k: int) -> Place | None:
    mine = found.component == k
    if found.endpoint is None or not mine.any():
        return None
    index = int(np.bincount(found.endpoint[mine] + 1).argmax()) - 1
    return house.places.places[index] if index >= 0 else None


def _field(axis: "Axes", home: HomeModel, k: int, place: Place | None) -> None:
    from scipy.spatial import cKDTree

    draw_house(axis, home.house)
    x0, y0, x1, y1 = home.house.bounds()
    grid = np.stack(np.meshgrid(np.arange(x0, x1, _FIELD_STEP_M), np.arange(y0, y1, _FIELD_STEP_M)), -1).reshape(-1, 2)
    near = cKDTree(home.forecaster.file.footprints.xy).query(grid)[0] < _NEAR_M
    at = grid[near]
    model = home.forecaster.file.model
    mean = model.grid.look_up(at - model.origin, model.tables[k])[:, :2]
    colour = "#5a6270" if place is None else place.colour
    speed = np.linalg.norm(mean, axis=1)
    arrows = mean / np.maximum(speed, 1e-6)[:, None] * np.minimum(speed, 1.2)[:, None]
    axis.quiver(*at.T, *arrows.T, color=colour, angles="xy", scale_units="xy", scale=3.2, width=0.006, zorder=4)
    title = f"field {k + 1}" if place is None else f"to the {readable(place.name)}"
    axis.set_title(title, fontsize=12, color=colour)


def draw_hours(home: HomeModel) -> "Figure":
    """Probabilities of the places and the entropy, from the couch at every hour of the day."""
    from matplotlib.figure import Figure

    hours = np.arange(0.0, 24.01, 0.5)
    found = [home.ask(float(h % 24.0), samples=600) for h in hours]
    places = targets(home.house)
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    shares = np.array([[f.shares.get(p.name, 0.0) for p in places] for f in found]).T  # (P, H)
    top.stackplot(hours, *shares, colors=[p.colour for p in places], alpha=0.85, linewidth=0)
    top.set(ylim=(0, 1), ylabel="share of the paths")
    _name_bands(top, hours, shares, places)
    bottom.plot(hours, [np.nan if f.entropy is None else f.entropy for f in found], color=_INK, linewidth=2)
    bottom.set(xlim=(0, 24), ylim=(0, 1.6), xlabel="hour of the day", ylabel="entropy, nats", xticks=range(0, 25, 3))
    light(figure, top, bottom)
    return figure


def _name_bands(axis: "Axes", hours: Array, shares: Array, places: Sequence[Place]) -> None:
    """Each place by name in the middle of where its band is about widest."""
    below = np.cumsum(shares, axis=0) - shares
    inner = (hours > 2.0) & (hours < 22.0)
    for place, share, low in zip(places, shares, below, strict=True):
        wide = np.flatnonzero(inner & (share >= 0.9 * share[inner].max()))
        at = int(wide[len(wide) // 2])
        if share[at] > 0.08:
            axis.text(hours[at], low[at] + share[at] / 2, readable(place.name), color="white", ha="center", va="center")
