"""PointCloud2 to Scan: points of a horizontal slice, sorted into beams by their bearing.

Clouds are read with numpy, because ``sensor_msgs_py`` is not on PyPI.
"""

import math

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import PointCloud2, PointField

from svfm_ros.errors import DataError
from svfm_ros.nodes.messages.convert import stamp_ns
from svfm_ros.types import Scan

__all__ = ["MAX_CLOUD_BYTES", "from_point_cloud", "read_xyz"]

Array = NDArray[np.float64]

MAX_CLOUD_BYTES = 64_000_000
_TYPES = {
    PointField.INT8: "i1",
    PointField.UINT8: "u1",
    PointField.INT16: "i2",
    PointField.UINT16: "u2",
    PointField.INT32: "i4",
    PointField.UINT32: "u4",
    PointField.FLOAT32: "f4",
    PointField.FLOAT64: "f8",
}


def from_point_cloud(
    message: PointCloud2, beams: int, range_min_m: float, range_max_m: float, z_min_m: float, z_max_m: float
) -> Scan:
    """The nearest point between the heights for each of ``beams`` bearings; NaN where there is none."""
    points = read_xyz(message)
    flat = points[(points[:, 2] >= z_min_m) & (points[:, 2] <= z_max_m), :2]
    distance = np.hypot(flat[:, 0], flat[:, 1])
    keep = (distance >= range_min_m) & (distance <= range_max_m)
    step = 2 * math.pi / beams
    bearing = np.arctan2(flat[keep, 1], flat[keep, 0])
    beam = np.rint((bearing + math.pi) / step).astype(int) % beams
    nearest = np.full(beams, np.inf)
    np.minimum.at(nearest, beam, distance[keep])
    nearest[np.isinf(nearest)] = np.nan
    ranges = nearest.astype(np.float32)
    return Scan(stamp_ns(message.header.stamp), ranges, -math.pi, step, range_min_m, range_max_m)


def read_xyz(message: PointCloud2) -> Array:
    """Points ``(N, 3)`` in metres without NaN; z is 0 where the cloud has none."""
    if len(message.data) > MAX_CLOUD_BYTES:
        raise DataError(f"expected a PointCloud2 of at most {MAX_CLOUD_BYTES} bytes, got {len(message.data)}")
    names = {f.name for f in message.fields}
    if not {"x", "y"} <= names:
        raise DataError(f"expected a PointCloud2 with fields x and y, got {', '.join(sorted(names)) or 'none'}")
    wanted = ["x", "y", "z"] if "z" in names else ["x", "y"]
    records = _read_records(message, wanted)
    points = np.zeros((len(records), 3))
    with np.errstate(invalid="ignore"):  # a cloud may hold what is no number
        for i, name in enumerate(wanted):
            points[:, i] = records[name]
    return points[np.isfinite(points).all(axis=1)]


def _read_records(message: PointCloud2, names: list[str]) -> NDArray[np.void]:
    """Read the fields with numpy: a view of the bytes with one record per point."""
    order = ">" if message.is_bigendian else "<"
    by_name = {f.name: f for f in message.fields}
    try:
        dtype = np.dtype(
            {
                "names": names,
                "formats": [order + _TYPES.get(by_name[n].datatype, "none") for n in names],
                "offsets": [by_name[n].offset for n in names],
                "itemsize": message.point_step,
            }
        )
    except (TypeError, ValueError) as error:
        raise DataError(f"expected x, y and z within the {message.point_step} bytes of each point: {error}") from error
    data = np.frombuffer(bytes(message.data), dtype=np.uint8)
    width, height, row_step = message.width, message.height, message.row_step
    if len(data) < height * row_step or row_step < width * message.point_step:
        raise DataError(f"expected {width} x {height} points of {message.point_step} bytes, got {len(data)} bytes")
    rows = data[: height * row_step].reshape(height, row_step)[:, : width * message.point_step]
    return np.ascontiguousarray(rows).view(dtype).ravel()
