"""The memory of SLAM is that of its own process."""

from pathlib import Path

import numpy as np
from benchlib.slam_memory import peak_mb

from svfm_ros.sources.open_scans import save_scans
from svfm_ros.types import Scan

_HELD_MB = 600


def test_memory_does_not_count_that_of_the_process_that_measures(tmp_path: Path) -> None:
    ranges = np.full(90, 2.0, dtype=np.float32)
    scans = [Scan(k * 10**8, ranges, 0.0, np.radians(4.0), 0.1, 30.0) for k in range(3)]
    save_scans(scans, tmp_path / "still.npz")
    held = np.ones(_HELD_MB << 20, dtype=np.uint8)
    assert 20.0 < peak_mb(tmp_path / "still.npz") < _HELD_MB
    assert held[-1] == 1
