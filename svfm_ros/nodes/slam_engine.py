"""Which engine places the scans: SLAM, or localisation where a map is given."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from svfm_ros.config.nodes import SlamNodeConfig
from svfm_ros.datatypes import OccupancyGrid, Scan
from svfm_ros.errors import UsageError
from svfm_ros.mapio import load_map
from svfm_ros.nodes.mapping import MapDrawer
from svfm_ros.nodes.tracking import Engine
from svfm_ros.slam.keyframes import KeyframeView
from svfm_ros.slam.slam import Slam

__all__ = ["keyframes_of", "make_engine_factory", "warm_up"]


def make_engine_factory(config: SlamNodeConfig) -> tuple[Callable[[], Engine], OccupancyGrid | None]:
    """What makes a fresh engine, and the given map where there is one."""
    if not config.map:
        return lambda: Slam(config.slam, background=True), None
    grid = load_map(Path(config.map).expanduser())
    try:
        from svfm_ros.slam.localise import Localiser  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise UsageError("finding oneself in a given map is not part of this version; leave out the map") from error
    return lambda: Localiser(grid, config.slam), grid


def keyframes_of(engine: Engine) -> tuple[KeyframeView, ...] | None:
    """What the map is drawn from; ``None`` where the engine makes none."""
    return tuple(engine.keyframes()) if isinstance(engine, Slam) else None


def warm_up(config: SlamNodeConfig) -> None:
    """Map a few scans of a room, so that everything is compiled before the first real one.

    Compiling keeps all threads of the process waiting: scans that come in meanwhile would be lost.
    """
    slam = Slam(config.slam)
    angles = -np.pi + 2 * np.pi / 360 * np.arange(360)
    for k in range(12):
        x = 0.15 * k
        wall_x = np.where(np.cos(angles) > 0, 4.0 - x, -4.0 - x) / np.where(
            np.abs(np.cos(angles)) < 1e-6, 1e-6, np.cos(angles)
        )
        wall_y = 3.0 / np.maximum(np.abs(np.sin(angles)), 1e-6)
        ranges = np.minimum(np.abs(wall_x), wall_y).astype(np.float32)
        slam.add_scan(Scan(k * 100_000_000 + 1, ranges, -np.pi, 2 * np.pi / 360, 0.1, 12.0, 0.1, 0.1 / 360))
    slam.finish()
    MapDrawer(config.raster).draw(slam.keyframes())
