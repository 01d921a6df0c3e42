"""Publishes one forecast as markers, density grid, samples, entropy and summary; all topics are latched."""

import math
from typing import TYPE_CHECKING

from nav_msgs.msg import OccupancyGrid as GridMessage
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64, String
from visualization_msgs.msg import MarkerArray

from svfm_ros.nodes.messages import convert, marker_shapes
from svfm_ros.nodes.messages.forecast_messages import to_cloud, to_summary
from svfm_ros.nodes.messages.markers import MarkerStyle, clear_shapes, endpoint_shapes, path_shapes
from svfm_ros.nodes.runtime.subscriptions import LATCHED
from svfm_ros.types import Forecast, Places

if TYPE_CHECKING:
    from svfm_ros.pipeline.live.density_raster import DensityRaster

__all__ = ["ForecastPublisher"]


class ForecastPublisher:
    """Topics below ``prefix``: ``forecast`` or ``forecast/what_if``. Markers are published first."""

    def __init__(self, node: Node, prefix: str) -> None:
        self._paths = node.create_publisher(MarkerArray, f"{prefix}/paths", LATCHED)
        self._endpoints = node.create_publisher(MarkerArray, f"{prefix}/endpoints", LATCHED)
        self._density = node.create_publisher(GridMessage, f"{prefix}/density", LATCHED)
        self._samples = node.create_publisher(PointCloud2, f"{prefix}/samples", LATCHED)
        self._entropy = node.create_publisher(Float64, f"{prefix}/entropy", LATCHED)
        self._summary = node.create_publisher(String, f"{prefix}/summary", LATCHED)
        self._shown: tuple[Forecast, DensityRaster] | None = None

    def publish(
        self,
        forecast: Forecast,
        places: Places,
        style: MarkerStyle,
        raster: "DensityRaster",
        compared: Forecast | None = None,
    ) -> None:
        """Replace the last forecast; a what-if names only places that differ from the ``compared`` live forecast."""
        canvas = style.canvas(forecast)
        self._paths.publish(marker_shapes.to_wire(path_shapes(forecast, places, style, compared), canvas))
        self._endpoints.publish(marker_shapes.to_wire(endpoint_shapes(forecast, places, style, compared), canvas))
        self._entropy.publish(Float64(data=math.nan if forecast.entropy is None else float(forecast.entropy)))
        self._summary.publish(String(data=to_summary(forecast, places)))
        grid = raster.draw(forecast.samples_xy) if forecast.known else raster.empty()
        self._density.publish(convert.to_grid_message(grid, forecast.frame, forecast.stamp_ns))
        if forecast.known:
            self._samples.publish(to_cloud(forecast, places))
        self._shown = forecast, raster

    def clear(self) -> None:
        """Remove markers and density; does nothing where there are none."""
        shown, self._shown = self._shown, None
        if shown is None:
            return
        forecast, raster = shown
        canvas = marker_shapes.Canvas(forecast.frame, forecast.stamp_ns)
        for publisher in (self._paths, self._endpoints):
            publisher.publish(marker_shapes.to_wire(clear_shapes(), canvas))
        self._density.publish(convert.to_grid_message(raster.empty(), forecast.frame, forecast.stamp_ns))
