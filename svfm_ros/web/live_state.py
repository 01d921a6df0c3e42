"""The latest state of everything the live page shows, as binary frames.

A frame is a sequence of sections: one byte with the letter of its kind, four bytes with its length (little endian), its
payload. A page gets in each frame the sections that changed since its last frame, each in its latest state: one that
slept has nothing to catch up with but one frame.
"""

import json
import math
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svfm_ros.report.drawn_plan import known_bounds, map_picture
from svfm_ros.types import OccupancyGrid
from svfm_ros.wall_angle import wall_angle

__all__ = ["LatestState", "density_bytes", "json_bytes", "map_bytes", "path_bundle_bytes", "polyline_bytes"]

_CM = 100.0
_MOST_CM = 32767
_LONGEST_DELTA = 126
_POINTS = 17  # of each path at most


class LatestState:
    """Sections by kind, each replaced by its newer version; ``put`` may be called from any thread."""

    def __init__(self, on_error: Callable[[Exception], None] = lambda _error: None) -> None:
        self._lock = threading.Lock()
        self._sections: dict[str, _Section] = {}
        self._version = 0
        self.on_error = on_error
        self.on_change: Callable[[], None] = lambda: None

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._version

    def put(self, kind: str, encode: Callable[[], bytes]) -> None:
        """Replace the section ``kind`` (one letter); ``encode`` is called only when a page needs it."""
        with self._lock:
            self._version += 1
            self._sections[kind] = _Section(kind, self._version, encode)
        self.on_change()

    def frame_since(self, version: int) -> tuple[bytes, int]:
        """All sections that are newer than ``version``, and the version they bring a page to."""
        with self._lock:
            now = self._version
            newer = [section for section in self._sections.values() if section.version > version]
        return b"".join(self._encoded(section) for section in newer), now

    def _encoded(self, section: "_Section") -> bytes:
        try:
            return section.encoded()
        except Exception as error:  # one message that cannot be shown must not end the page
            self.on_error(error)
            section.data = b""
            return b""


class _Section:
    """A payload that is encoded once, when it is first sent."""

    __slots__ = ("data", "encode", "kind", "version")

    def __init__(self, kind: str, version: int, encode: Callable[[], bytes]) -> None:
        self.kind, self.version, self.encode = kind, version, encode
        self.data: bytes | None = None

    def encoded(self) -> bytes:
        if self.data is None:
            payload = self.encode()
            self.data = struct.pack("<cI", self.kind.encode(), len(payload)) + payload
        return self.data


def json_bytes(value: Any) -> bytes:
    """JSON in UTF-8; numbers that are not finite become null."""
    return json.dumps(_finite(value), separators=(",", ":"), ensure_ascii=False).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def polyline_bytes(xy: ArrayLike) -> bytes:
    """Positions ``(N, 2)`` in whole centimetres, as 16 bit integers; what lies farther than 327 m is clipped."""
    centimetres = np.clip(np.round(np.asarray(xy, dtype=float) * _CM), -_MOST_CM, _MOST_CM)
    return np.nan_to_num(centimetres).astype("<i2").tobytes()


def path_bundle_bytes(samples_xy: NDArray[np.floating[Any]], ends: ArrayLike) -> bytes:
    """Sampled paths ``(S, K, 2)`` and the index of the place each ends at ``(S,)``: about 35 bytes a path.

    Header: paths and points (16 bit), origin in metres and metres per unit (32 bit floats). Then for each path the
    steps from the origin on as pairs of signed bytes, and the ends as signed bytes. Positions are rounded before steps
    are taken, so that rounding does not add up.
    """
    kept = np.unique(np.linspace(0, samples_xy.shape[1] - 1, min(_POINTS, samples_xy.shape[1])).round().astype(int))
    xy = np.asarray(samples_xy[:, kept], dtype=np.float64)
    origin = xy[:, 0].mean(axis=0).astype(np.float32).astype(np.float64)
    steps_m = np.diff(np.concatenate([np.broadcast_to(origin, (len(xy), 1, 2)), xy], axis=1), axis=1)
    unit_m = float(np.float32(max(1.0 / _CM, float(np.abs(steps_m).max(initial=0.0)) / _LONGEST_DELTA)))
    rounded = np.round((xy - origin) / unit_m).astype(np.int32)
    steps = np.diff(rounded, axis=1, prepend=0).astype(np.int8)
    head = struct.pack("<HHfff", len(xy), xy.shape[1], float(origin[0]), float(origin[1]), unit_m)
    return bytes(head + steps.tobytes() + np.asarray(ends, dtype=np.int8).tobytes())


def map_bytes(grid: OccupancyGrid) -> bytes:
    """Geometry of the map, how to draw it, and its cells as a PNG.

    Resolution, x, y, theta (32 bit floats), columns and rows (16 bit integers); angle of the walls and x0, y0, x1, y1
    of the known part after turning by it (32 bit floats).
    """
    height, width = grid.prob.shape
    at, turn = grid.T_map_grid, wall_angle(grid)
    box = known_bounds(grid, turn) or [0.0] * 4
    head = struct.pack("<ffffHH", grid.resolution_m, at.x, at.y, at.theta, width, height)
    return head + struct.pack("<fffff", turn, *box) + map_picture(grid)


def density_bytes(grid: OccupancyGrid) -> bytes:
    """Geometry as of a map, then the number of cells above 0, their indices (32 bit) and their values in percent."""
    height, width = grid.prob.shape
    at = grid.T_map_grid
    percent = np.round(100.0 * np.nan_to_num(grid.prob)).astype(np.uint8).ravel()
    cells = np.flatnonzero(percent)
    head = struct.pack("<ffffHHI", grid.resolution_m, at.x, at.y, at.theta, width, height, len(cells))
    return head + cells.astype("<u4").tobytes() + percent[cells].tobytes()
