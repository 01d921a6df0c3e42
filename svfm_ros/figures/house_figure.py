"""A house from above with walked paths on it: walls dark, furniture light, paths in the colour of where they end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from svfm_ros.sim.house import House
from svfm_ros.types import Place, Places
from svfm_ros.wording import percent, readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BY_DAY",
    "BY_NIGHT",
    "NOWHERE",
    "Palette",
    "draw_house",
    "draw_paths",
    "label_shares",
    "outline_house",
]

Array = NDArray[np.float64]

NOWHERE = "#e08a00"
"""Colour of paths that end in no place."""

_START = "#8a8f98"
_MARGIN_M = 0.3


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of a house."""

    wall: str = "#3a3f47"
    door: str = "#b59b7a"
    floor: str = "#fbfaf7"
    furniture: str = "#e6e5e1"
    furniture_edge: str = "#cfcdc7"


BY_DAY = Palette()
BY_NIGHT = Palette("#9aa3b5", "#6d6257", "#232a3a", "#2f3749", "#3d475c")

_LABEL_GAP_M = 0.22


def draw_house(axis: "Axes", house: House, palette: Palette = BY_DAY) -> None:
    """Floor, furniture, doors and walls, in metres, without a frame around them."""
    axis.fill(*house.rooms.T, color=palette.floor, zorder=0)
    for solid in house.solids:
        if solid.kind == "furniture":
            axis.fill(
                *solid.outline.T, facecolor=palette.furniture, edgecolor=palette.furniture_edge, linewidth=0.6, zorder=1
            )
        elif solid.kind == "door":
            axis.fill(*solid.outline.T, color=palette.door, linewidth=0, zorder=2)
        elif solid.kind == "wall":
            axis.fill(*solid.outline.T, color=palette.wall, linewidth=0, zorder=2)
    _frame(axis, house)


def outline_house(axis: "Axes", house: House, height_m: float, colour: str) -> None:
    """Thin outlines of what a level beam at that height can meet."""
    for solid in house.at_height(height_m):
        closed = np.concatenate([solid.outline, solid.outline[:1]])
        axis.plot(*closed.T, color=colour, linewidth=0.5, alpha=0.7, zorder=2)
    _frame(axis, house)


def _frame(axis: "Axes", house: House) -> None:
    x0, y0, x1, y1 = house.bounds()
    axis.set(xlim=(x0 - _MARGIN_M, x1 + _MARGIN_M), ylim=(y0 - _MARGIN_M, y1 + _MARGIN_M), aspect="equal")
    axis.set_axis_off()


def draw_paths(axis: "Axes", paths: Array, places: Places, width: float = 0.7, alpha: float = 0.4) -> None:
    """Paths (S, K, 2) with a dot at each end; all begin at one start, which gets a grey disc."""
    from matplotlib.collections import LineCollection

    ends = places.assign(paths[:, -1])
    colours = [NOWHERE if i < 0 else places.places[i].colour for i in ends.tolist()]
    axis.add_collection(LineCollection(list(paths), colors=colours, linewidths=width, alpha=alpha, zorder=3))
    x, y = paths[:, -1].T
    axis.scatter(x, y, c=colours, s=9, linewidths=0, alpha=min(1.0, 2 * alpha), zorder=4)
    axis.plot(*paths[0, 0], "o", color=_START, markeredgecolor="white", markersize=11, zorder=5)


def label_shares(axis: "Axes", start: Place, places: Sequence[Place], shares: Mapping[str, float] | None) -> None:
    """Each place as a dashed ring with its name and its share of the paths, if any; names keep clear of the paths."""
    from matplotlib.patches import Circle

    box: dict[str, Any] = {"boxstyle": "round,pad=0.25", "facecolor": "white", "alpha": 0.9, "linewidth": 0}
    for place in places:
        ring = Circle((place.x, place.y), place.radius_m, fill=False, edgecolor=place.colour, linestyle=(0, (4, 3)))
        ring.set(linewidth=0.9, alpha=0.8, zorder=4)
        axis.add_patch(ring)
        share = "" if shares is None else f" {percent(shares.get(place.name, 0.0))}"
        side = 1.0 if place.y >= start.y else -1.0  # paths come from the start's side
        y = place.y + side * (place.radius_m + _LABEL_GAP_M)
        axis.text(
            place.x,
            y,
            readable(place.name) + share,
            color=place.colour,
            ha="center",
            va="center",
            bbox=box,
            zorder=6,
            fontsize=9,
        )
