"""Shapes as a MarkerArray, either as message objects or serialised.

A message object per point is slow in Python: five line lists of 2,000 points take 39 ms of processor time, serialised
from arrays 0.7 ms. ``bytes_are_right`` compares both, for a ROS with another layout of the message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from svfm_ros.clock import NS_PER_S
from svfm_ros.nodes.messages import convert
from svfm_ros.nodes.messages.serialised import CdrWriter
from svfm_ros.types import Pose2

__all__ = ["RGBA", "Canvas", "Shape", "bytes_are_right", "to_bytes", "to_marker_array", "to_wire"]

Array = NDArray[np.float64]
RGBA = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Canvas:
    """Header and lifetime that all shapes of a MarkerArray share."""

    frame: str
    stamp_ns: int
    lifetime_s: float = 0.0  # 0: no limit


@dataclass(frozen=True, slots=True)
class Shape:
    """One marker in the plane."""

    namespace: str
    number: int
    kind: int  # Marker.LINE_LIST, Marker.CYLINDER, ...
    pose: Pose2 = field(default_factory=Pose2)
    height_m: float = 0.0
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    colour: RGBA = (0.0, 0.0, 0.0, 1.0)
    points: Array = field(default_factory=lambda: np.empty((0, 2)))  # (N, 2)
    colours: Array = field(default_factory=lambda: np.empty((0, 4)))  # (N, 4), or empty: ``colour`` for all
    text: str = ""
    action: int = Marker.ADD


def to_wire(shapes: Sequence[Shape], canvas: Canvas) -> bytes | MarkerArray:
    """Argument for ``publish``: serialised where the layout is as expected, else the message."""
    return to_bytes(shapes, canvas) if bytes_are_right() else to_marker_array(shapes, canvas)


# As message objects


def to_marker_array(shapes: Sequence[Shape], canvas: Canvas) -> MarkerArray:
    """The shapes as a message."""
    return MarkerArray(markers=[_marker(s, canvas) for s in shapes])


def _marker(shape: Shape, canvas: Canvas) -> Marker:
    marker = Marker(header=convert.header(canvas.frame, canvas.stamp_ns), ns=shape.namespace, id=shape.number)
    marker.type, marker.action, marker.text = shape.kind, shape.action, shape.text
    marker.pose = convert.to_pose(shape.pose)
    marker.pose.position.z = float(shape.height_m)
    marker.scale.x, marker.scale.y, marker.scale.z = map(float, shape.scale)
    marker.color = _colour(shape.colour)
    lifetime_ns = round(canvas.lifetime_s * NS_PER_S)
    marker.lifetime.sec, marker.lifetime.nanosec = divmod(lifetime_ns, NS_PER_S)
    marker.points = [Point(x=x, y=y) for x, y in shape.points.tolist()]
    marker.colors = [_colour(c) for c in shape.colours.tolist()]
    return marker


def _colour(rgba: Sequence[float]) -> ColorRGBA:
    r, g, b, a = map(float, rgba)
    return ColorRGBA(r=r, g=g, b=b, a=a)


# As bytes


def to_bytes(shapes: Sequence[Shape], canvas: Canvas) -> bytes:
    """The shapes as a serialised message: CDR, little endian."""
    cdr = CdrWriter()
    cdr.put("I", len(shapes))
    for shape in shapes:
        _put_marker(cdr, shape, canvas)
    return cdr.finish()


def _put_marker(cdr: CdrWriter, shape: Shape, canvas: Canvas) -> None:
    cdr.header(canvas.frame, canvas.stamp_ns)
    cdr.text(shape.namespace)
    cdr.put("iii", shape.number, shape.kind, shape.action)
    pose = convert.to_pose(shape.pose)
    cdr.put("ddd", pose.position.x, pose.position.y, shape.height_m)
    cdr.put("dddd", 0.0, 0.0, pose.orientation.z, pose.orientation.w)
    cdr.put("ddd", *shape.scale)
    cdr.put("ffff", *shape.colour)
    cdr.put("iI", *divmod(round(canvas.lifetime_s * NS_PER_S), NS_PER_S))
    cdr.put("?", False)  # frame_locked
    cdr.rows(np.column_stack([shape.points, np.zeros(len(shape.points))]), "<f8")
    cdr.rows(shape.colours, "<f4")
    cdr.text("")  # texture_resource
    cdr.put("iI", 0, 0)  # texture: an empty image
    cdr.text("")
    cdr.text("")
    cdr.put("I", 0)
    cdr.put("I", 0)  # uv_coordinates
    cdr.text(shape.text)
    cdr.text("")  # mesh_resource
    cdr.text("")  # mesh_file
    cdr.put("I", 0)
    cdr.put("?", False)  # mesh_use_embedded_materials


@cache
def bytes_are_right() -> bool:
    """Whether ROS deserialises ``to_bytes`` of a small example to the message of ``to_marker_array``."""
    two = np.array([[1.0, 2.0], [3.0, 4.0]])
    shapes = [
        Shape("paths", 1, Marker.LINE_LIST, Pose2(1.0, 2.0, 0.5), 0.1, points=two, colours=np.full((2, 4), 0.5)),
        Shape("names", 2, Marker.TEXT_VIEW_FACING, text="kitchen"),
    ]
    canvas = Canvas("map", 1_700_000_000_123_456_789, 1.5)
    try:
        read = deserialize_message(to_bytes(shapes, canvas), MarkerArray)
    except Exception:  # another layout fails in unforeseen ways
        return False
    return bool(read == to_marker_array(shapes, canvas))
