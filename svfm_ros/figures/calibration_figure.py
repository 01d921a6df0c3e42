"""Calibration plot: how often true positions fall into the regions of forecasts; on the diagonal for good forecasts."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

__all__ = ["draw_calibration"]

_BLUE, _GREY = "#0072b2", "#888888"
_TOLERANCE = 0.05


def draw_calibration(path: Path, levels: ArrayLike, title: str = "", dpi: int = 130) -> None:
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
        axes.annotate(f"{share:.0%}", (region, share), textcoords="offset points", xytext=(8, -12))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel("probability of the region")
    axes.set_ylabel("share of real positions inside")
    axes.set_title(title, fontsize=11)
    figure.savefig(path, dpi=dpi)
