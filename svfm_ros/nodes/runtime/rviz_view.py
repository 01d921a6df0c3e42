"""The window of RViz: a copy of the shipped configuration whose view shows all of a given map."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from svfm_ros.mapio import load_map
from svfm_ros.nodes.runtime.graph_description import GraphPlan
from svfm_ros.pipeline.live.state_folder import default_store, make_private_folder

__all__ = ["fitted_config", "fitted_view"]

_FILLED = 0.95  # share of the view that the map takes
_BARS_PX = (32, 92)  # of the window: closed docks beside the view; menu, tools and status above and below it


def fitted_config(plan: GraphPlan) -> Path:
    """The configuration to open: centred on the given map and scaled to it, or as shipped where no map is given."""
    if not plan.given_map:
        return plan.rviz_config
    folder = default_store("rviz")
    make_private_folder(folder)
    sheet = yaml.safe_load(plan.rviz_config.read_text())
    sheet["Visualization Manager"]["Views"]["Current"].update(fitted_view(sheet, Path(plan.given_map)))
    path = folder / "forecast.rviz"
    path.write_text(yaml.safe_dump(sheet, sort_keys=False))
    return path


def fitted_view(sheet: dict[str, Any], map_yaml: Path) -> dict[str, float]:
    """X and Y of the middle of the map in metres, and Scale in pixels per metre, for the window."""
    grid = load_map(map_yaml)
    low, high = np.nanmin(known := grid.centres_of(np.isfinite(grid.prob)), axis=0), np.nanmax(known, axis=0)
    width_m, height_m = np.maximum(high - low, 1.0)
    window = sheet["Window Geometry"]
    view = window["Width"] - _BARS_PX[0], window["Height"] - _BARS_PX[1]
    scale = _FILLED * min(view[0] / width_m, view[1] / height_m)
    return {"X": float(low[0] + high[0]) / 2, "Y": float(low[1] + high[1]) / 2, "Scale": float(scale)}
