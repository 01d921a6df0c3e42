"""Pictures of maps: free and occupied cells, the trajectory, loop closures."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from svfm_ros.atomic_files import make_folder, write_whole
from svfm_ros.slam.offline import DrawnLoop
from svfm_ros.types import OccupancyGrid

__all__ = ["UNKNOWN_GREY", "draw_map", "save_picture", "show_grid"]

Array = NDArray[np.float64]

UNKNOWN_GREY = 0.8
_LONGEST_SIDE_IN = 11.0
_SHORTEST_SIDE_IN = 4.0
_PATH, _START, _END = "#1f6fd0", "#2e8b57", "#d03030"
_LOOP, _REFUSED = "#e08a00", "#b0b0b0"
_FULL_LOOPS = 30.0


def draw_map(path: Path, grid: OccupancyGrid, poses: Array, loops: Sequence[DrawnLoop] = (), title: str = "") -> None:
    """Write a picture of the map with the trajectory ``(T, 3)`` and its loop closures to ``path``."""
    figure = Figure(figsize=_size_in(grid), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    show_grid(axes, grid)
    faint = min(0.7, _FULL_LOOPS / max(len(loops), 1))  # many loops must not hide the trajectory
    for loop in loops:
        colour = _LOOP if loop.accepted else _REFUSED
        axes.plot(*zip(loop.from_xy, loop.to_xy, strict=True), color=colour, lw=0.8, alpha=faint, zorder=2)
    if len(poses):
        axes.plot(poses[:, 0], poses[:, 1], color=_PATH, lw=1.2, zorder=3)
        axes.plot(*poses[0, :2], "o", color=_START, ms=5, zorder=4)
        axes.plot(*poses[-1, :2], "s", color=_END, ms=5, zorder=4)
    _legend(axes, loops)
    axes.set_title(title, fontsize=10)
    save_picture(figure, path)


def save_picture(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure as PNG, whole or not at all, with the folders above it; readable by its owner alone."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, **options)
    make_folder(Path(path).absolute().parent)
    write_whole(path, buffer.getvalue())


def show_grid(axes: Any, grid: OccupancyGrid) -> None:
    """Draw a grid on matplotlib axes, in metres; dark is occupied, white is free, grey is unknown."""
    grey = np.where(np.isnan(grid.prob), UNKNOWN_GREY, 1.0 - np.nan_to_num(grid.prob))
    height, width = (n * grid.resolution_m for n in grid.prob.shape)
    image = axes.imshow(grey, cmap="gray", vmin=0.0, vmax=1.0, origin="lower", extent=(0, width, 0, height), zorder=1)
    at = grid.T_map_grid
    image.set_transform(Affine2D().rotate(at.theta).translate(at.x, at.y) + axes.transData)
    corners = at.apply([[0, 0], [width, 0], [0, height], [width, height]])
    axes.set(xlim=(corners[:, 0].min(), corners[:, 0].max()), ylim=(corners[:, 1].min(), corners[:, 1].max()))
    axes.set(xlabel="x (m)", ylabel="y (m)", aspect="equal")


def _size_in(grid: OccupancyGrid) -> tuple[float, float]:
    height, width = grid.prob.shape
    scale = _LONGEST_SIDE_IN / max(height, width)
    return max(width * scale, _SHORTEST_SIDE_IN), max(height * scale, _SHORTEST_SIDE_IN) + 0.6


def _legend(axes: Any, loops: Sequence[DrawnLoop]) -> None:
    lines = [
        Line2D([], [], color=_PATH, label="trajectory"),
        Line2D([], [], color=_START, marker="o", ls="", label="start"),
        Line2D([], [], color=_END, marker="s", ls="", label="end"),
    ]
    if any(loop.accepted for loop in loops):
        lines.append(Line2D([], [], color=_LOOP, label="loop closure"))
    if not all(loop.accepted for loop in loops):
        lines.append(Line2D([], [], color=_REFUSED, label="loop, rejected"))
    axes.legend(handles=lines, fontsize=7, loc="upper right", framealpha=0.9)
