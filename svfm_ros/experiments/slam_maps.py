"""The four maps of the paper's appendix: a worn LiDAR on one walk to each target, SLAM from its scans alone.

All effects of the sensor are on: noise, lost beams, the body's shadow, the sway of the steps. SLAM works in a frame of
its own; for the figure and the error it is aligned with the house.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.clock import NS_PER_S
from svfm_ros.config.sim_config import LidarConfig
from svfm_ros.experiments.experiment import ExperimentResult, Tick
from svfm_ros.figures.house_figure import outline_house
from svfm_ros.figures.map_figure import show_grid
from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.sim_recording import Recorder, Recording
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.slam.offline import draw_grid
from svfm_ros.slam.offline import run_slam as run_offline
from svfm_ros.slam.trajectory_metrics import AbsoluteError, absolute_error
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.types import OccupancyGrid
from svfm_ros.wording import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["run_slam"]

Array = NDArray[np.float64]

_SEEDS = 3
_SHOWN_SEED = 0
_TARGET_M, _TARGET_DEG = 0.05, 1.0
_LOCATED = 0.99
_TRUE_WALLS, _START, _UNKNOWN = "#2b9a8f", "#8a8f98", "#cccccc"


@dataclass(frozen=True, slots=True)
class _MappedWalk:
    """One walk and the result of SLAM, aligned with the house."""

    target: str
    scans: int
    located: int
    poses: Array  # (T, 3), house frame
    error: AbsoluteError
    grid: OccupancyGrid  # house frame


def run_slam(quick: bool, tick: Tick) -> ExperimentResult:
    """One walk to each target and seed, a recording and a map each."""
    house = load_house()
    recorder = Recorder(house)
    mapped: list[_MappedWalk] = []
    for seed in range(1 if quick else _SEEDS):
        walks = simulate_protocol(house, seed=seed, repeats=1)
        for recording in recorder.one_per_walk(walks, seed):
            mapped.append(_map(recorder, recording))
            tick(f"mapped the walk to the {readable(mapped[-1].target)}")
    by_target = {name: [m for m in mapped if m.target == name] for name in dict.fromkeys(m.target for m in mapped)}
    names = [p.name for p in house.places if p.name in by_target]
    return ExperimentResult(
        "slam",
        f"error of SLAM from scans alone on one walk to each target, {len(mapped) // len(names)} seeds",
        ("walk to", "RMSE, m", "spread, m", "RMSE, deg", "spread, deg", "worst, m", "scans with a pose"),
        tuple(_row(name, by_target[name]) for name in names),
        tuple(_checks(mapped)),
        lambda: _draw(house, [by_target[name][_SHOWN_SEED] for name in names]),
    )


def _map(recorder: Recorder, recording: Recording) -> _MappedWalk:
    scans = list(recorder.scans(recording))
    trajectory = run_offline(scans).trajectory
    seconds = np.asarray((trajectory.stamps_ns - recording.motion.start_ns) / NS_PER_S, dtype=np.float64)
    error = absolute_error(trajectory.poses, recording.motion.poses_at(seconds))
    grid = draw_grid(scans, trajectory)
    aligned = OccupancyGrid(grid.prob, grid.resolution_m, error.T_truth_estimate @ grid.T_map_grid)
    poses = geometry.compose(error.T_truth_estimate.as_array(), trajectory.poses)
    target = recording.walks[0].destination
    return _MappedWalk(target, len(scans), len(trajectory), poses, error, aligned)


def _row(name: str, mapped: Sequence[_MappedWalk]) -> tuple[str | float, ...]:
    metres, degrees = (np.array([getattr(m.error, f) for m in mapped]) for f in ("rmse_m", "rmse_deg"))
    worst = max(m.error.worst_m for m in mapped)
    figures = (metres.mean(), metres.std(), degrees.mean(), degrees.std(), worst)
    located = sum(m.located for m in mapped) / sum(m.scans for m in mapped)
    return readable(name), *(round(float(f), 4) for f in (*figures, located))


def _checks(mapped: Sequence[_MappedWalk]) -> list[Check]:
    return [
        at_most("position, RMSE of the worst walk, m", max(m.error.rmse_m for m in mapped), _TARGET_M),
        at_most("heading, RMSE of the worst walk, deg", max(m.error.rmse_deg for m in mapped), _TARGET_DEG),
        at_least("scans with a pose, share of the worst walk", min(m.located / m.scans for m in mapped), _LOCATED),
    ]


def _draw(house: House, mapped: Sequence[_MappedWalk]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(12, 11.4), layout="constrained")
    for axis, one in zip(figure.subplots(2, 2).flat, mapped, strict=True):
        _draw_one(axis, house, one)
    entries = [
        Line2D([], [], color=_START, marker="o", linestyle="", label="couch"),
        Line2D([], [], color="black", linewidth=2, label="path found by SLAM"),
        Line2D([], [], color=_TRUE_WALLS, linewidth=1.0, label="the true house at the height of the LiDAR"),
    ]
    figure.legend(handles=entries, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_one(axis: "Axes", house: House, one: _MappedWalk) -> None:
    from matplotlib.patches import Rectangle

    place = house.place(one.target)
    axis.add_patch(Rectangle((0, 0), 1, 1, transform=axis.transAxes, color=_UNKNOWN, zorder=0))
    show_grid(axis, one.grid)
    outline_house(axis, house, LidarConfig().height_m, _TRUE_WALLS)
    axis.plot(one.poses[:, 0], one.poses[:, 1], color=place.colour, linewidth=2.2, zorder=3)
    axis.plot(*one.poses[0, :2], "o", color=_START, markeredgecolor="white", markersize=9, zorder=5)
    axis.plot(*one.poses[-1, :2], "s", color=place.colour, markeredgecolor="white", markersize=9, zorder=5)
    error = one.error
    axis.set_title(f"{readable(one.target)}: {error.rmse_m:.3f} m, {error.rmse_deg:.2f}°", fontsize=12)
