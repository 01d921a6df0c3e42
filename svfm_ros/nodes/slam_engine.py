"""Which engine places the scans: SLAM, or localisation where a map is given."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.nodes import SlamNodeConfig
from svfm_ros.datatypes import OccupancyGrid, Scan
from svfm_ros.mapio import load_map
from svfm_ros.nodes.mapping import MapDrawer
from svfm_ros.nodes.tracking import Engine
from svfm_ros.slam.keyframes import KeyframeView
from svfm_ros.slam.localise import Localiser
from svfm_ros.slam.slam import Slam

__all__ = ["keyframes_of", "make_engine_factory", "warm_up"]


def make_engine_factory(config: SlamNodeConfig) -> tuple[Callable[[], Engine], OccupancyGrid | None]:
    """What makes a fresh engine, and the given map where there is one."""
    if not config.map:
        return lambda: Slam(config.slam, background=True), None
    grid = load_map(Path(config.map).expanduser())
    return lambda: Localiser(grid, config.slam), grid


def keyframes_of(engine: Engine) -> tuple[KeyframeView, ...] | None:
    """What the map is drawn from; ``None`` where the engine makes none."""
    return tuple(engine.keyframes()) if isinstance(engine, Slam) else None


def warm_up(config: SlamNodeConfig) -> None:
    """Map a room, close a loop in it and find oneself on the map, so that everything is compiled before the first scan.

    Compiling keeps all threads of the process waiting: scans that come in meanwhile would be lost.
    """
    small = replace(config.slam, local_keyframes=8, submap_keyframes=8, loop_every=2)  # a few steps make a loop
    slam = Slam(small)
    scans = list(_rounds_of_a_room())
    for scan in scans:
        slam.add_scan(scan)
    slam.finish()
    grid = MapDrawer(config.raster).draw(slam.keyframes())
    if config.map:
        localiser = Localiser(grid, config.slam)
        for scan in scans:
            localiser.add_scan(scan)
        localiser.finish()


_ROOM_M = np.array([[5.0], [4.0]]), np.array([[-4.0], [-2.5]])  # walls ahead and behind: it looks alike from nowhere
_ROUND_M = 1.5  # radius of the walk
_ROUND = 40  # scans
_ROUNDS = 2
_BEAMS = 180
_NO_TIME_S = 1e-7  # from beam to beam: a sweep that is undistorted, but by nothing


def _rounds_of_a_room() -> Iterator[Scan]:
    """What a LiDAR sees that is carried around in a room with a pillar."""
    bearings = 2 * np.pi / _BEAMS * np.arange(_BEAMS) - np.pi
    for k in range(_ROUND * _ROUNDS):
        turned = 2 * np.pi * k / _ROUND
        at = _ROUND_M * np.array([np.sin(turned), -np.cos(turned)])
        along = np.stack([np.cos(bearings + turned), np.sin(bearings + turned)])  # (2, beams)
        with np.errstate(divide="ignore"):
            walls = ((np.where(along > 0, *_ROOM_M) - at[:, None]) / along).min(0)
        ranges = np.minimum(walls, _to_pillar(at, along)).astype(np.float32)
        yield Scan(k * 100_000_000 + 1, ranges, -np.pi, 2 * np.pi / _BEAMS, 0.1, 12.0, 0.1, _NO_TIME_S)


def _to_pillar(at: NDArray[np.float64], along: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranges (beams,) to a pillar in the middle, of half the radius of the walk; infinite beside it."""
    b, c = at @ along, at @ at - (0.5 * _ROUND_M) ** 2
    hit = (b * b > c) & (b < 0)
    return np.where(hit, -b - np.sqrt(np.maximum(b * b - c, 0.0)), np.inf)
