"""One forecast goes out: as markers for people, as a grid, as samples and figures for machines. All of it latched."""

from nav_msgs.msg import OccupancyGrid as GridMessage
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64, String
from visualization_msgs.msg import MarkerArray

from svfm_ros.nodes.messages import convert, marker_shapes
from svfm_ros.nodes.messages.forecast_messages import to_cloud, to_summary
from svfm_ros.nodes.messages.markers import MarkerStyle, clear_shapes, endpoint_shapes, path_shapes
from svfm_ros.types import Forecast, Places

__all__ = ["ForecastTopics"]

_LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class ForecastTopics:
    """``forecast/...``, or ``forecast/what_if/...``. Markers go first: they are what people wait for."""

    def __init__(self, node: Node, prefix: str) -> None:
        self._paths = node.create_publisher(MarkerArray, f"{prefix}/paths", _LATCHED)
        self._endpoints = node.create_publisher(MarkerArray, f"{prefix}/endpoints", _LATCHED)
        self._density = node.create_publisher(GridMessage, f"{prefix}/density", _LATCHED)
        self._samples = node.create_publisher(PointCloud2, f"{prefix}/samples", _LATCHED)
        self._entropy = node.create_publisher(Float64, f"{prefix}/entropy", _LATCHED)
        self._summary = node.create_publisher(String, f"{prefix}/summary", _LATCHED)
        self._shown: Forecast | None = None

    def show(self, forecast: Forecast, places: Places, style: MarkerStyle, cell_m: float) -> None:
        """Replace what was shown before."""
        from svfm_ros.forecasting.visit_density import (
            density_grid,  # compiled code: loaded with the first model, not with the node
        )

        canvas = style.canvas(forecast)
        self._paths.publish(marker_shapes.to_wire(path_shapes(forecast, places, style), canvas))
        self._endpoints.publish(marker_shapes.to_wire(endpoint_shapes(forecast, places, style), canvas))
        self._entropy.publish(Float64(data=float(forecast.entropy)))
        self._summary.publish(String(data=to_summary(forecast, places)))
        if forecast.known:
            grid = density_grid(forecast.samples_xy, cell_m)
            self._density.publish(convert.to_grid_message(grid, forecast.frame, forecast.stamp_ns))
            self._samples.publish(to_cloud(forecast, places))
        self._shown = forecast

    def clear(self) -> None:
        """Take away what is shown; does nothing when nothing is."""
        forecast, self._shown = self._shown, None
        if forecast is None:
            return
        canvas = marker_shapes.Canvas(forecast.frame, forecast.stamp_ns)
        for publisher in (self._paths, self._endpoints):
            publisher.publish(marker_shapes.to_wire(clear_shapes(), canvas))
        empty = GridMessage(header=convert.header(forecast.frame, forecast.stamp_ns))
        empty.info.resolution, empty.info.width, empty.info.height = 0.1, 1, 1
        empty.info.origin.orientation.w = 1.0
        empty.data = [0]
        self._density.publish(empty)
