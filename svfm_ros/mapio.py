"""Occupancy grids as files in nav2 map_server's format: a YAML sheet beside a PGM picture (trinary mode).

A PGM's first row is the *top* of the picture, our row 0 is the lowest y: rows are flipped on the way in and out.
"""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from svfm_ros.atomic_files import make_folder, read_regular, read_yaml, write_whole
from svfm_ros.errors import DataError, short
from svfm_ros.types import FREE_UP_TO, OCCUPIED_FROM, OccupancyGrid, Pose2

__all__ = ["load_map", "save_map"]

# In files, as map_saver of ROS 1 has it: the grey of unknown (205) reads as 0.19608, which must not pass for free.
_FILE_FREE_THRESH = 0.196
_BLACK, _WHITE, _GREY = 0, 254, 205  # the grey values map_saver writes
_MODES = ("trinary",)
_FARTHEST = 1e7  # metres from the origin: UTM northings go up to this
_MOST_PICTURE_BYTES = 1 << 30
_UNKNOWN_PROB = np.float32(np.nan)


def save_map(grid: OccupancyGrid, yaml_path: Path) -> None:
    """Write ``NAME.pgm``, then ``NAME.yaml``; cells between the thresholds become unknown, as map_saver does."""
    yaml_path = Path(yaml_path)
    image = np.full(grid.prob.shape, _GREY, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        image[grid.prob >= OCCUPIED_FROM] = _BLACK
        image[grid.prob <= FREE_UP_TO] = _WHITE
    pgm_path = yaml_path.with_suffix(".pgm")
    sheet = {
        "image": pgm_path.name,
        "mode": "trinary",
        "resolution": float(grid.resolution_m),
        "origin": [float(v) for v in grid.T_map_grid.as_array()],
        "negate": 0,
        "occupied_thresh": OCCUPIED_FROM,
        "free_thresh": _FILE_FREE_THRESH,
    }
    try:
        make_folder(yaml_path.parent)
        write_whole(pgm_path, _as_pgm(image[::-1]))
        write_whole(yaml_path, yaml.safe_dump(sheet, sort_keys=False).encode())
    except OSError as error:
        raise DataError(f"cannot write the map {yaml_path}: {error.strerror}") from error


def load_map(yaml_path: Path) -> OccupancyGrid:
    """Read a map_server map; occupied 1, free 0, unknown NaN."""
    yaml_path = Path(yaml_path)
    sheet = _read_sheet(yaml_path)
    grey = _read_pgm(yaml_path.parent / sheet.image)[::-1]
    shade = grey / 255.0 if sheet.negate else 1.0 - grey / 255.0
    prob = np.full(grey.shape, _UNKNOWN_PROB, dtype=np.float32)
    prob[shade > sheet.occupied_thresh] = 1.0
    prob[shade < sheet.free_thresh] = 0.0
    return OccupancyGrid(prob, sheet.resolution_m, sheet.T_map_grid)


@dataclass(frozen=True, slots=True)
class _MapSheet:
    """What the YAML file says."""

    image: str
    resolution_m: float
    T_map_grid: Pose2
    negate: bool
    occupied_thresh: float
    free_thresh: float


def _read_sheet(path: Path) -> _MapSheet:
    sheet = read_yaml(path, "a map of map_server")
    missing = [k for k in ("image", "resolution", "origin") if not isinstance(sheet, dict) or k not in sheet]
    if missing:
        raise DataError(f"{path}: expected a map with image, resolution and origin, but {missing[0]} is missing")
    mode, image, origin = sheet.get("mode", "trinary"), sheet["image"], sheet["origin"]
    if mode not in _MODES:
        raise DataError(f"{path}: expected mode {' or '.join(_MODES)}, got {short(mode)}")
    if not isinstance(image, str) or not image or "\0" in image:
        raise DataError(f"{path}: expected the name of a picture as image, got {short(image)}")
    if (
        not isinstance(origin, list)
        or len(origin) != 3
        or not all(_is_within(v, -_FARTHEST, _FARTHEST) for v in origin)
    ):
        raise DataError(f"{path}: expected an origin [x, y, yaw] in metres and radians, got {short(origin)}")
    return _MapSheet(
        image,
        _number(path, sheet, "resolution", None, 1e-4, 100.0),
        Pose2(*map(float, origin)),
        bool(_number(path, sheet, "negate", 0.0, 0.0, 1.0)),
        _number(path, sheet, "occupied_thresh", OCCUPIED_FROM, 0.0, 1.0),
        _number(path, sheet, "free_thresh", _FILE_FREE_THRESH, 0.0, 1.0),
    )


def _number(path: Path, sheet: dict[str, Any], key: str, default: float | None, low: float, high: float) -> float:
    value: Any = sheet.get(key, default)
    if not _is_within(value, low, high):
        raise DataError(f"{path}: expected {key} as a number from {low:g} to {high:g}, got {short(value)}")
    return float(value)


def _is_within(value: Any, low: float, high: float) -> bool:
    return isinstance(value, (int, float)) and low <= value <= high


def _as_pgm(image: NDArray[np.uint8]) -> bytes:
    height, width = image.shape
    return b"P5\n%d %d\n255\n" % (width, height) + np.ascontiguousarray(image).tobytes()


def _read_pgm(path: Path) -> NDArray[np.float64]:
    """The grey values ``(H, W)`` of a PGM of 8 bits."""
    from PIL import Image, UnidentifiedImageError

    data = read_regular(path, _MOST_PICTURE_BYTES)
    try:
        with Image.open(io.BytesIO(data), formats=("PPM",)) as picture:
            if picture.mode != "L":
                raise ValueError(f"a picture of mode {picture.mode}")
            return np.asarray(picture, dtype=np.float64)
    # Pillow reports damage by more errors than it documents.
    except Exception as error:
        got = "another file" if isinstance(error, UnidentifiedImageError) else str(error)
        raise DataError(f"{path}: expected a whole PGM with 8 bits a pixel, got {got}") from error
