"""Occupancy grids as files in nav2 map_server's format: a YAML sheet beside a PGM picture (trinary mode).

A PGM's first row is the *top* of the picture, our row 0 is the lowest y: rows are flipped on the way in and out.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from svfm_ros.errors import DataError
from svfm_ros.types import OccupancyGrid, Pose2

__all__ = ["load_map", "save_map"]

OCCUPIED_THRESH = 0.65
FREE_THRESH = 0.25
# In files, as map_saver of ROS 1 has it: the grey of unknown (205) reads as 0.19608, which must not pass for free.
_FILE_FREE_THRESH = 0.196
_OCCUPIED, _FREE, _UNKNOWN = 0, 254, 205  # the grey values map_saver writes
_UNKNOWN_PROB = np.float32(np.nan)


def save_map(grid: OccupancyGrid, yaml_path: Path) -> None:
    """Write ``NAME.yaml`` and ``NAME.pgm``; cells between the thresholds become unknown, as map_saver does."""
    yaml_path = Path(yaml_path)
    yaml_path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full(grid.prob.shape, _UNKNOWN, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        image[grid.prob >= OCCUPIED_THRESH] = _OCCUPIED
        image[grid.prob <= FREE_THRESH] = _FREE
    pgm_path = yaml_path.with_suffix(".pgm")
    _write_pgm(pgm_path, image[::-1])
    origin = [float(v) for v in grid.T_map_grid.as_array()]
    sheet = {
        "image": pgm_path.name,
        "mode": "trinary",
        "resolution": float(grid.resolution_m),
        "origin": origin,
        "negate": 0,
        "occupied_thresh": OCCUPIED_THRESH,
        "free_thresh": _FILE_FREE_THRESH,
    }
    yaml_path.write_text(yaml.safe_dump(sheet, sort_keys=False))


def load_map(yaml_path: Path) -> OccupancyGrid:
    """Read a map_server map; occupied 1, free 0, unknown NaN."""
    yaml_path = Path(yaml_path)
    sheet = _read_sheet(yaml_path)
    grey = _read_pgm(yaml_path.parent / str(sheet["image"]))[::-1]
    shade = grey / 255.0 if int(sheet.get("negate", 0)) else 1.0 - grey / 255.0
    prob = np.full(grey.shape, _UNKNOWN_PROB, dtype=np.float32)
    prob[shade > float(sheet.get("occupied_thresh", OCCUPIED_THRESH))] = 1.0
    prob[shade < float(sheet.get("free_thresh", _FILE_FREE_THRESH))] = 0.0
    return OccupancyGrid(prob, float(sheet["resolution"]), Pose2.from_array(sheet["origin"]))


def _read_sheet(path: Path) -> dict[str, Any]:
    try:
        sheet = yaml.safe_load(path.read_text())
    except OSError as error:
        raise DataError(f"cannot read the map {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a map_server YAML file: {error}") from error
    missing = [k for k in ("image", "resolution", "origin") if not isinstance(sheet, dict) or k not in sheet]
    if missing:
        raise DataError(f"{path}: expected a map with image, resolution and origin, but {missing[0]} is missing")
    if not float(sheet["resolution"]) > 0 or len(sheet["origin"]) != 3 or not all(map(math.isfinite, sheet["origin"])):
        raise DataError(f"{path}: expected resolution > 0 and origin [x, y, yaw], got {sheet}")
    return dict(sheet)


def _write_pgm(path: Path, image: NDArray[np.uint8]) -> None:
    height, width = image.shape
    path.write_bytes(b"P5\n%d %d\n255\n" % (width, height) + np.ascontiguousarray(image).tobytes())


def _read_pgm(path: Path) -> NDArray[np.float64]:
    """A binary PGM of 8 bits; comments in its header are skipped."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the map picture {path}: {error.strerror}") from error
    fields, at = _pgm_header(data)
    if len(fields) < 4 or fields[0] != b"P5" or fields[3] != b"255" or not all(f.isdigit() for f in fields[1:3]):
        raise DataError(f"{path}: expected a binary PGM (P5) with 8 bits a pixel, got {data[:2]!r}")
    width, height = int(fields[1]), int(fields[2])
    pixels = np.frombuffer(data, dtype=np.uint8, offset=at)
    if pixels.size < width * height:
        raise DataError(f"{path}: expected {width} x {height} pixels, got {pixels.size}: the file is cut off")
    return pixels[: width * height].reshape(height, width).astype(float)


def _pgm_header(data: bytes) -> tuple[list[bytes], int]:
    fields: list[bytes] = []
    at = 0
    while len(fields) < 4 and at < len(data):
        if data[at : at + 1] == b"#":
            at = data.find(b"\n", at) + 1 or len(data)
        elif data[at : at + 1].isspace():
            at += 1
        else:
            end = at
            while end < len(data) and not data[end : end + 1].isspace():
                end += 1
            fields.append(data[at:end])
            at = end
    return fields, at + 1
