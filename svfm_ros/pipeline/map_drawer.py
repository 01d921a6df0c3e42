"""The map as it is shown: keyframes drawn into a grid, moved when a loop closure moves them. No ROS in here."""

from collections.abc import Sequence

from svfm_ros.config.slam_config import RasterConfig
from svfm_ros.slam.keyframes import KeyframeView
from svfm_ros.slam.occupancy import MapRaster
from svfm_ros.types import OccupancyGrid

__all__ = ["MapDrawer"]


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
