"""Makes the engine that estimates poses, SLAM or localisation in a given map, and draws the map that it makes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros import geometry
from svfm_ros.config.node_config import SlamNodeConfig
from svfm_ros.config.slam_config import RasterConfig, SlamConfig
from svfm_ros.mapio import load_map
from svfm_ros.pipeline.tracking import Engine
from svfm_ros.slam.keyframes import KeyframeView
from svfm_ros.slam.localise import Localiser
from svfm_ros.slam.occupancy import MapRaster
from svfm_ros.slam.slam import Slam
from svfm_ros.slam.state_file import SlamState
from svfm_ros.types import OccupancyGrid, Pose2, Scan

__all__ = ["Engines", "MapDrawer", "given_map", "keyframes_of", "warm_up"]


class Engines:
    """Makes engines: localisation in ``grid`` where a map is given, otherwise SLAM.

    ``kept`` is a saved map to continue with. With ``keeps_map`` a recording that begins again continues with the
    current map; otherwise it begins with an empty one.
    """

    def __init__(
        self,
        config: SlamConfig,
        grid: OccupancyGrid | None = None,
        *,
        kept: SlamState | None = None,
        keeps_map: bool = False,
        background: bool = False,
    ) -> None:
        self._config, self._grid, self._kept = config, grid, kept
        self._keeps_map, self._background = keeps_map, background

    def first(self) -> Engine:
        """The first engine; of a saved map it keeps the last pose, not the trajectory."""
        kept, self._kept = self._kept, None
        return self.empty() if kept is None else self._resumed(_without_scans(kept, 1))

    def again(self, before: Engine) -> tuple[Callable[[], Engine], bool]:
        """What makes an engine for a recording that begins again, and whether it continues the map ``before`` has now.

        Making it reads the whole map, which takes long: only where it is needed.
        """
        if self._keeps_map and isinstance(before, Slam) and len(state := before.state()):
            return lambda: self._resumed(_without_scans(state, 0)), True
        return self.empty, self._grid is not None

    def moved(self, before: Engine, T_new_old: Pose2) -> Engine:
        """An engine that continues the map of ``before`` in another frame; it looks for the sensor at its last pose."""
        if not isinstance(before, Slam):
            raise TypeError("only a map that was made here can be moved")
        state = _without_scans(before.state(), 1)
        return self._resumed(replace(state, poses=geometry.compose(T_new_old.as_array(), state.poses)))

    def empty(self) -> Engine:
        """An engine without a map of its own."""
        if self._grid is not None:
            return Localiser(self._grid, self._config)
        return Slam(self._config, background=self._background)

    def _resumed(self, state: SlamState) -> Slam:
        return Slam.resumed(state, self._config, background=self._background)


def _without_scans(state: SlamState, last: int) -> SlamState:
    """The state without its trajectory but for the ``last`` scans: walks are cut from new scans."""
    rows = slice(len(state.scan_stamps_ns) - last, None)
    return replace(
        state,
        scan_stamps_ns=state.scan_stamps_ns[rows],
        scan_keyframes=state.scan_keyframes[rows],
        scan_poses=state.scan_poses[rows],
    )


def given_map(config: SlamNodeConfig) -> OccupancyGrid | None:
    """The map to localise in, if one is configured."""
    return load_map(Path(config.map).expanduser()) if config.map else None


def keyframes_of(engine: Engine) -> tuple[KeyframeView, ...] | None:
    """Keyframes to draw the map from; None for localisation."""
    return tuple(engine.keyframes()) if isinstance(engine, Slam) else None


class MapDrawer:
    """Draws keyframes into a grid; only those that are new or have moved are drawn again."""

    def __init__(self, config: RasterConfig) -> None:
        self._raster = MapRaster(config)
        self._drawn: set[int] = set()

    def draw(self, keyframes: Sequence[KeyframeView]) -> OccupancyGrid:
        """The map of these keyframes."""
        wanted = {view.keyframe_id for view in keyframes}
        for gone in self._drawn - wanted:
            self._raster.remove(gone)
        self._raster.move({v.keyframe_id: v.T_map_keyframe for v in keyframes if v.keyframe_id in self._drawn})
        for view in keyframes:
            if view.keyframe_id not in self._drawn:
                self._raster.put_points(view.keyframe_id, view.T_map_keyframe, view.points)
        self._drawn = wanted
        return self._raster.grid()


def warm_up(config: SlamNodeConfig) -> None:
    """Map a simulated room, close a loop and localise in it, so that all code is compiled before the first scan.

    Compilation blocks all threads of the process: scans that arrive meanwhile would be lost.
    """
    small = replace(config.slam, local_keyframes=8, submap_keyframes=8, loop_every=2)  # a few steps make a loop
    slam = Slam(small)
    scans = list(_rounds_of_a_room())
    for scan in [*scans, _cluttered(scans[-1]), _later(scans[-1])]:
        slam.add_scan(scan)
    slam.finish()
    grid = MapDrawer(config.raster).draw(slam.keyframes())
    if config.map:
        localiser = Localiser(grid, config.slam)
        for scan in scans:
            localiser.add_scan(scan)
        localiser.finish()


_ROOM_M = (
    np.array([[5.0], [4.0]]),
    np.array([[-4.0], [-2.5]]),
)  # at different distances, so that no two positions have the same view
_ROUND_M = 1.5  # radius of the walk
_ROUND = 40  # scans
_ROUNDS = 2
_BEAMS = 180
_NO_TIME_S = 1e-7  # from beam to beam: so short that undistorting changes nothing


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


def _cluttered(scan: Scan) -> Scan:
    """The sweep after this one, with something in front of two of three beams: few points then fit the map."""
    ranges = scan.ranges.copy()
    ranges[np.arange(len(ranges)) % 3 > 0] *= np.float32(0.6)
    return replace(scan, stamp_ns=scan.stamp_ns + 100_000_000, ranges=ranges)


def _later(scan: Scan) -> Scan:
    """The same sweep after a rest: the sensor is looked for around its last pose."""
    return replace(scan, stamp_ns=scan.stamp_ns + 60_000_000_000)


def _to_pillar(at: NDArray[np.float64], along: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranges (beams,) to a pillar in the middle, of half the radius of the walk; infinite beside it."""
    b, c = at @ along, at @ at - (0.5 * _ROUND_M) ** 2
    hit = (b * b > c) & (b < 0)
    return np.where(hit, -b - np.sqrt(np.maximum(b * b - c, 0.0)), np.inf)
