"""Forecasts for other programs: all sampled paths as a PointCloud2, and a summary as JSON.

The cloud has one row per sampled path and one column per time: ``x``, ``y``, ``z`` (0), ``t`` (seconds after the
stamp), ``place`` (where the path ends, as an index into the places of the summary, -1: elsewhere) and ``component``
(the field it follows, -1: the free walker).
"""

import array
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from sensor_msgs.msg import PointCloud2, PointField

from svfm_ros.nodes.messages import convert
from svfm_ros.types import Forecast, Places

__all__ = ["from_cloud", "to_cloud", "to_summary"]

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
    ends = forecast.endpoint if forecast.endpoint is not None else places.assign(forecast.samples_xy[:, -1])
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
        }
    )


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
