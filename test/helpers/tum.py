"""Trajectories in the format of the TUM benchmark, read back."""

from decimal import Decimal
from pathlib import Path

import numpy as np


def read_tum(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Stamps ``(T,)`` in nanoseconds and poses ``(T, 3)``."""
    rows = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    stamps = np.array([int(Decimal(row[0]) * 10**9) for row in rows], dtype=np.int64)
    values = np.array([[float(word) for word in row[1:]] for row in rows]).reshape(-1, 7)
    return stamps, np.column_stack([values[:, :2], 2.0 * np.arctan2(values[:, 5], values[:, 6])])
