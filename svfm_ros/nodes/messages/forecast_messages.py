"""A forecast as messages: markers, density grid, all sampled paths as a PointCloud2, entropy, a summary as JSON.

The cloud has one row per sampled path and one column per time: ``x``, ``y``, ``z`` (0), ``t`` (seconds after the
stamp), ``place`` (where the path ends, as an index into the places of the summary, -1: elsewhere) and ``component``
(the field it follows, -1: the free walker).
"""

import array
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from nav_msgs.msg import OccupancyGrid as GridMessage
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2, PointField
from std_msgs.msg import Float64, String
from visualization_msgs.msg import MarkerArray

from svfm_ros.nodes.messages import convert, marker_shapes
from svfm_ros.nodes.messages.markers import MarkerStyle, clear_shapes, endpoint_shapes, path_shapes
from svfm_ros.nodes.runtime.subscriptions import LATCHED
from svfm_ros.types import Forecast, Places

if TYPE_CHECKING:
    from svfm_ros.forecasting.visit_density import DensityRaster

__all__ = ["ForecastPublisher", "bundle_from_cloud", "from_cloud", "to_cloud", "to_summary"]

_ROW = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("t", "<f4"), ("place", "<i2"), ("component", "<i2")])
_KINDS = {"f": PointField.FLOAT32, "i": PointField.INT16}
_FIELDS = [
    PointField(name=name, offset=_ROW.fields[name][1], datatype=_KINDS[_ROW[name].kind], count=1)  # type: ignore[index]
    for name in _ROW.names or ()
]


def to_cloud(forecast: Forecast, places: Places) -> PointCloud2:
    """All sampled paths at all times."""
    paths, moments = forecast.samples_xy.shape[:2]
    rows = np.zeros((paths, moments), dtype=_ROW)
    rows["x"], rows["y"] = forecast.samples_xy[..., 0], forecast.samples_xy[..., 1]
    rows["t"] = forecast.times_s
    ends = forecast.ends_in(places)
    rows["place"], rows["component"] = ends[:, None], forecast.component[:, None]
    cloud = PointCloud2(header=convert.header(forecast.frame, forecast.stamp_ns), height=paths, width=moments)
    cloud.fields, cloud.is_dense = _FIELDS, True
    cloud.point_step, cloud.row_step = _ROW.itemsize, _ROW.itemsize * moments
    cloud.data = array.array("B", rows.tobytes())
    return cloud


def to_summary(forecast: Forecast, places: Places) -> str:
    """Shares of the places, entropy (null where unknown), walks nearby, model and places with coordinates, as JSON."""
    return json.dumps(
        {
            "stamp_ns": forecast.stamp_ns,
            "frame": forecast.frame,
            "known": forecast.known,
            "shares": {name: round(float(share), 4) for name, share in forecast.shares.items()},
            "entropy": None if forecast.entropy is None else round(float(forecast.entropy), 4),
            "unfamiliar": round(float(forecast.unfamiliar), 4),
            "reason": forecast.reason,
            "walks": forecast.walks,
            "model_id": forecast.model_id,
            "places": list(places.names),
            "positions": {p.name: [round(p.x, 3), round(p.y, 3), round(p.radius_m, 3)] for p in places},
            "colours": {p.name: p.colour for p in places},
        }
    )


def bundle_from_cloud(cloud: PointCloud2) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Sampled paths ``(S, K, 2)`` and the index of the place each ends at ``(S,)``."""
    rows = np.frombuffer(memoryview(cloud.data), dtype=_ROW).reshape(cloud.height, cloud.width)
    return np.stack([rows["x"], rows["y"]], axis=-1), rows["place"][:, 0]


def from_cloud(cloud: PointCloud2, summary: Mapping[str, Any]) -> Forecast:
    """The forecast from its samples and the parsed summary of the same stamp."""
    rows = np.frombuffer(bytes(cloud.data), dtype=_ROW).reshape(cloud.height, cloud.width)
    return Forecast(
        stamp_ns=convert.stamp_ns(cloud.header.stamp),
        frame=cloud.header.frame_id,
        times_s=rows["t"][0].astype(float),
        samples_xy=np.stack([rows["x"], rows["y"]], axis=-1).astype(float),
        component=rows["component"][:, 0].astype(np.int64),
        shares=dict(summary["shares"]),
        entropy=summary["entropy"],
        walks=int(summary["walks"]),
        model_id=str(summary["model_id"]),
        known=bool(summary["known"]),
        endpoint=rows["place"][:, 0].astype(np.int64),
        unfamiliar=float(summary["unfamiliar"]),
        reason=str(summary["reason"]),
    )


class ForecastPublisher:
    """Publishes below ``prefix`` (``forecast`` or ``forecast/what_if``), markers first; all topics are latched."""

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
