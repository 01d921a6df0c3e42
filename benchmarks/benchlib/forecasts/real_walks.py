"""Real people, tracked from above: THÖR, ETH/UCY and Edinburgh, as walks in metres, from a folder with their files.

A track is one person's way through the scene and stays whole: splits go by time, so the past forecasts the future, and
nobody's track is on both sides. Tracks are not walks from rest to rest: people enter and leave while walking.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from svfm_ros.config.walk_config import WindowsConfig
from svfm_ros.errors import DataError
from svfm_ros.types import Walk, WalkWindows
from svfm_ros.walks.windows import make_windows

__all__ = [
    "DT_S",
    "ETH_UCY",
    "as_windows",
    "load_edinburgh",
    "load_eth_ucy",
    "load_thor",
    "tracks",
]

Array = NDArray[np.float64]

DT_S = 0.4
"""The tick of pedestrian benchmarks: 2.5 positions per second."""

ETH_UCY = {
    "eth": ("biwi_eth",),
    "hotel": ("biwi_hotel",),
    "univ": ("students001", "students003"),
    "zara1": ("crowds_zara01",),
    "zara2": ("crowds_zara02",),
}
"""Scenes of ETH/UCY and the files they are tested on."""

_FRAMES_PER_STEP = 10.0
_PIXEL_M, _FRAME_S = 0.0247, 1.0 / 9.0  # Edinburgh: 24.7 mm a pixel, about 9 frames a second


def load_eth_ucy(folder: Path, scene: str) -> list[Walk]:
    """One scene: frame, id, x and y in each line."""
    if scene not in ETH_UCY:
        raise DataError(f"expected a scene among {', '.join(ETH_UCY)}, got {scene!r}")
    walks = []
    for i, name in enumerate(ETH_UCY[scene]):
        table = _table(Path(folder) / "eth_ucy" / f"{name}.txt", None)
        walks += tracks(f"{name}-", table[:, 0] / _FRAMES_PER_STEP * DT_S + 1e5 * i, table[:, 1], table[:, 2:4])
    return walks


def load_thor(folder: Path) -> list[Walk]:
    """Time, id, x, y, speed and heading in each line."""
    table = _table(Path(folder) / "thor" / "thor1_exp-1-run-2.csv", ",")
    return tracks("thor-", table[:, 0], table[:, 1], table[:, 2:4])


def load_edinburgh(folder: Path) -> list[Walk]:
    """Tracks of one day as lists of [x y frame], in pixels."""
    path = Path(folder) / "tracks.01Aug.txt"
    walks = []
    for number, cells in re.findall(r"TRACK\.R(\d+)=\[(.*?)\];?\s*$", _text(path), flags=re.MULTILINE):
        rows = np.array([[float(v) for v in cell.split()] for cell in re.findall(r"\[([-\d. ]+)\]", cells)])
        if len(rows) > 1:
            walks += tracks(f"edinburgh-{number}-", rows[:, 2] * _FRAME_S, np.zeros(len(rows)), rows[:, :2] * _PIXEL_M)
    if not walks:
        raise DataError(f"{path}: expected tracks, got none")
    return walks


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def _table(path: Path, delimiter: str | None) -> Array:
    _text(path)
    return np.loadtxt(path, delimiter=delimiter, ndmin=2)


def tracks(prefix: str, times_s: Array, ids: Array, xy: Array) -> list[Walk]:
    """One walk for each id, positions in order of time; single positions are left out."""
    walks = []
    for one in np.unique(ids):
        mine = np.flatnonzero(ids == one)
        order = mine[np.argsort(times_s[mine], kind="stable")]
        stamps = np.round(times_s[order] * 1e9).astype(np.int64)
        fresh = np.concatenate([[True], np.diff(stamps) > 0])
        if fresh.sum() > 1:
            poses = np.column_stack([xy[order][fresh], np.zeros(int(fresh.sum()))])
            name = f"{prefix}{one:g}"
            walks.append(Walk(name, "", stamps[fresh], poses))
    return walks


def as_windows(walks: Sequence[Walk]) -> WalkWindows:
    """On the tick of pedestrian benchmarks; tracks are split where nobody saw the person for a while."""
    return make_windows(walks, WindowsConfig(dt_s=DT_S, max_gap_s=1.5))
